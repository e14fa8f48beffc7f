"""`eddyline silence` and `eddyline ack`."""

from __future__ import annotations

import argparse
import getpass
from typing import Any

from eddyline.cli.alerts import key_of, key_text
from eddyline.cli.output import Output
from eddyline.cli.parser import CommandError
from eddyline.cli.session import session


def silence(args: argparse.Namespace, out: Output) -> int:
    """Silence alerts; `list` and `end` in place of a query show silences, or end one."""
    if args.query == "list":
        return _list(args, out)
    if args.query == "end":
        return _end(args, out)
    if args.rest is not None:
        raise CommandError(
            f"{args.rest!r} was not expected here", hint="Write eddyline silence QUERY --for '2 hours'."
        )
    if (args.duration is None) == (args.until is None):
        raise CommandError(
            "a silence needs an end" if args.until is None else "a silence has one end",
            hint="Give --for '2 hours', or --until 2026-01-31T08:00:00Z.",
        )
    with session(args, out) as engine:
        silence_facts = engine.call(
            "silence",
            query=args.query,
            key=key_of(args.key),
            duration=args.duration,
            until=args.until,
            severity=args.severity,
            reason=args.reason,
            by=_me(),
            owner=args.owner,
        )
    if out.is_json:
        out.document(silence_facts)
    else:
        out.text(
            f"silence {silence_facts['id']}: no messages of {_about(silence_facts)} until {silence_facts['until']}"
        )
        out.note(f"to end it before: eddyline silence end {silence_facts['id']}")
    return 0


def _list(args: argparse.Namespace, out: Output) -> int:
    with session(args, out) as engine:
        over = None if args.all else False
        found = engine.call("silences", query=args.rest, owner=args.owner, over=over)
    if out.is_json:
        out.document(found)
    elif not found:
        out.note("there is no silence" if args.all else "no silence holds")
    else:
        headers = ["id", "of", "until", "withheld", "by", "reason"]
        out.table(headers, [_cells(each) for each in found])
    return 0


def _cells(each: dict[str, Any]) -> list[Any]:
    until = each["until"] if each["ended"] is None else f"ended {each['ended']}"
    return [each["id"], _about(each), until, f"{each['n_withheld']:,}", each["by"], each["reason"]]


def _end(args: argparse.Namespace, out: Output) -> int:
    if args.rest is None or not (args.rest.isascii() and args.rest.isdigit()):
        raise CommandError(
            "end needs the number of a silence", hint="eddyline silence list shows them: silence end 3"
        )
    with session(args, out) as engine:
        ended = engine.call("silence_end", silence=int(args.rest), by=_me())
    if out.is_json:
        out.document(ended)
    elif ended["is_changed"]:
        out.text(
            f"silence {ended['id']} of {_about(ended)} ended; {ended['n_withheld']:,} messages were withheld"
        )
    else:
        out.note(f"silence {ended['id']} was over already")
    return 0


def ack(args: argparse.Namespace, out: Output) -> int:
    """Take notice of open alerts."""
    with session(args, out) as engine:
        selection = {"query": args.query, "key": key_of(args.key), "owner": args.owner}
        found = engine.call("acknowledge", **selection, note=args.note, by=_me())
    if out.is_json:
        out.document(found)
    else:
        for alert in found:
            key = key_text(alert["key"])
            out.text(f"acknowledged {alert['query']}{f' {key}' if key else ''}: {alert['message']}")
    return 0


def _about(silence: dict[str, Any]) -> str:
    words = [silence["query"], key_text(silence["key"])]
    words += [silence["severity"] or "", f"of {silence['owner']}" if silence["owner"] else ""]
    return " ".join(word for word in words if word)


def _me() -> str:
    """The name of the user at the shell; empty where there is none, as in a container."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
