"""`eddyline token`: who may ask the server what."""

from __future__ import annotations

import argparse

from eddyline.cli.output import Output
from eddyline.cli.session import session


def add(args: argparse.Namespace, out: Output) -> int:
    with session(args, out, creates=True) as asked:
        made = asked.call("token_add", role=args.role, owner=args.owner, note=args.note, expires=args.expires)
    if out.is_json:
        out.document(made)
        return 0
    out.text(made["token"])
    until = "" if made["expires"] is None else f", until {made['expires']}"
    out.note(f"{made['role']} of {made['owner'] or 'no owner'}{until}; it is shown only now")
    return 0


def list(args: argparse.Namespace, out: Output) -> int:
    with session(args, out) as asked:
        found = asked.call("token_list")
    if out.is_json:
        out.document(found)
        return 0
    columns = ("id", "role", "owner", "note", "created", "expires", "used")
    out.table(columns, [[token[name] for name in columns] for token in found])
    return 0


def drop(args: argparse.Namespace, out: Output) -> int:
    with session(args, out) as asked:
        for token in args.tokens:
            done = asked.call("token_drop", token=token)
            out.line(done) if out.is_json else out.note(f"dropped {done['dropped']}")
    return 0
