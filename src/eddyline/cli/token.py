"""`eddyline token`: who may ask the server what."""

from __future__ import annotations

import argparse

from eddyline.cli.output import Output
from eddyline.cli.session import session


def add(args: argparse.Namespace, out: Output) -> int:
    with session(args, out, creates=True) as engine:
        token = engine.call(
            "token_add", role=args.role, owner=args.owner, note=args.note, expires=args.expires
        )
    if out.is_json:
        out.document(token)
        return 0
    out.text(token["token"])
    until = "" if token["expires"] is None else f", until {token['expires']}"
    out.note(f"{token['role']} of {token['owner'] or 'no owner'}{until}; it is shown only now")
    return 0


def list(args: argparse.Namespace, out: Output) -> int:
    with session(args, out) as engine:
        found = engine.call("token_list")
    if out.is_json:
        out.document(found)
        return 0
    columns = ("id", "role", "owner", "note", "created", "expires", "used")
    out.table(columns, [[token[name] for name in columns] for token in found])
    return 0


def drop(args: argparse.Namespace, out: Output) -> int:
    with session(args, out) as engine:
        for token in args.tokens:
            done = engine.call("token_drop", token=token)
            out.line(done) if out.is_json else out.note(f"dropped {done['dropped']}")
    return 0
