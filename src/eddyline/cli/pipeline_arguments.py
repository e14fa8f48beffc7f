"""Commands about a pipeline and its rules: what they are called, what they take, what runs them."""

from __future__ import annotations

from eddyline.choices import FORMATS
from eddyline.cli.options import (
    Commands,
    add_command,
    add_group,
    add_log_options,
    add_owner_option,
    add_spark_options,
)
from eddyline.cli.parser import Parser, from_one, port


def init(commands: Commands) -> None:
    parser = add_command(
        commands,
        "init",
        "Start a folder with a pipeline, a rule, its test and some data.",
        "eddyline init demo",
        run="project:init",
    )
    parser.add_argument("name", metavar="NAME", help="the folder to make")


def run(commands: Commands) -> None:
    parser = add_command(
        commands, "run", "Run a pipeline until it is stopped.", "eddyline run --once", run="running:run"
    )
    parser.add_argument(
        "pipeline",
        nargs="?",
        metavar="PIPELINE",
        help="a pipeline file or its folder; eddyline.toml if not given",
    )
    parser.add_argument("--once", action="store_true", help="end when everything that is there has been read")
    add_log_options(parser)
    add_spark_options(parser)


def serve(commands: Commands) -> None:
    parser = add_command(
        commands,
        "serve",
        "Serve a pipeline, or a home, over HTTP.",
        "eddyline serve --port 8321",
        run="serve:serve",
    )
    parser.usage = (
        "eddyline serve [PIPELINE] [OPTIONS]"  # they are listed below, and have to fit on the screen
    )
    parser.add_argument(
        "pipeline",
        nargs="?",
        metavar="PIPELINE",
        help="a pipeline file or its folder; eddyline.toml if not given, or a --home alone",
    )
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="where to listen (127.0.0.1: this machine only)",
    )
    parser.add_argument("--port", type=port, default=8321, metavar="N", help="0: any free port (8321)")
    parser.add_argument("--public-url", metavar="URL", help="the address users open, such as that of a proxy")
    parser.add_argument("--open-metrics", action="store_true", help="show /metrics without a token")
    parser.add_argument(
        "--rate", type=from_one, default=50, metavar="N", help="requests a second of each token (50)"
    )
    parser.add_argument(
        "--streams",
        type=from_one,
        default=100,
        metavar="N",
        help="event streams a token may have open (100)",
    )
    add_log_options(parser)
    add_spark_options(parser)


def token(commands: Commands) -> None:
    actions = add_group(commands, "token", "Work with tokens of the server.", "eddyline token list")
    parser = add_command(
        actions,
        "add",
        "Create a token; it is shown once.",
        "eddyline token add --role author --owner anna",
        run="token:add",
    )
    roles = ["reader", "author", "admin"]
    parser.add_argument(
        "--role",
        choices=roles,
        default="reader",
        metavar="ROLE",
        help="reader: see own queries; author: change them, too; admin: everything (reader)",
    )
    parser.add_argument("--note", default="", metavar="TEXT", help="what it is for")
    parser.add_argument(
        "--expires", metavar="DURATION", help='from now on, such as "30 days"; never if not given'
    )
    add_owner_option(parser)
    add_command(
        actions, "list", "List tokens, without their secrets.", "eddyline token list", run="token:list"
    )
    parser = add_command(
        actions, "drop", "Revoke tokens.", "eddyline token drop 3f2a9c01b7de", run="token:drop"
    )
    parser.add_argument("tokens", nargs="+", metavar="ID", help="see eddyline token list")


def plan(commands: Commands) -> None:
    parser = add_command(
        commands,
        "plan",
        "Show what applying the rules would change.",
        "eddyline plan rules/ --prune",
        run="rules:plan",
    )
    _add_rules_options(parser)


def apply(commands: Commands) -> None:
    parser = add_command(
        commands,
        "apply",
        "Deploy the rules, as one version.",
        "eddyline apply rules/ --prune",
        run="rules:apply",
    )
    _add_rules_options(parser)
    parser.add_argument("--dry-run", action="store_true", help="show the changes without making them")


def _add_rules_options(parser: Parser) -> None:
    parser.add_argument(
        "rules", nargs="*", metavar="RULES", help="files or folders; those of eddyline.toml if not given"
    )
    parser.add_argument("--prune", action="store_true", help="drop queries that are in no file")
    parser.add_argument("--pipeline", metavar="FILE", help="the pipeline file")


def test(commands: Commands) -> None:
    parser = add_command(
        commands,
        "test",
        "Run the .stream tests beside the rules.",
        "eddyline test rules/cheap.stream",
        run="checks:test",
    )
    parser.add_argument(
        "paths", nargs="*", metavar="PATH", help="files or folders; the folder of eddyline.toml if not given"
    )
    parser.add_argument("--junit", metavar="FILE", help="write the outcome as JUnit XML")
    parser.add_argument("--pipeline", metavar="FILE", help="the pipeline file")


def stream(commands: Commands) -> None:
    actions = add_group(commands, "stream", "Work with streams.", "eddyline stream add trades --sample data/")
    parser = add_command(
        actions,
        "add",
        "Propose a stream from a sample of its data.",
        "eddyline stream add trades --sample data/trades.json --write",
        run="streams:add",
    )
    parser.add_argument("name", metavar="NAME", help="the name of the stream")
    parser.add_argument("--sample", metavar="PATH", help="a file or folder to read; - for standard input")
    parser.add_argument(
        "--rows", type=from_one, default=1000, metavar="N", help="how many of the first rows (1000)"
    )
    parser.add_argument(
        "--format", choices=FORMATS, metavar="FORMAT", help=f"{', '.join(FORMATS)}; else by name and content"
    )
    parser.add_argument("--delimiter", metavar="CHAR", help="of CSV; else the likeliest")
    parser.add_argument("--time", metavar="COLUMN", help="the event time; else the likeliest")
    units = ["s", "ms", "us", "ns"]
    parser.add_argument(
        "--time-unit", choices=units, metavar="UNIT", help="s, ms, us or ns, of numbers in it"
    )
    parser.add_argument("--time-format", metavar="FORM", help="of text in it: dd.MM.yyyy HH:mm, or iso")
    parser.add_argument("--write", action="store_true", help="add the stream to the pipeline file")
    parser.add_argument("--pipeline", metavar="FILE", help="the pipeline file")
