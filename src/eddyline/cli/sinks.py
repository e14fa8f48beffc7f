"""`eddyline sink …`: how far the sinks of a running home are."""

from __future__ import annotations

import argparse
from typing import Any

from eddyline.cli.output import Output
from eddyline.cli.session import running
from eddyline.cli.sources import tell_failures, tell_retried


def list(args: argparse.Namespace, out: Output) -> int:
    with running(args, out) as engine:
        found = engine.call("sinks")
    if out.is_json:
        out.document(found)
        return 0
    headers = ["sink", "type", "takes", "position", "behind", "delivered", "per s", "lost", "status"]
    out.table(headers, [_cells(sink) for sink in found])
    tell_failures([(sink["name"], sink) for sink in found], "sink", out)
    return 0


def retry(args: argparse.Namespace, out: Output) -> int:
    with running(args, out) as engine:
        done = engine.call("retry_sink", name=args.name)
    return tell_retried(done, "sink", out)


def _cells(sink: dict[str, Any]) -> tuple[Any, ...]:
    return (
        sink["name"],
        sink["type"],
        sink["takes"],
        f"{sink['unit'].removesuffix('s')} {sink['cursor']:,}",
        f"{sink['n_behind']:,} {sink['unit']}",
        f"{sink['n_delivered']:,}",
        f"{sink['per_s']:,.1f}",
        f"{sink['n_lost'] + sink['n_refused']:,}",
        "failing" if sink["is_failing"] else "ok",
    )
