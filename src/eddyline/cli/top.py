"""`eddyline top`: a running home on the screen, a frame a second: rates, latency, streams, sinks, alerts, the busiest queries.

Keys: q ends it, p holds the picture, s sorts the queries by something else. Without a terminal frames are printed one after
the other.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from eddyline.cli.output import Output
from eddyline.cli.session import connected, home_of, pipeline_of
from eddyline.control import Remote
from eddyline.documents import size_text
from eddyline.durations import span_text
from eddyline.errors import HomeError

SORTS = ("results", "rate", "dead", "name")
QUERIES_ASKED, QUERIES_SHOWN = 200, 12
ROUNDS_ASKED = 100
MESSAGES_SHOWN = 5
WIDTH = 110  # where there is no terminal to ask


@dataclass(frozen=True, slots=True)
class TopFrame:
    """What was asked at one moment."""

    at_s: float
    home: str
    counters: Mapping[str, Any]
    rounds: Sequence[Mapping[str, Any]]  # newest first
    queries: Mapping[str, Any]
    messages: Sequence[Mapping[str, Any]]


def top(args: argparse.Namespace, out: Output) -> int:
    home = home_of(args, pipeline_of(args))
    remote = connected(home)
    if remote is None:
        raise HomeError(
            f"no process runs the home {home}",
            hint="Start it with eddyline run or eddyline serve; eddyline rounds shows what the last rounds took.",
        )
    with contextlib.closing(remote):
        frame = _frame_of(remote, str(home))
        if out.is_json:
            return _lines(args, out, remote, frame)
        if args.once:
            _print(drawn(frame, None, args.sort))
        elif out.is_terminal:
            _watch(args, remote, frame)
        else:
            _print_on(args, remote, frame)
    return 0


def _frame_of(remote: Remote, home: str) -> TopFrame:
    def ask(command: str, **arguments: Any) -> Any:
        return remote.call(command, arguments, lambda what, done, of: None)

    return TopFrame(
        time.monotonic(),
        home,
        ask("counters"),
        ask("rounds", newest=ROUNDS_ASKED),
        ask("busiest", most=QUERIES_ASKED),
        ask("messages", newest=MESSAGES_SHOWN),
    )


def _lines(args: argparse.Namespace, out: Output, remote: Remote, frame: TopFrame) -> int:
    """For programs: a line of JSON for every frame."""
    while True:
        out.line({"counters": frame.counters, "queries": frame.queries, "messages": frame.messages})
        if args.once:
            return 0
        time.sleep(args.every)
        frame = _frame_of(remote, frame.home)


def _print_on(args: argparse.Namespace, remote: Remote, frame: TopFrame) -> None:
    before: TopFrame | None = None
    while True:
        _print(drawn(frame, before, args.sort))
        print(flush=True)
        time.sleep(args.every)
        frame, before = _frame_of(remote, frame.home), frame


def _print(picture: RenderableType) -> None:
    is_terminal = sys.stdout.isatty()
    width = None if is_terminal or "COLUMNS" in os.environ else WIDTH
    Console(highlight=False, width=width).print(picture)


def _watch(args: argparse.Namespace, remote: Remote, frame: TopFrame) -> None:
    """The screen of a terminal, until q."""
    before: TopFrame | None = None
    sort, is_held = args.sort, False
    with _keys() as pressed, Live(screen=True, auto_refresh=False, console=Console(highlight=False)) as live:
        while True:
            live.update(drawn(frame, before, sort, is_held=is_held, has_keys=True), refresh=True)
            key = pressed(args.every)
            if key == "q":
                return
            if key == "p":
                is_held = not is_held
            elif key == "s":
                sort = SORTS[(SORTS.index(sort) + 1) % len(SORTS)]
            elif key is None and not is_held:
                frame, before = _frame_of(remote, frame.home), frame


@contextlib.contextmanager
def _keys() -> Iterator[Any]:
    """A function that waits some seconds for a key; None if none came. Without a terminal to type on, none ever does."""
    if not sys.stdin.isatty():
        yield time.sleep
        return
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)

    def pressed(seconds: float) -> str | None:
        ready, _, _ = select.select([descriptor], [], [], seconds)
        return os.read(descriptor, 1).decode(errors="replace").lower() if ready else None

    try:
        tty.setcbreak(descriptor)
        yield pressed
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


# --------------------------------------------------------------------------------------------- the picture


def drawn(
    frame: TopFrame, before: TopFrame | None, sort: str, *, is_held: bool = False, has_keys: bool = False
) -> RenderableType:
    """One frame. Rates are since the one before; in a first frame, over the last rounds."""
    parts: list[RenderableType] = [_head(frame, is_held), _rates(frame, before), _latency(frame)]
    parts += [_streams(frame, before), *_sinks(frame), *_alerts(frame), *_queries(frame, before, sort)]
    if has_keys:
        parts.append(
            Text(f"\nq quit   p {'go on' if is_held else 'pause'}   s sort (by {sort})", style="dim")
        )
    return Group(*parts)


def _head(frame: TopFrame, is_held: bool) -> Text:
    found = frame.counters
    queries = ", ".join(f"{n:,} {state}" for state, n in found["queries"].items() if n or state == "running")
    up_s = (found["at_us"] - found["opened_us"]) / 1e6
    text = Text(f"eddyline  {frame.home}", style="bold")
    text.append(
        f"   up {span_text(up_s)}   round {found['last_round']:,}   version {found['version']:,}   ",
        style="default",
    )
    text.append(f"queries: {queries}", style="default")
    if is_held:
        text.append("   PAUSED", style="bold yellow")
    return text


def _rates(frame: TopFrame, before: TopFrame | None) -> Text:
    found, rates = frame.counters, _per_s(frame, before)
    in_all = found | found["total"]
    text = Text("\n")
    for name, total in (("rounds", "n_rounds"), ("rows", "n_rows"), ("results", "n_results")):
        rate = "" if rates is None else f" ({_number(rates[total])}/s)"
        text.append(f"{name} {in_all[total]:,}{rate}   ")
    for name, total in (("late", "n_late"), ("dead", "n_dead"), ("failed rounds", "n_rounds_failed")):
        n = in_all[total]
        text.append(f"{name} {n:,}   ", style="red" if n and total == "n_rounds_failed" else "")
    return text


def _per_s(frame: TopFrame, before: TopFrame | None) -> dict[str, float] | None:
    if before is not None and frame.at_s > before.at_s:
        seconds = frame.at_s - before.at_s
        names = ("n_rounds", "n_rows", "n_results")
        return {name: (frame.counters[name] - before.counters[name]) / seconds for name in names}
    rounds = [each for each in frame.rounds if each["at_us"] >= frame.counters["opened_us"]]
    if len(rounds) < 2:
        return None
    newest, oldest = rounds[0], rounds[-1]
    seconds = max((newest["at_us"] - oldest["at_us"]) / 1e6, 1e-3)
    later = rounds[:-1]
    return {
        "n_rounds": len(later) / seconds,
        "n_rows": sum(each["n_rows"] for each in later) / seconds,
        "n_results": sum(each["n_results"] for each in later) / seconds,
    }


def _latency(frame: TopFrame) -> Text:
    seconds = sorted(each["seconds"] for each in frame.rounds)
    if not seconds:
        return Text("no rounds yet")
    middle, high = seconds[len(seconds) // 2], seconds[min(len(seconds) - 1, int(len(seconds) * 0.99))]
    return Text(
        f"last {len(seconds)} rounds: median {1e3 * middle:.1f} ms, 99 % {1e3 * high:.1f} ms, longest {1e3 * seconds[-1]:.1f} ms"
        f"   index {size_text(frame.counters['index_bytes'])}{_home_text(frame.counters['store'])}"
    )


def _home_text(store: Mapping[str, Any] | None) -> str:
    if store is None:
        return ""
    nbytes = store["catalog_bytes"] + sum(nbytes for _, nbytes in store["kinds"].values())
    return f"   home {size_text(nbytes)}, {size_text(store['free_bytes'])} free"


def _streams(frame: TopFrame, before: TopFrame | None) -> Table:
    earlier = {} if before is None else {each["name"]: each for each in before.counters["streams"]}
    table = _table("stream", "rows", "rows/s", "late", "queries", "behind the clock", "index")
    for each in frame.counters["streams"]:
        rate = ""
        if before is not None and each["name"] in earlier:
            new = each["n_rows"] - earlier[each["name"]]["n_rows"]
            rate = _number(max(0, new) / (frame.at_s - before.at_s))
        lag_s = each["watermark_lag_s"]
        table.add_row(
            each["name"],
            f"{each['n_rows']:,}",
            rate,
            f"{each['n_late']:,}",
            f"{each['n_queries']:,}",
            "" if lag_s is None else span_text(lag_s),
            size_text(each["index_bytes"]),
        )
    return table


def _sinks(frame: TopFrame) -> list[RenderableType]:
    if not frame.counters["sinks"]:
        return []
    table = _table("sink", "type", "takes", "behind", "delivered", "failures", "lost", "state")
    for each in frame.counters["sinks"]:
        state = Text(each["message"] or "failing", style="red") if each["is_failing"] else Text("ok")
        numbers = (f"{each[name]:,}" for name in ("n_behind", "n_delivered", "n_failures", "n_lost"))
        table.add_row(each["name"], each["type"], each["takes"], *numbers, state)
    return [table]


def _alerts(frame: TopFrame) -> list[RenderableType]:
    alerts = frame.counters["alerts"]
    if not any(alerts["n_open"].values()) and not alerts["n_fired"] and not frame.messages:
        return []
    n_open = ", ".join(f"{n:,} {state}" for state, n in alerts["n_open"].items())
    text = Text(f"\nalerts: {n_open}; fired {alerts['n_fired']:,}, resolved {alerts['n_resolved']:,}, ")
    text.append(f"suppressed {alerts['n_suppressed']:,}")
    for message in reversed(frame.messages):
        style = "red" if message["status"] == "firing" else "green"
        text.append(f"\n  {message['at']}  {message['status']:<8}  ", style=style)
        text.append(f"{message['query']}: {message['message']}")
    return [text]


def _queries(frame: TopFrame, before: TopFrame | None, sort: str) -> list[RenderableType]:
    earlier = {} if before is None else {each["id"]: each["n_results"] for each in before.queries["results"]}
    known = {each["id"]: each for each in [*frame.queries["results"], *frame.queries["failing"]]}
    if not known:
        return []

    def rate(each: Mapping[str, Any]) -> float:
        if before is None or each["id"] not in earlier:
            return 0.0
        return float(max(0, each["n_results"] - earlier[each["id"]]) / (frame.at_s - before.at_s))

    orders = {
        "results": lambda each: (-each["n_results"], each["name"]),
        "rate": lambda each: (-rate(each), -each["n_results"], each["name"]),
        "dead": lambda each: (-each["n_dead"], -each["n_results"], each["name"]),
        "name": lambda each: (each["name"], each["owner"]),
    }
    table = _table("query", "owner", "state", "results", "results/s", "dead")
    for each in sorted(known.values(), key=orders[sort])[:QUERIES_SHOWN]:
        table.add_row(
            Text(each["name"]),
            Text(each["owner"]),
            each["state"],
            f"{each['n_results']:,}",
            "" if before is None else _number(rate(each)),
            Text(f"{each['n_dead']:,}", style="red" if each["n_dead"] else ""),
        )
    return [table]


def _table(*headers: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", title="")
    words = ("stream", "sink", "query", "type", "takes", "state", "owner")
    for header in headers:
        is_word = header in words
        table.add_column(
            header, justify="left" if is_word else "right", overflow="ellipsis", no_wrap=header != "state"
        )
    return table


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"
