"""`eddyline alerts`."""

from __future__ import annotations

import argparse
from typing import Any

from eddyline.cli.output import Output
from eddyline.cli.parser import CommandError
from eddyline.cli.session import Session, session


def alerts(args: argparse.Namespace, out: Output) -> int:
    """Open alerts, or the messages of alerts."""
    is_about_messages = args.messages is not None or args.follow
    if is_about_messages and args.state is not None:
        raise CommandError(
            "--state goes with open alerts, not with messages", hint="Leave out --messages and --follow."
        )
    if args.history and args.query is None:
        raise CommandError(
            "--history is of one alert",
            hint="Name its query and key: eddyline alerts cheap --history --key sym=A",
        )
    if args.key and not args.history:
        raise CommandError("--key goes with --history", hint="Open alerts of a query show all of its keys.")
    with session(args, out) as engine:
        if args.history:
            alert_key = {"query": args.query, "key": key_of(args.key), "owner": args.owner or ""}
            _history(engine.call("alert_history", **alert_key), out)
            return 0
        selection = {"query": args.query, "owner": args.owner}
        if is_about_messages:
            _messages(engine, selection, args, out)
        else:
            _open_alerts(engine.call("alerts", state=args.state, **selection), out)
    return 0


def _open_alerts(found: list[dict[str, Any]], out: Output) -> None:
    if out.is_json:
        out.document(found)
        return
    if not found:
        out.note("no alert is open")
        return
    headers = ["state", "severity", "query", "key", "since", "last", "rows", "message"]
    rows = [_cells(alert) for alert in found]
    if any(map(_marks, found)):
        headers.insert(1, "noted")
        rows = [[row[0], _marks(alert), *row[1:]] for row, alert in zip(rows, found, strict=True)]
    out.table(headers, rows)


def _marks(alert: dict[str, Any]) -> str:
    """Whether it is acknowledged, and whether its messages are sent."""
    acknowledgement, silence = alert["acknowledgement"], alert["silence"]
    marks = (
        [] if acknowledgement is None else [f"acknowledged by {acknowledgement['by'] or 'an unnamed user'}"]
    )
    return ", ".join(marks + ([] if silence is None else [f"silenced until {silence['until']}"]))


def _history(found: list[dict[str, Any]], out: Output) -> None:
    if out.is_json:
        out.document(found)
        return
    if not found:
        out.note("there is no history of this alert")
    for entry in found:
        words = [entry["event"]]
        words += [f"by {entry['by']}"] if entry.get("by") else []
        words += [f"until {entry['until']}"] if entry.get("until") else []
        words += [f"({entry['reason']})"] if entry.get("reason") else []
        words += [f"{entry['n_withheld']:,} were withheld"] if entry.get("n_withheld") else []
        words += ["(withheld)"] if entry.get("status") and entry["silence"] is not None else []
        text = entry.get("message") or entry.get("note") or ""
        out.text(f"{entry['at']}  {' '.join(words)}{f': {text}' if text else ''}")


def key_of(pairs: list[str]) -> dict[str, str]:
    """The key that `--key COLUMN=VALUE` names."""
    found = {}
    for each in pairs:
        name, sign, value = each.partition("=")
        if not sign or not name:
            raise CommandError(f"{each!r} is no key of an alert", hint="Write COLUMN=VALUE, such as sym=A.")
        found[name] = value
    return found


def _cells(alert: dict[str, Any]) -> list[Any]:
    return [
        alert["state"],
        alert["severity"],
        alert["query"],
        key_text(alert["key"]),
        alert["since"],
        alert["last"],
        f"{alert['n_rows']:,}",
        alert["message"],
    ]


def _messages(engine: Session, selection: dict[str, Any], args: argparse.Namespace, out: Output) -> None:
    newest = 10 if args.messages is None else args.messages
    follows = args.follow and engine.is_held
    if args.follow and not engine.is_held:
        out.note(f"no process holds {engine.home}: these are the stored messages")
    answer = engine.commands.call("messages", selection | {"newest": newest, "follow": follows}, _quiet)
    for message in answer or ():
        if message is not None:
            _print(message, out)


def _print(message: dict[str, Any], out: Output) -> None:
    if out.is_json:
        out.line(message)
        return
    why = f" ({message['reason']})" if message["reason"] else ""
    held = f"   ({message['n_suppressed']:,} held back)" if message["n_suppressed"] else ""
    held += f"   (withheld by silence {message['silence']})" if message["silence"] is not None else ""
    held += f"   (sent after a silence: {message['n_withheld']:,} withheld)" if message["n_withheld"] else ""
    out.text(
        f"{message['id']}  {message['at']}  {message['status']}{why}  {message['severity']}  {message['query']}  "
        f"{message['message']}{held}"
    )


def key_text(key: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in key.items())


def _quiet(what: str, done: int, of: int) -> None:
    """Following has no end to be far from."""
