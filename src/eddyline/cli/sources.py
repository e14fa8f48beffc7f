"""`eddyline source …`: how far the sources of a running home are."""

from __future__ import annotations

import argparse
from typing import Any

from eddyline.cli.output import Output
from eddyline.cli.session import running
from eddyline.cli.show import plural


def list(args: argparse.Namespace, out: Output) -> int:
    with running(args, out) as engine:
        found = engine.call("sources")
    if out.is_json:
        out.document(found)
        return 0
    headers = ["stream", "type", "position", "behind", "rows", "rows/s", "lag", "status"]
    out.table(headers, [_cells(source) for source in found])
    tell_failures([(source["stream"], source) for source in found], "source", out)
    return 0


def retry(args: argparse.Namespace, out: Output) -> int:
    with running(args, out) as engine:
        done = engine.call("retry_source", stream=args.name)
    return tell_retried(done, "source", out)


def _cells(source: dict[str, Any]) -> tuple[Any, ...]:
    kind = f"{source['type']} {source['what']}".strip()
    if source["type"] == "push":  # nothing but its rows is known
        return source["stream"], kind, "", "", f"{source['n_stream_rows']:,}", "", _lag(source), "ok"
    n_behind = source["n_behind"]
    return (
        source["stream"],
        kind,
        source["position"],
        "unknown" if n_behind is None else f"{n_behind:,} {source['unit']}",
        f"{source['n_stream_rows']:,}",
        f"{source['rows_per_s']:,.1f}",
        _lag(source),
        "failing" if source["is_failing"] else "finished" if source["is_finished"] else "ok",
    )


def _lag(source: dict[str, Any]) -> str:
    """How far event time is behind the clock."""
    lag_s = source["lag_s"]
    if lag_s is None:
        return ""
    for unit, size_s in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if lag_s >= 2 * size_s:
            return f"{lag_s / size_s:,.1f} {unit}"
    return f"{lag_s:.1f} s"


def tell_failures(ends: Any, noun: str, out: Output) -> None:
    """Below the table: what fails and why, and what can be done."""
    for name, end in ends:
        if end["is_failing"]:
            retry_in_s = end["retry_in_s"]
            again = "" if retry_in_s is None else f"; tried again in {retry_in_s:.0f} s"
            error_text = " ".join(str(end.get("message") or end.get("last_error") or "").split())
            out.note(f"{noun} {name} failed {plural(end['n_failures'], 'time')}{again}: {error_text}")
            out.note(f"to try it now: eddyline {noun} retry {name}")


def tell_retried(done: dict[str, Any], noun: str, out: Output) -> int:
    """What a retry answers: whether it went well shows in the list."""
    if out.is_json:
        out.document(done)
    else:
        out.text(f"{noun} {done['retried']} is tried again")
        out.note(f"whether that helped: eddyline {noun} list")
    return 0
