"""A parser that says what is missing and what could be there, what is wrong and what was probably meant."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

from eddyline.errors import EddylineError, did_you_mean, nearest

# What an argument names, by its metavar: kinds of eddyline.catalog.names.
NAMED = {"QUERY": "query", "STREAM": "stream", "SINK": "sink", "VERSION": "version"}
_REQUIRED = "the following arguments are required: "


class CommandError(EddylineError):
    """The command itself is wrong: exit code 2."""


class MissingArgument(CommandError):
    """A command without an argument it needs. `kind` is what the argument names, if it is one of NAMED."""

    def __init__(self, parser: Parser, actions: list[argparse.Action]) -> None:
        self.prog = parser.prog
        self.kind = NAMED.get(_shown(actions[0])) if len(actions) == 1 else None
        command = parser.prog.partition(" ")[2]
        super().__init__(f"{command} needs {', and '.join(map(_described, actions))}", hint=_hint(parser))

    def list_names(self, names: list[str], where: str) -> None:
        """Say which names there are, and take the first as the example."""
        if not names:
            self.detail = f"There is no {self.kind} in {where} yet."
            return
        self.detail = did_you_mean("", names, noun=str(self.kind))
        self.hint = f"Try {self.prog} {names[0]}, or see {self.prog} --help."


def _shown(action: argparse.Action) -> str:
    return "/".join(action.option_strings) or str(action.metavar)


def _described(action: argparse.Action) -> str:
    name = _shown(action)
    values = ", ".join(map(str, action.choices)) if action.choices else action.help
    return f"{'an' if name[0] in 'AEIO' else 'a'} {name}: {values}"


def _hint(parser: argparse.ArgumentParser) -> str:
    example = (parser.epilog or "").removeprefix("Try:").strip()
    return f"Try {example}, or see {parser.prog} --help."


class Parser(argparse.ArgumentParser):
    """Says what is wrong as everything else here does, and what was probably meant."""

    def error(self, message: str) -> NoReturn:
        if message.startswith(_REQUIRED):
            missing = message.removeprefix(_REQUIRED).split(", ")
            raise MissingArgument(self, [each for each in self._actions if _shown(each) in missing])
        raise CommandError(message, hint=f"See {self.prog} --help.")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            names = [str(choice) for choice in action.choices]
            noun = "command" if action.dest in ("command", "action") else action.dest
            raise CommandError(f"there is no {noun} {value}", hint=did_you_mean(str(value), names, noun=noun))

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        found, extras = self.parse_known_args(args, namespace)
        if extras:
            parser = self._of(found)
            if extras[0].startswith("-"):
                known = [option for action in parser._actions for option in action.option_strings]
                near = nearest(extras[0].partition("=")[0], known)
                hint = f"Did you mean {near}?" if near else f"See {parser.prog} --help."
                raise CommandError(f"there is no option {extras[0]}", hint=hint)
            raise CommandError(f"{extras[0]!r} was not expected", hint=f"See {parser.prog} --help.")
        return found

    def _of(self, found: argparse.Namespace) -> argparse.ArgumentParser:
        """The parser of the command that was given."""
        parser: argparse.ArgumentParser = self
        for dest in ("command", "action"):
            chosen = getattr(found, dest, None)
            for action in parser._actions:
                if isinstance(action, argparse._SubParsersAction) and chosen in action.choices:
                    parser = action.choices[chosen]
                    break
        return parser


# --------------------------------------------------------------------------------------------- values


def count(text: str) -> int:
    """A whole number, from 0 on."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)


def seconds(text: str) -> float:
    """Of a pause."""
    try:
        found = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if not 0.1 <= found <= 3_600:
        raise argparse.ArgumentTypeError("between 0.1 and 3600 seconds")
    return found


def port(text: str) -> int:
    """Of an address to listen at."""
    number = count(text)
    if number > 65_535:
        raise argparse.ArgumentTypeError("a port is at most 65535")
    return number


def from_one(text: str) -> int:
    """A whole number, from 1 on."""
    number = count(text)
    if number < 1:
        raise argparse.ArgumentTypeError("it counts from 1")
    return number
