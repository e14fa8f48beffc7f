"""How a command is declared, and options that several commands share.

A declaration has what the parser, help and completion need. What runs the command is named, not imported: `run` is
"module:function" of this room, and the module loads when the command is chosen.
"""

from __future__ import annotations

import argparse
from typing import Any

from eddyline.cli.parser import Parser

Commands = Any  # what add_subparsers returns; argparse has no public name for it


def add_command(
    commands: Commands, name: str, summary: str, example: str, *, run: str | None = None
) -> Parser:
    """Declare a command; a group of actions has no `run` of its own."""
    parser: Parser = commands.add_parser(
        name,
        help=summary,
        description=summary,
        epilog=f"Try:  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    if run is not None:
        parser.set_defaults(run=run)
    add_common_options(parser)
    return parser


def add_group(commands: Commands, name: str, summary: str, example: str) -> Commands:
    """Declare a group of actions, to which actions are added as commands; its help lists them."""
    group = add_command(commands, name, summary, example)
    return group.add_subparsers(
        dest="action", metavar="ACTION", title="actions", parser_class=Parser, required=True
    )


def add_common_options(parser: Parser, *, is_top: bool = False) -> None:
    """Options of every command, before or after its name."""
    none: Any = None if is_top else argparse.SUPPRESS
    no: Any = False if is_top else argparse.SUPPRESS
    parser.add_argument(
        "--home", metavar="FOLDER", default=none, help="the home; else EDDYLINE_HOME, else of eddyline.toml"
    )
    parser.add_argument("--json", action="store_true", default=no, help="print for programs")
    parser.add_argument("--progress", action="store_true", default=none, help="show progress, also in a pipe")


def add_key_option(parser: Parser) -> None:
    parser.add_argument(
        "--key",
        action="append",
        default=[],
        metavar="COLUMN=VALUE",
        help="of the alert; again for more columns of per",
    )


def add_owner_option(parser: Parser) -> None:
    parser.add_argument("--owner", default="", metavar="OWNER", help="the owner of the query, if it has one")


def add_log_options(parser: Parser) -> None:
    """Options of the log on stderr."""
    parser.add_argument(
        "--log-format",
        choices=["text", "json"],
        default="text",
        metavar="FORMAT",
        help="text, or json: one object a line (text)",
    )
    levels = ["debug", "info", "warning", "error"]
    parser.add_argument(
        "--log-level", choices=levels, default="info", metavar="LEVEL", help=f"{', '.join(levels)} (info)"
    )


def add_spark_options(parser: Parser) -> None:
    """Options of Spark and the audit."""
    parser.add_argument(
        "--spark",
        action="store_true",
        help="let workers of Spark read and filter large input",
    )
    parser.add_argument(
        "--master",
        metavar="URL",
        help="the cluster to run on, such as spark://host:7077; all cores of this machine if not given",
    )
    parser.add_argument(
        "--conf",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of Spark, such as spark.executor.memory=4g; may be repeated",
    )
    parser.add_argument(
        "--audit",
        metavar="SHARE",
        help='let another engine evaluate this share of rounds again, such as "0.1 %%"',
    )
