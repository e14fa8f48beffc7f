"""`eddyline receipt` and `eddyline prove`."""

from __future__ import annotations

import argparse
from typing import Any

from eddyline.cli.output import Output
from eddyline.cli.session import pipeline_of, session
from eddyline.pipeline import load_functions
from eddyline.proof import Proof
from eddyline.receipts import Receipt
from eddyline.receipts import prove as prove_receipt


def receipt(args: argparse.Namespace, out: Output) -> int:
    with session(args, out) as engine:
        found = engine.call("receipt", result=args.result)
    if out.is_json:
        out.document(found)
    else:
        out.text(str(Receipt(found)))
    return 0


def prove(args: argparse.Namespace, out: Output) -> int:
    """0 if the result is proven, 1 if not. The engine that holds the home judges it if it runs on Spark, else this process."""
    pipeline = pipeline_of(args)
    with session(args, out, pipeline=pipeline) as engine:
        issued = engine.call("receipt", result=args.result)
        answer: dict[str, Any] | None = None
        if engine.is_held:
            answer = engine.call("prove", result=args.result, starts_spark=False)
    if answer is not None:
        proof = Proof(**answer)
    else:
        if pipeline is not None:
            load_functions(pipeline)
        with out.progress("proving"):
            proof = prove_receipt(issued, on_wait=lambda progress: out.note(f"{progress} …"))
    if out.is_json:
        out.document(proof.as_dict())
    else:
        out.text(str(proof))
    return 0 if proof.is_proven else 1
