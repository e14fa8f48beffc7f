"""`eddyline backup` and `eddyline restore`: a home as one file, and a home of it again."""

from __future__ import annotations

import argparse
import os
from contextlib import closing
from pathlib import Path
from typing import Any

from eddyline.cli.output import Output
from eddyline.cli.parser import CommandError
from eddyline.cli.session import connected, home_of, pipeline_of
from eddyline.cli.show import plural
from eddyline.control import backup_of_folder, verify
from eddyline.control import restore as restored
from eddyline.documents import size_text


def backup(args: argparse.Namespace, out: Output) -> int:
    """The process that holds the home writes the backup; if none does, the home is copied as it is."""
    if args.verify is not None:
        if args.folder is not None:
            raise CommandError(
                "--verify takes one file and no other argument", hint="See eddyline backup --help."
            )
        with out.progress("reading the backup") as tell:
            _tell(verify(Path(args.verify), tell).as_dict(), "no damage found", out)
        return 0
    if args.folder is None:
        raise CommandError("backup needs a file to write", hint="Try eddyline backup HOME FILE.tar.gz.")
    home, file = (args.folder, args.file) if args.file is not None else (None, args.folder)
    folder = Path(home) if home is not None else home_of(args, pipeline_of(args))
    with out.progress("backing up") as tell:
        remote = connected(folder)
        if remote is None:
            written = backup_of_folder(folder, Path(file), tell).as_dict()
        else:
            with closing(remote):
                written = remote.call("backup", {"file": os.path.abspath(file)}, tell)
    _tell(written, "written", out)
    return 0


def restore(args: argparse.Namespace, out: Output) -> int:
    with out.progress("restoring") as tell:
        found = restored(Path(args.file), Path(args.folder), tell).as_dict()
    _tell(found | {"home": os.path.abspath(args.folder)}, f"restored to {args.folder}", out)
    return 0


def _tell(found: dict[str, Any], done: str, out: Output) -> None:
    if out.is_json:
        out.document(found)
        return
    out.text(
        f"{found['file']}: {done}, {size_text(found['nbytes'])}; of {found['at']}, version {found['version']}, "
        f"up to round {found['last_round']}, {plural(found['n_files'], 'file')} with {size_text(found['file_bytes'])}"
    )
    for name, why in found["left_out"].items():
        out.note(
            f"warning: {name} was already damaged or missing in the home, and is not in the backup: {why}"
        )
