"""From words to an exit code."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Sequence

from eddyline.cli.arguments import HELP, parse
from eddyline.cli.output import Output
from eddyline.cli.parser import CommandError
from eddyline.errors import EddylineError

DONE, WRONG_DATA, WRONG_COMMAND, INTERRUPTED = 0, 1, 2, 130

Handler = Callable[[argparse.Namespace, Output], int]


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0 done, 1 the query or the data is wrong, 2 the command is wrong."""
    words = list(sys.argv[1:] if argv is None else argv)
    out = Output(is_json="--json" in words)
    try:
        args = parse(words)
        if args.command is None:
            print(HELP, end="")
            return DONE
        out = Output(is_json=args.json, progress=args.progress)
        code = handler_of(args.run)(args, out)
        sys.stdout.flush()
        return code
    except CommandError as error:
        out.error(error)
        return WRONG_COMMAND
    except EddylineError as error:
        out.error(error)
        return WRONG_DATA
    except BrokenPipeError:  # the reader of our output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except KeyboardInterrupt:
        return INTERRUPTED
    except SystemExit as ended:  # argparse, after --help
        return int(ended.code or 0)


def handler_of(run: str) -> Handler:
    """What runs a command, loaded now: `run` is "module:function" of this room."""
    module, _, function = run.partition(":")
    found: Handler = getattr(importlib.import_module(f"eddyline.cli.{module}"), function)
    return found
