"""`eddyline tail`, `deadletters` and `rounds`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

from eddyline.cli.output import Output
from eddyline.cli.parser import CommandError
from eddyline.cli.queries import row_text
from eddyline.cli.session import session
from eddyline.control import Remote
from eddyline.documents import change_mark


def tail(args: argparse.Namespace, out: Output) -> int:
    if args.after is not None and args.reader is not None:
        raise CommandError("--after and --reader exclude each other", hint="A reader has its own position.")
    with ExitStack() as stack:
        engine = stack.enter_context(session(args, out))
        after, newest = args.after, None if args.after is not None else args.newest
        remember: Callable[[int], None] | None = None
        if args.reader is not None:
            after, newest = str(engine.call("cursor", reader=args.reader)["round"]), None
            keeper = engine.commands
            if engine.is_held and engine.home is not None:  # the other connection is busy with results
                keeper = stack.enter_context(closing(Remote(engine.home)))

            def remember(number: int) -> None:
                keeper.call("set_cursor", {"reader": args.reader, "round": number}, _quiet)

        follows = engine.is_held and not args.no_follow
        if not engine.is_held and not args.no_follow:
            out.note(f"no process holds {engine.home}: these are the stored results")
        selection = {"queries": args.queries, "owner": args.owner, "newest": newest, "after": after}
        answer = engine.commands.call("tail", selection | {"follow": follows}, _quiet)
        if answer is not None:
            _show(answer, remember, out)
    return 0


def _show(
    items: Iterator[dict[str, Any] | None], remember: Callable[[int], None] | None, out: Output
) -> None:
    """Print results. A reader's place is remembered after every round that was printed whole."""
    last = remembered = 0
    for item in items:
        if remember is not None and last > remembered and (item is None or item["round"] > last):
            remember(last)
            remembered = last
        if item is not None:
            last = item["round"]
            _print(item, out)
    if remember is not None and last > remembered:
        remember(last)


def _print(item: dict[str, Any], out: Output) -> None:
    if out.is_json:
        out.line(item)
        return
    sign = change_mark(item["change"])
    late = "   (late)" if item["is_late"] else ""
    out.text(f"{item['cursor']}  {sign} {item['query']}  {row_text(item['row'])}{late}")


def _quiet(what: str, done: int, of: int) -> None:
    """Following has no end to be far from."""


def deadletters(args: argparse.Namespace, out: Output) -> int:
    with session(args, out) as engine:
        found = engine.call(
            "dead_letters", query=args.query, stream=args.stream, newest=args.newest, owner=args.owner
        )
    if out.is_json:
        out.document(found)
        return 0
    rows = [
        [
            letter["round_number"],
            letter["stream"],
            letter["query"] or "(no query)",
            letter["error"],
            letter["message"],
        ]
        for letter in found["letters"]
    ]
    if rows:
        out.table(["round", "stream", "query", "error", "message"], rows)
    out.note(f"{found['total']:,} in all, {found['kept']:,} can be read, {len(rows)} shown")
    return 0


def rounds(args: argparse.Namespace, out: Output) -> int:
    """What the last rounds took."""
    with session(args, out) as engine:
        found = engine.call("rounds", newest=args.newest)
    if out.is_json:
        out.document(found)
        return 0
    columns = [
        "round",
        "at",
        "rows",
        "results",
        "dead",
        "late",
        "tasks",
        "ms",
        "filters ms",
        "waiting ms",
        "MB",
    ]
    out.table(columns, [_round_cells(record) for record in found])
    return 0


def _round_cells(record: dict[str, Any]) -> list[Any]:
    cpu_s = sum(stage["cpu_s"] for stage in record["stages"])
    nbytes = sum(stage["nbytes"] for stage in record["stages"])
    return [
        record["round_number"],
        record["at"],
        f"{record['n_rows']:,}",
        f"{record['n_results']:,}",
        record["n_dead"],
        record["n_late"],
        record["n_tasks"] or "-",
        f"{1e3 * record['seconds']:.1f}",
        f"{1e3 * cpu_s:.1f}",
        f"{1e3 * record['waiting_s']:.1f}",
        f"{nbytes / 1e6:.2f}",
    ]
