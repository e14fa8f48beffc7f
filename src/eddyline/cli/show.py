"""Plans and what became of them, for people."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.text import Text

from eddyline.cli.output import Output

_SIGNS = {"added": ("+", "green"), "changed": ("~", "yellow"), "removed": ("-", "red")}
SHOWN = 20  # refused rows, names


def plan(found: dict[str, Any], out: Output, *, is_pruned: bool) -> None:
    """What would change, each with its cost and warnings; mistakes and refused rows after it."""
    for line in _changes(found, is_pruned):
        out.text(line)
    for trouble in (*_warnings(found), *troubles(found)):
        out.note(trouble)
    out.text(_summary(found, is_pruned))


def applied(done: dict[str, Any], out: Output, *, is_pruned: bool) -> None:
    """What was done."""
    found, after = done["plan"], done["applied"]
    for line in _changes(found, is_pruned):
        out.text(line)
    for trouble in (*_warnings(found), *troubles(found)):
        out.note(trouble)
    counts_text = counts(after, ("added", "changed", "removed"))
    n_streams = sum(stream["change"] != "unchanged" for stream in found["streams"])
    counts_text = ", ".join(
        part for part in (counts_text, f"{plural(n_streams, 'stream')} declared" if n_streams else "") if part
    )
    if not counts_text:
        out.text(
            f"nothing to do: {plural(after['unchanged'], 'query')} unchanged, version {after['version']}"
        )
    elif done["dry_run"]:
        out.text(f"would be: {counts_text}")
    else:
        out.text(f"{counts_text}; version {after['version']}")


def _warnings(found: dict[str, Any]) -> Iterator[str]:
    """About the whole, not one rule."""
    return (f"warning: {warning}" for warning in found["warnings"])


def _changes(found: dict[str, Any], is_pruned: bool) -> Iterator[Text]:
    for stream in found["streams"]:
        if stream["change"] != "unchanged":
            new = (
                f": {', '.join(stream['new_columns'])}"
                if stream["change"] == "changed" and stream["new_columns"]
                else ""
            )
            yield _entry(stream["change"], f"stream {stream['name']}{new}", _where(stream))
    for query in found["queries"]:
        if query["change"] != "unchanged":
            yield _entry(query["change"], f"query {_called(query)}", f"{_where(query)}, {query['cost']}")
            yield from _difference(query)
            yield from _tried(query["tried"])
        for warning in query["warnings"]:
            yield Text(f"    warning: {_called(query)} {near_in(warning)}", style="yellow")
    for table in found["tables"]:
        counts_text = counts(table, ("added", "changed", "removed"))
        if counts_text:
            names = table["added_names"][:3] + table["changed_names"][:3]
            example = f": {', '.join(names)} …" if names else ""
            yield _entry(
                "changed",
                f"table {_called(table)}{example}",
                f"{near(table['table'])}, {table['cost']}, {counts_text}",
            )
            yield from _tried_rows(table["tried"])
        for warning in table["warnings"]:
            yield Text(f"    warning: {_called(table)}: {near_in(warning)}", style="yellow")
    if is_pruned:
        names = found["unlisted"]["names"]
        for name in names:
            yield _entry("removed", f"query {name}", "in no file")
        if found["unlisted"]["count"] > len(names):
            yield Text(f"- … and {found['unlisted']['count'] - len(names):,} more")


def rollback_changes(done: dict[str, Any]) -> Iterator[Text]:
    """What going back to a version changes."""
    for kind, entries in done["changes"].items():
        for entry in entries:
            yield _entry(kind, f"query {_called(entry)}", f"q{entry['id']}")
            if kind == "changed":
                reason = "text" if entry["before"] not in (None, entry["text"]) else ""
                yield from _difference(entry | {"change": kind, "reason": reason})
        if done[kind] > len(entries):
            yield Text(f"  … and {done[kind] - len(entries):,} more {kind}")


def _entry(change: str, what: str, where: str) -> Text:
    sign, style = _SIGNS[change]
    return Text.assemble((f"{sign} {what}", style), (f"   ({where})", "dim"))


def _difference(query: dict[str, Any]) -> Iterator[Text]:
    """What of a query is another now."""
    if query["change"] != "changed":
        return
    for word, (before, after) in query["properties"].items():
        yield Text(f"    {word}: {before!r} becomes {after!r}")
    if query["reason"] == "text":
        lines = difflib.unified_diff(
            query["before"].splitlines(), query["text"].splitlines(), lineterm="", n=1
        )
        for line in [*lines][2:]:
            if not line.startswith("@@"):
                yield Text(f"    {line}", style={"+": "green", "-": "red"}.get(line[:1], ""))
    elif not query["properties"]:
        yield Text(f"    {query['reason']}")


def _tried(trial: dict[str, Any] | None) -> Iterator[Text]:
    """How recent rows would have fared with a query; nothing where there are none."""
    if trial is None or not (trial["n_rows"] or trial["inputs"]):
        return
    lines = trial["shown"].splitlines()
    shown = lines[:1] + [line for line in lines[1:] if " recent rows of " in line]
    yield from (Text(f"    {line.strip()}", style="cyan") for line in shown)
    for each in trial["errors"][:1]:
        yield Text(f"    for example: {each['message']}", style="yellow")


def _tried_rows(trial: dict[str, Any] | None) -> Iterator[Text]:
    """The same of the first rules of a table."""
    if trial is None or not trial["n_rows"]:
        return
    wrong = f", {trial['n_in_error']:,} could not be decided" if trial["n_in_error"] else ""
    yield Text(
        f"    {trial['n_matching']:,} of its first {plural(trial['n_rules'], 'rule')} would have matched: "
        f"{plural(trial['n_matched'], 'result')} in the last {plural(trial['n_rows'], 'row')}{wrong}",
        style="cyan",
    )


def troubles(found: dict[str, Any]) -> Iterator[str]:
    """Mistakes, and rows of tables that were refused."""
    for mistake in found["mistakes"]:
        yield near_in(mistake["shown"])
    for row in found["refused"][:SHOWN]:
        called = f" ({row['name']})" if row["name"] else ""
        yield f"{near(row['file'])}: row {row['row']}{called}: {row['reason']}"
    if found["n_refused"] > SHOWN:
        yield f"… and {found['n_refused'] - SHOWN:,} more rows were refused"


def _summary(found: dict[str, Any], is_pruned: bool) -> str:
    counts_text = counts(found, ("added", "changed", "removed", "unchanged")) or "there are no rules"
    parts = [counts_text]
    n_unlisted = found["unlisted"]["count"]
    if n_unlisted and not is_pruned:
        parts.append(f"{plural(n_unlisted, 'query')} in no file (--prune would drop them)")
    if found["mistakes"]:
        parts.append(f"{plural(len(found['mistakes']), 'mistake')}: nothing can be applied")
    if found["n_refused"]:
        parts.append(f"{plural(found['n_refused'], 'row')} refused")
    return "; ".join(parts)


def counts(found: dict[str, Any], words: Sequence[str]) -> str:
    """2 added, 1 changed."""
    return ", ".join(f"{found[word]:,} {word}" for word in words if found[word])


def plural(n: int, noun: str) -> str:
    if n == 1:
        return f"1 {noun}"
    return f"{n:,} {noun[:-1]}ies" if noun.endswith("y") else f"{n:,} {noun}s"


def _called(entry: dict[str, Any]) -> str:
    return f"{entry['name']} of {entry['owner']}" if entry["owner"] else str(entry["name"])


def _where(entry: dict[str, Any]) -> str:
    return f"{near(entry['file'])}:{entry['line']}"


def near(path: str) -> str:
    """A path as seen from here, if it is below."""
    here = Path.cwd()
    whole = Path(path)
    return str(whole.relative_to(here)) if whole.is_relative_to(here) else str(whole)


def near_in(text: str) -> str:
    """The same, inside a text."""
    return text.replace(str(Path.cwd()) + os.sep, "")
