"""Completion for shells, written from the commands there are."""

from __future__ import annotations

import argparse

from eddyline.cli.arguments import Parser


def script(shell: str, parser: Parser) -> str:
    """What a shell has to read to complete commands and options."""
    words = _words(parser)
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](words)


def _words(parser: argparse.ArgumentParser, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], list[str]]:
    """Per command, what may follow: commands below it, choices, and options."""
    found: dict[tuple[str, ...], list[str]] = {path: []}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found[path] += list(action.choices)
            for name, below in action.choices.items():
                found |= _words(below, (*path, name))
        elif action.option_strings:
            found[path] += [option for option in action.option_strings if option.startswith("--")]
        elif action.choices is not None:
            found[path] += [str(choice) for choice in action.choices]
    return found


def _bash(words: dict[tuple[str, ...], list[str]]) -> str:
    cases = "\n".join(
        f'    "{" ".join(path)}") words="{" ".join(follow)}" ;;' for path, follow in words.items() if path
    )
    nested = " ".join(path[0] for path in words if len(path) == 2)
    return f"""\
# completion of eddyline for bash:  eval "$(eddyline completion bash)"
_eddyline() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" path="" word words k
  for ((k = 1; k < COMP_CWORD; k++)); do
    word="${{COMP_WORDS[k]}}"
    [[ "$word" == -* ]] && continue
    if [[ -z "$path" ]]; then path="$word"
    elif [[ " {nested} " == *" $path "* ]]; then path="$path $word"; break
    else break; fi
  done
  case "$path" in
{cases}
    *) words="{" ".join(words[()])}" ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  [[ "$current" == -* ]] || COMPREPLY+=($(compgen -f -- "$current"))
}}
complete -F _eddyline eddyline
"""


def _zsh(words: dict[tuple[str, ...], list[str]]) -> str:
    return f"""\
# completion of eddyline for zsh:  eval "$(eddyline completion zsh)"
autoload -U +X bashcompinit && bashcompinit
{_bash(words).partition(chr(10))[2]}"""


def _fish(words: dict[tuple[str, ...], list[str]]) -> str:
    lines = ["# completion of eddyline for fish:  eddyline completion fish | source"]
    for path, follow in words.items():
        if not path:
            condition = "__fish_use_subcommand"
        elif len(path) == 1 and any(len(p) == 2 and p[0] == path[0] for p in words):
            below = " ".join(p[1] for p in words if len(p) == 2 and p[0] == path[0])
            condition = f"__fish_seen_subcommand_from {path[0]}; and not __fish_seen_subcommand_from {below}"
        elif len(path) == 1:
            condition = f"__fish_seen_subcommand_from {path[0]}"
        else:
            condition = f"__fish_seen_subcommand_from {path[0]}; and __fish_seen_subcommand_from {path[1]}"
        for word in follow:
            what = f"-l {word[2:]}" if word.startswith("--") else f"-a {word}"
            lines.append(f"complete -c eddyline -n '{condition}' {what}")
    return "\n".join(lines) + "\n"
