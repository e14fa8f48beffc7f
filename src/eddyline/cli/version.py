"""`eddyline version`."""

from __future__ import annotations

import argparse

import eddyline
from eddyline.cli.output import Output


def version(args: argparse.Namespace, out: Output) -> int:
    if out.is_json:
        out.document({"version": eddyline.__version__})
    else:
        out.text(f"eddyline {eddyline.__version__}")
    return 0
