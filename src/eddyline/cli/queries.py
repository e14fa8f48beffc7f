"""`eddyline query …`, `explain` and `why`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from eddyline.cli.output import Output
from eddyline.cli.parser import CommandError
from eddyline.cli.session import session
from eddyline.documents import change_mark, suspended_text
from eddyline.rules import RulesError, desired


def add(args: argparse.Namespace, out: Output) -> int:
    text = _query_text(args)
    properties = pairs(args.set, "--set")
    if args.owner:
        properties["owner"] = args.owner
    params = {name: _value(value) for name, value in pairs(args.param, "--param").items()}
    with session(args, out) as engine:
        registered = engine.call(
            "query_add",
            text=text,
            name=args.name,
            params=params or None,
            properties=properties or None,
            replace=args.replace,
        )
    if out.is_json:
        out.document(registered)
        return 0
    done = "added" if registered["is_new"] else "replaced" if registered["is_changed"] else "unchanged"
    out.text(f"{done}: {registered['name']}, number {registered['id']}, version {registered['version']}")
    for warning in registered["warnings"]:
        out.note(f"warning: {warning}")
    return 0


def _query_text(args: argparse.Namespace) -> str:
    if (args.text is None) == (args.file is None):
        raise CommandError(
            "query add takes one SQL text",
            hint='Try eddyline query add --name all "SELECT * FROM trades", or --file FILE.',
        )
    if args.file is not None:
        return read_file(args.file)
    return sys.stdin.read() if args.text == "-" else str(args.text)


def drop(args: argparse.Namespace, out: Output) -> int:
    with session(args, out) as engine:
        done = engine.call("query_drop", queries=args.queries, owner=args.owner, cascade=args.cascade)
    if out.is_json:
        out.document(done)
    else:
        out.text(f"dropped: {', '.join(done['dropped'])}; version {done['version']}")
    return 0


def pause(args: argparse.Namespace, out: Output) -> int:
    return _set_paused(args, out, "query_pause")


def resume(args: argparse.Namespace, out: Output) -> int:
    return _set_paused(args, out, "query_resume")


def _set_paused(args: argparse.Namespace, out: Output, command: str) -> int:
    with session(args, out) as engine:
        done = engine.call(command, queries=args.queries, owner=args.owner)
    if out.is_json:
        out.document(done)
        return 0
    for query in done["queries"]:
        was = "" if query["name"] in done["changed"] else " already"
        out.text(f"{query['name']}: {query['state']}{was}")
    return 0


def list(args: argparse.Namespace, out: Output) -> int:
    with session(args, out) as engine:
        found = engine.call(
            "query_list",
            pattern=args.pattern,
            owner=args.owner,
            state=args.state,
            page=args.page,
            per_page=args.per_page,
        )
    if out.is_json:
        out.document(found)
        return 0
    has_owner = any(query["owner"] for query in found["queries"])
    headers = ["id", "name", *(["owner"] if has_owner else []), "state", "results", "query"]
    rows = [
        [
            q["id"],
            q["name"],
            *([q["owner"]] if has_owner else []),
            q["state"],
            q["n_results"],
            _one_line(q["text"]),
        ]
        for q in found["queries"]
    ]
    out.table(headers, rows)
    for query in found["queries"]:
        if query["suspended"] is not None:
            out.note(f"{query['name']} is suspended: {suspended_text(query['suspended'])}")
    if found["n_pages"] > 1:
        out.note(f"page {found['page']} of {found['n_pages']}, {found['total']:,} queries in all; see --page")
    return 0


def show(args: argparse.Namespace, out: Output) -> int:
    with session(args, out) as engine:
        found = engine.call("query_show", query=args.query, owner=args.owner, latest=args.latest)
    shown = found.pop("shown")
    if out.is_json:
        out.document(found)
        return 0
    out.text(shown)
    out.text(f"  cost       {found['cost']}")
    stated = {
        word: value
        for word, value in found["properties"].items()
        if (word, value) not in (("enabled", True), ("emit", "changes"))
    }
    for word, value in stated.items():
        out.text(f"  {word:10s} {value if isinstance(value, (str, int)) else ', '.join(value)}")
    if found["alerts"] is not None:
        out.text(f"  alerts     {alert_text(found['alerts'])}")
    out.text(f"  since      {found['registered']}")
    for result in found["latest"]:
        out.text(f"  {change_mark(result['change'])} round {result['round']}: {row_text(result['row'])}")
    return 0


def alert_text(facts: dict[str, Any]) -> str:
    """How the alerts of a query are, in a line."""
    states = [f"{n:,} {state}" for state, n in facts["n_open"].items()]
    counts_text = f"fired {facts['n_fired']:,} times, resolved {facts['n_resolved']:,}"
    unformatted = facts["n_unformatted"]
    return ", ".join(
        [
            *(states or ["none open"]),
            counts_text,
            f"{facts['n_suppressed']:,} suppressed",
            *([f"{unformatted:,} messages could not be filled"] if unformatted else []),
        ]
    )


def explain(args: argparse.Namespace, out: Output) -> int:
    whats = (args.query, args.filters, args.aggregates)
    if sum((args.all, args.joins, *(what is not None for what in whats))) != 1:
        raise CommandError(
            "explain takes a query, --all, --filters, --joins or --aggregates",
            hint="See eddyline explain --help.",
        )
    if args.all:
        return _explain_whole(args, out, "explain_index")
    if args.joins:
        return _explain_whole(args, out, "explain_joins")
    if args.filters is not None:
        return _explain_whole(args, out, "explain_filters", stream=args.filters or None)
    if args.aggregates is not None:
        return _explain_whole(args, out, "explain_aggregates", stream=args.aggregates or None)
    texts: Sequence[str | None] = [None]
    if args.query.lstrip()[:6].lower() == "select":
        texts = [args.query]
    elif args.query.endswith(".sql"):
        target = desired(_existing(args.query))
        if target.mistakes:
            raise RulesError(target.mistakes)
        texts = [rule.text for rule in target.rules]
        if not texts:
            raise CommandError(
                f"{args.query} holds no query", hint="Name a file with a SELECT or a CREATE VIEW."
            )
    answers = []
    with session(args, out) as engine:
        for text in texts:
            named = {"query": args.query, "owner": args.owner} if text is None else {"text": text}
            answers.append(engine.call("explain", **named))
    shown = [answer.pop("shown") for answer in answers]
    if out.is_json:
        out.document(answers[0] if len(answers) == 1 else answers)
    else:
        out.text("\n".join(shown))
    return 0


def _explain_whole(args: argparse.Namespace, out: Output, command: str, **named: Any) -> int:
    with session(args, out) as engine:
        found = engine.call(command, **named)
    shown = found.pop("shown")
    if out.is_json:
        out.document(found)
    else:
        out.text(shown)
    return 0


def why(args: argparse.Namespace, out: Output) -> int:
    with session(args, out) as engine:
        if args.row:
            found = engine.call("why", query=args.query, row=_row(args.row), owner=args.owner)
        else:
            found = engine.call("why_not", query=args.query, last=args.last, owner=args.owner)
    shown = found.pop("shown")
    if out.is_json:
        out.document(found)
    else:
        out.text(shown)
    return 0


# --------------------------------------------------------------------------------------------- words


def pairs(words: Sequence[str], option: str) -> dict[str, str]:
    """NAME=VALUE words as a dict."""
    found: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise CommandError(f"{option} {word} has no value", hint=f"Write {option} NAME=VALUE.")
        if name in found:
            raise CommandError(f"{option} {name} is given twice")
        found[name] = value
    return found


def _row(words: Sequence[str]) -> dict[str, Any]:
    if len(words) == 1 and words[0].lstrip().startswith("{"):
        try:
            row = json.loads(words[0])
        except ValueError as error:
            raise CommandError(
                "the row is not a JSON object", detail=str(error), hint="Write it as '{\"price\": 9.5}'."
            ) from None
        if isinstance(row, dict):
            return row
    return {name: _value(value) for name, value in pairs(words, "row").items()}


def _value(text: str) -> Any:
    """A number, true, false or null as JSON has it; anything else is text."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value


def row_text(row: dict[str, Any]) -> str:
    """A row for people: sym=ACME price=9.5."""
    return " ".join(f"{name}={_shown(value)}" for name, value in row.items())


def _shown(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return value if value and not any(c.isspace() or c in "='\"" for c in value) else repr(value)
    return json.dumps(value, ensure_ascii=False)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _existing(path: str) -> Path:
    if not Path(path).is_file():
        raise CommandError(f"there is no file {path}")
    return Path(path)


def read_file(path: str) -> str:
    """The text of a file that the command names."""
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise CommandError(f"{path} cannot be read", detail=error.strerror) from None
    except UnicodeDecodeError:
        raise CommandError(f"{path} is not UTF-8", hint="Save it as UTF-8.") from None
