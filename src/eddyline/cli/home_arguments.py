"""Commands about a home and this machine: what they are called, what they take, what runs them."""

from __future__ import annotations

from eddyline.cli.options import (
    Commands,
    add_command,
    add_group,
)
from eddyline.cli.parser import count, seconds


def source(commands: Commands) -> None:
    _add_end(commands, "source", "STREAM", "trades")


def sink(commands: Commands) -> None:
    _add_end(commands, "sink", "SINK", "webhook")


def _add_end(commands: Commands, noun: str, metavar: str, example: str) -> None:
    """One of the two ends of a pipeline that runs."""
    actions = add_group(commands, noun, f"Show the progress of {noun}s.", f"eddyline {noun} list")
    shown = f"List {noun}s: position, backlog, rate, failures."
    add_command(actions, "list", shown, f"eddyline {noun} list", run=f"{noun}s:list")
    again = f"Retry a failing {noun} now, without its pause."
    parser = add_command(actions, "retry", again, f"eddyline {noun} retry {example}", run=f"{noun}s:retry")
    parser.add_argument("name", metavar=metavar, help=f"see eddyline {noun} list")


def export(commands: Commands) -> None:
    parser = add_command(
        commands,
        "export",
        "Write all deployed queries as rule files.",
        "eddyline export backup/",
        run="rules:export",
    )
    parser.add_argument("folder", metavar="FOLDER", help="a new or empty folder")


def versions(commands: Commands) -> None:
    parser = add_command(
        commands,
        "versions",
        "List the versions of the home, newest first.",
        "eddyline versions",
        run="rules:versions",
    )
    parser.add_argument("-n", "--newest", type=count, default=20, metavar="N", help="how many (20)")


def rollback(commands: Commands) -> None:
    parser = add_command(
        commands,
        "rollback",
        "Deploy the queries of an earlier version again.",
        "eddyline rollback 12 --dry-run",
        run="rules:rollback",
    )
    parser.add_argument("version", type=count, metavar="VERSION", help="see eddyline versions")
    parser.add_argument("--dry-run", action="store_true", help="only show what that would change")


def rounds(commands: Commands) -> None:
    parser = add_command(
        commands,
        "rounds",
        "Show the durations of the last rounds, newest first.",
        "eddyline rounds --newest 5",
        run="results:rounds",
    )
    parser.add_argument("-n", "--newest", type=count, default=20, metavar="N", help="how many (20)")


def top(commands: Commands) -> None:
    parser = add_command(commands, "top", "Watch a running home.", "eddyline top", run="top:top")
    parser.add_argument("--once", action="store_true", help="print one frame and end")
    parser.add_argument("--every", type=seconds, default=1.0, metavar="SECONDS", help="between frames (1)")
    sorts = ["results", "rate", "dead", "name"]
    parser.add_argument(
        "--sort", choices=sorts, default="rate", metavar="BY", help=f"{', '.join(sorts)} (rate)"
    )


def backup(commands: Commands) -> None:
    parser = add_command(
        commands,
        "backup",
        "Write a home to one file, also while it runs.",
        "eddyline backup trading/ trading.tar.gz",
        run="backup:backup",
    )
    parser.add_argument(
        "folder", nargs="?", metavar="HOME", help="the home; if not given, as with other commands"
    )
    parser.add_argument("file", nargs="?", metavar="FILE", help="a new .tar, or .tar.gz for a compressed one")
    parser.add_argument("--verify", metavar="FILE", help="check every file of this backup instead")


def restore(commands: Commands) -> None:
    parser = add_command(
        commands,
        "restore",
        "Restore a home from a backup.",
        "eddyline restore trading.tar.gz trading/",
        run="backup:restore",
    )
    parser.add_argument("file", metavar="FILE", help="the backup")
    parser.add_argument("folder", metavar="HOME", help="the folder to create; it must not exist")


def doctor(commands: Commands) -> None:
    parser = add_command(
        commands, "doctor", "Check this machine and the home.", "eddyline doctor", run="doctor:doctor"
    )
    parser.add_argument("--forget-damaged", action="store_true", help="remove damaged files from the catalog")
    parser.add_argument(
        "--prepare", action="store_true", help="build Java's class archive now, so that Spark starts faster"
    )


def completion(commands: Commands) -> None:
    parser = add_command(
        commands,
        "completion",
        "Print completion for a shell.",
        'eval "$(eddyline completion bash)"',
        run="completion:completion",
    )
    parser.add_argument("shell", choices=["bash", "zsh", "fish"], metavar="SHELL", help="bash, zsh or fish")


def version(commands: Commands) -> None:
    add_command(
        commands,
        "version",
        "Print the version of eddyline.",
        "eddyline version --json",
        run="version:version",
    )
