"""From words to an exit code."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence

import eddyline
from eddyline.cli import (
    alerts,
    backup,
    checks,
    doctor,
    project,
    prove,
    queries,
    results,
    rules,
    running,
    serve,
    silences,
    sinks,
    sources,
    streams,
    token,
    top,
)
from eddyline.cli.arguments import HELP, build, parse
from eddyline.cli.completion import script
from eddyline.cli.output import Output
from eddyline.cli.session import CommandError
from eddyline.errors import EddylineError

DONE, WRONG_DATA, WRONG_COMMAND, INTERRUPTED = 0, 1, 2, 130

Handler = Callable[[argparse.Namespace, Output], int]


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0 done, 1 the query or the data is wrong, 2 the command is wrong."""
    given = list(sys.argv[1:] if argv is None else argv)
    out = Output(is_json="--json" in given)
    try:
        args = parse(given)
        if args.command is None:
            print(HELP, end="")
            return DONE
        out = Output(is_json=args.json, progress=args.progress)
        code = _handler(args)(args, out)
        sys.stdout.flush()
        return code
    except CommandError as error:
        out.error(error)
        return WRONG_COMMAND
    except EddylineError as error:
        out.error(error)
        return WRONG_DATA
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except KeyboardInterrupt:
        return INTERRUPTED
    except SystemExit as ended:  # argparse, after --help
        return int(ended.code or 0)


def _handler(args: argparse.Namespace) -> Handler:
    if args.command in _WITH_ACTIONS:
        found: Handler = getattr(_WITH_ACTIONS[args.command], args.action)
        return found
    return _HANDLERS[args.command]


def _version(args: argparse.Namespace, out: Output) -> int:
    if out.is_json:
        out.document({"version": eddyline.__version__})
    else:
        out.text(f"eddyline {eddyline.__version__}")
    return DONE


def _completion(args: argparse.Namespace, out: Output) -> int:
    text = script(args.shell, build())
    if out.is_json:
        out.document({"shell": args.shell, "script": text})
    else:
        print(text, end="")
    return DONE


_WITH_ACTIONS = {"query": queries, "source": sources, "sink": sinks, "stream": streams, "token": token}
_HANDLERS: dict[str, Handler] = {
    "init": project.init,
    "run": running.run,
    "serve": serve.serve,
    "plan": rules.plan,
    "apply": rules.apply,
    "test": checks.test,
    "tail": results.tail,
    "alerts": alerts.alerts,
    "silence": silences.silence,
    "ack": silences.ack,
    "explain": queries.explain,
    "why": queries.why,
    "receipt": prove.receipt,
    "prove": prove.prove,
    "deadletters": results.deadletters,
    "export": rules.export,
    "versions": rules.versions,
    "rollback": rules.rollback,
    "rounds": results.rounds,
    "top": top.top,
    "backup": backup.backup,
    "restore": backup.restore,
    "doctor": doctor.doctor,
    "completion": _completion,
    "version": _version,
}
