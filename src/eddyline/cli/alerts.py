"""`eddyline alerts`."""

from __future__ import annotations

import argparse
from typing import Any

from eddyline.cli.output import Output
from eddyline.cli.session import CommandError, Session, session


def alerts(args: argparse.Namespace, out: Output) -> int:
    """Open alerts, or what alerts said."""
    is_about_messages = args.messages is not None or args.follow
    if is_about_messages and args.state is not None:
        raise CommandError(
            "--state goes with open alerts, not with messages", hint="Leave out --messages and --follow."
        )
    with session(args, out) as engine:
        wanted = {"query": args.query, "owner": args.owner}
        if is_about_messages:
            _messages(engine, wanted, args, out)
        else:
            _open_alerts(engine.call("alerts", state=args.state, **wanted), out)
    return 0


def _open_alerts(found: list[dict[str, Any]], out: Output) -> None:
    if out.is_json:
        out.document(found)
        return
    if not found:
        out.note("no alert is open")
        return
    headers = ["state", "severity", "query", "key", "since", "last", "rows", "message"]
    out.table(headers, [_cells(alert) for alert in found])


def _cells(alert: dict[str, Any]) -> list[Any]:
    return [
        alert["state"],
        alert["severity"],
        alert["query"],
        _key_text(alert["key"]),
        alert["since"],
        alert["last"],
        f"{alert['n_rows']:,}",
        alert["message"],
    ]


def _messages(engine: Session, wanted: dict[str, Any], args: argparse.Namespace, out: Output) -> None:
    newest = 10 if args.messages is None else args.messages
    follows = args.follow and engine.is_held
    if args.follow and not engine.is_held:
        out.note(f"nobody holds {engine.home}: these are the messages that are kept")
    answer = engine.commands.call("messages", wanted | {"newest": newest, "follow": follows}, _quiet)
    for message in answer or ():
        if message is not None:
            _print(message, out)


def _print(message: dict[str, Any], out: Output) -> None:
    if out.is_json:
        out.line(message)
        return
    why = f" ({message['reason']})" if message["reason"] else ""
    held = f"   ({message['n_suppressed']:,} held back)" if message["n_suppressed"] else ""
    out.text(
        f"{message['id']}  {message['at']}  {message['status']}{why}  {message['severity']}  {message['query']}  "
        f"{message['message']}{held}"
    )


def _key_text(key: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in key.items())


def _quiet(what: str, done: int, of: int) -> None:
    """Following has no end to be far from."""
