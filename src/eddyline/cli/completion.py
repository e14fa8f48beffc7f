"""Completion for shells, written from the commands there are.

Commands, options and values they may have are in the script itself. Names of queries, streams, sinks and versions are asked for
when they are needed, of `catalog/names.py`, which is run as a file and so answers at once.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path

from eddyline.cli.arguments import build
from eddyline.cli.output import Output
from eddyline.cli.parser import NAMED, Parser

CommandPath = tuple[str, ...]
NAMES_FILE = Path(__file__).parents[1] / "catalog" / "names.py"  # shells run it by its path
_OPEN_ALERTS = ("ack",)  # commands whose QUERY has open alerts


@dataclass(slots=True)
class Words:
    """What may follow a command."""

    follow: list[str] = field(default_factory=list)  # commands below it, choices, options
    values: dict[str, list[str]] = field(default_factory=dict)  # choices of an option
    kinds: dict[str, str] = field(default_factory=dict)  # what an option's value names
    valued: list[str] = field(default_factory=list)  # options that take a value
    arguments: list[str] = field(default_factory=list)  # what each argument names, or ""
    repeats: bool = False  # the last argument may come again


def completion(args: argparse.Namespace, out: Output) -> int:
    text = script(args.shell, build())
    if out.is_json:
        out.document({"shell": args.shell, "script": text})
    else:
        print(text, end="")
    return 0


def script(shell: str, parser: Parser) -> str:
    """What a shell has to read to complete commands, options, values and names."""
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](commands(parser))


def commands(parser: argparse.ArgumentParser, path: CommandPath = ()) -> dict[CommandPath, Words]:
    """What may follow each command."""
    words = Words()
    found = {path: words}
    for action in parser._actions:
        kind = NAMED.get(str(action.metavar), "")
        if path and path[-1] in _OPEN_ALERTS and kind == "query":
            kind = "alert"
        if isinstance(action, argparse._SubParsersAction):
            words.follow += list(action.choices)
            for name, below in action.choices.items():
                found |= commands(below, (*path, name))
        elif action.option_strings:
            options = action.option_strings
            words.follow += [option for option in options if option.startswith("--")]
            if action.nargs is None:
                words.valued += options
            if action.choices is not None:
                words.values |= {option: [str(choice) for choice in action.choices] for option in options}
            elif kind:
                words.kinds |= dict.fromkeys(options, kind)
        else:
            words.follow += [str(choice) for choice in action.choices or ()]
            words.arguments.append(kind)
            words.repeats = action.nargs in ("+", "*")
    return found


# --------------------------------------------------------------------------------------------- bash and zsh

_BASH = """\
# completion of eddyline for bash:  eval "$(eddyline completion bash)"
_eddyline_names() {{
  local name
  while IFS= read -r name; do
    [[ -n "$name" ]] && COMPREPLY+=("$(printf %q "$name")")
  done < <({names} "$1" "${{COMP_WORDS[@]:0:COMP_CWORD}}" "$current" 2>/dev/null)
}}
_eddyline() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD - 1]}}"
  local path="" word words="" kind="" k skip="" is_value="" n=0
  COMPREPLY=()
  for ((k = 1; k < COMP_CWORD; k++)); do
    word="${{COMP_WORDS[k]}}"
    if [[ -n "$skip" ]]; then skip=""
    elif [[ " {valued} " == *" $word "* ]]; then skip=1
    elif [[ "$word" == -* ]]; then continue
    elif [[ -z "$path" ]]; then path="$word"
    elif [[ " {groups} " == *" $path "* ]]; then path="$path $word"
    else n=$((n + 1)); fi
  done
  case "$path $previous" in
{values}
    *) [[ -n "$skip" ]] && is_value=1 ;;
  esac
  if [[ -z "$is_value" ]]; then
    case "$path" in
{follow}
    *) words="{top}" ;;
    esac
    case "$path $n" in
{arguments}
    esac
  fi
  if [[ -n "$kind" && "$current" != -* ]]; then
    _eddyline_names "$kind"
    return
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  [[ "$current" == -* || -n "$is_value" && -n "$words" ]] || COMPREPLY+=($(compgen -f -- "$current"))
}}
complete -F _eddyline eddyline
"""


def _bash(found: dict[CommandPath, Words]) -> str:
    def lines(cases: list[tuple[str, str]]) -> str:
        return "\n".join(f"    {pattern}) {then} ;;" for pattern, then in cases)

    values, follow, arguments = [], [], []
    for path, words in found.items():
        name = " ".join(path)
        values += [(f'"{name} {o}"', f'words="{" ".join(v)}"; is_value=1') for o, v in words.values.items()]
        values += [(f'"{name} {o}"', f"kind={kind}; is_value=1") for o, kind in words.kinds.items()]
        if path:
            follow.append((f'"{name}"', f'words="{" ".join(words.follow)}"'))
        for at, kind in enumerate(words.arguments):
            is_last = words.repeats and at == len(words.arguments) - 1
            if kind:
                arguments.append((f'"{name} "*' if is_last else f'"{name} {at}"', f"kind={kind}"))
    return _BASH.format(
        names=_names_command(),
        valued=" ".join(dict.fromkeys(o for words in found.values() for o in words.valued)),
        groups=" ".join(dict.fromkeys(path[0] for path in found if len(path) == 2)),
        values=lines(values),
        follow=lines(follow),
        top=" ".join(found[()].follow),
        arguments=lines(arguments),
    )


def _zsh(found: dict[CommandPath, Words]) -> str:
    return f"""\
# completion of eddyline for zsh:  eval "$(eddyline completion zsh)"
autoload -U +X bashcompinit && bashcompinit
{_bash(found).partition(chr(10))[2]}"""


def _names_command() -> str:
    """What prints names: a file run by its path, so that nothing of the package is loaded."""
    return f"{shlex.quote(sys.executable)} -P {shlex.quote(str(NAMES_FILE))}"


# --------------------------------------------------------------------------------------------- fish


def _fish(found: dict[CommandPath, Words]) -> str:
    lines = ["# completion of eddyline for fish:  eddyline completion fish | source"]
    ask = f"({_names_command()} %s (commandline -opc) (commandline -ct) 2>/dev/null)"
    for path, words in found.items():
        if not path:
            condition = "__fish_use_subcommand"
        elif len(path) == 1 and any(len(p) == 2 and p[0] == path[0] for p in found):
            below = " ".join(p[1] for p in found if len(p) == 2 and p[0] == path[0])
            condition = f"__fish_seen_subcommand_from {path[0]}; and not __fish_seen_subcommand_from {below}"
        elif len(path) == 1:
            condition = f"__fish_seen_subcommand_from {path[0]}"
        else:
            condition = f"__fish_seen_subcommand_from {path[0]}; and __fish_seen_subcommand_from {path[1]}"
        start = f"complete -c eddyline -n '{condition}'"
        for word in words.follow:
            if not word.startswith("--"):
                lines.append(f"{start} -a {word}")
            elif word in words.values:
                lines.append(f"{start} -l {word[2:]} -xa '{' '.join(words.values[word])}'")
            elif word in words.kinds:
                lines.append(f'{start} -l {word[2:]} -xa "{ask % words.kinds[word]}"')
            else:
                lines.append(f"{start} -l {word[2:]}{' -r' if word in words.valued else ''}")
        if kinds := [kind for kind in words.arguments if kind]:
            lines.append(f'{start} -f -a "{ask % kinds[0]}"')
    return "\n".join(lines) + "\n"
