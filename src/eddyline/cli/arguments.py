"""The words of the command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any

from eddyline.catalog import names
from eddyline.cli.parser import MissingArgument, Parser, count, from_one, port, seconds
from eddyline.sources.formats import FORMATS
from eddyline.sql.properties import SEVERITIES

HELP = """\
Run standing SQL queries over streams.

  init NAME              a new folder with a pipeline, a rule and its test
  run, serve [PIPELINE]  rows in, rules in the middle, results out; with HTTP and a page
  plan, apply [RULES]    what would change, what can it cost? make it so, in one version
  test [PATHS]           run the .stream tests beside the rules
  stream add NAME        propose a stream from a sample of its data
  query ACTION           add, drop, list, show, pause or resume a query
  source, sink ACTION    list how far each is; retry one that fails
  tail, deadletters      results as they come; what could not be decided
  alerts, ack, silence   open alerts; take notice of them; send none for a while
  explain QUERY | SQL    how a query is answered; --all, --filters, --joins: all of it
  why QUERY [ROW]        why a row matches or does not; without a row: why so few do
  receipt ID, prove ID   what a result follows from; does plain Spark SQL find the same?
  export FOLDER          all that stands, as rule files
  versions, rollback N   earlier versions, and the way back to one
  rounds, top, doctor    what rounds took; what goes on now; is everything in order?
  backup, restore, token a home as one file, and back; who may use the server
  completion, version    for bash, zsh or fish; of eddyline

  --home FOLDER   the home; else EDDYLINE_HOME, else what eddyline.toml says
  --json          for programs    --progress  how far it is, also in a pipe    --help

Try:  eddyline init demo && cd demo && eddyline run --once
"""

Add = Callable[..., Any]


class _Top(Parser):
    def format_help(self) -> str:
        return HELP


def build() -> Parser:
    """The parser of all commands."""
    top = _Top(prog="eddyline", add_help=True, allow_abbrev=False)
    _common(top, is_top=True)
    commands = top.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)

    def command(name: str, summary: str, example: str) -> Parser:
        return _described(commands, name, summary, example)

    one = command(
        "init", "Start a folder with a pipeline, a rule, its test and some data.", "eddyline init demo"
    )
    one.add_argument("name", metavar="NAME", help="the folder to make")

    one = command("run", "Run a pipeline until it is stopped.", "eddyline run --once")
    one.add_argument(
        "pipeline",
        nargs="?",
        metavar="PIPELINE",
        help="a pipeline file or its folder; eddyline.toml if not given",
    )
    one.add_argument("--once", action="store_true", help="end when everything that is there has been read")
    _logs(one)
    _spark(one)

    one = command("serve", "Serve a pipeline, or a home, over HTTP.", "eddyline serve --port 8321")
    one.usage = "eddyline serve [PIPELINE] [OPTIONS]"  # they are listed below, and have to fit on the screen
    one.add_argument(
        "pipeline",
        nargs="?",
        metavar="PIPELINE",
        help="a pipeline file or its folder; eddyline.toml if not given, or a --home alone",
    )
    one.add_argument(
        "--host",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="where to listen (127.0.0.1: this machine only)",
    )
    one.add_argument("--port", type=port, default=8321, metavar="N", help="0 takes any that is free (8321)")
    one.add_argument(
        "--public-url", metavar="URL", help="under which people reach it, such as behind a proxy"
    )
    one.add_argument("--open-metrics", action="store_true", help="show /metrics without a token")
    one.add_argument(
        "--rate", type=from_one, default=50, metavar="N", help="requests a second of each token (50)"
    )
    one.add_argument(
        "--streams",
        type=from_one,
        default=100,
        metavar="N",
        help="streams of events a token may have open (100)",
    )
    _logs(one)
    _spark(one)

    _token_commands(command("token", "Work with tokens of the server.", "eddyline token list"))

    for name, summary in (
        ("plan", "Show what applying the rules would change."),
        ("apply", "Make the rules stand, in one version."),
    ):
        one = command(name, summary, f"eddyline {name} rules/ --prune")
        one.add_argument(
            "rules", nargs="*", metavar="RULES", help="files or folders; those of eddyline.toml if not given"
        )
        one.add_argument("--prune", action="store_true", help="drop queries that are in no file")
        one.add_argument("--pipeline", metavar="FILE", help="the pipeline file")
        if name == "apply":
            one.add_argument("--dry-run", action="store_true", help="do everything but the change")

    one = command("test", "Run the .stream tests beside the rules.", "eddyline test rules/cheap.stream")
    one.add_argument(
        "paths", nargs="*", metavar="PATH", help="files or folders; the folder of eddyline.toml if not given"
    )
    one.add_argument("--junit", metavar="FILE", help="write the outcome as JUnit XML")
    one.add_argument("--pipeline", metavar="FILE", help="the pipeline file")

    _stream_commands(command("stream", "Work with streams.", "eddyline stream add trades --sample data/"))
    _query_commands(command("query", "Work with single queries.", "eddyline query list"))
    _end_commands(command("source", "See how far sources are.", "eddyline source list"), "source", "STREAM")
    _end_commands(command("sink", "See how far sinks are.", "eddyline sink list"), "sink", "SINK")

    one = command("tail", "Show results as they come.", "eddyline tail cheap")
    one.add_argument("queries", nargs="*", metavar="QUERY", help="all queries if not given")
    one.add_argument(
        "-n", "--newest", type=count, default=10, metavar="N", help="begin with the N newest (10)"
    )
    one.add_argument("--after", metavar="CURSOR", help="begin after this result, or after this round")
    one.add_argument(
        "--reader", metavar="NAME", help="go on where the reader of this name ended, and remember"
    )
    one.add_argument("--no-follow", action="store_true", help="end with the last result there is")
    _owner(one)

    one = command(
        "alerts", "Show open alerts, or what alerts said.", "eddyline alerts --messages 20 --follow"
    )
    one.add_argument("query", nargs="?", metavar="QUERY", help="all queries if not given")
    one.add_argument("--messages", type=count, metavar="N", help="the N newest messages instead")
    one.add_argument("--follow", action="store_true", help="messages as they come")
    states = ["pending", "firing", "held"]
    one.add_argument("--state", choices=states, metavar="STATE", help="pending, firing or held")
    one.add_argument(
        "--history", action="store_true", help="what happened to one alert of the query, by --key"
    )
    _key(one)
    one.add_argument("--owner", metavar="OWNER", help="only of this owner")

    one = command(
        "silence",
        "Send no messages of a query's alerts until a time; list silences, or end one.",
        "eddyline silence cheap --key sym=A --for '2 hours' --reason deploy",
    )
    one.usage = (
        "eddyline silence QUERY (--for DURATION | --until TIME) [OPTIONS]\n"
        "       eddyline silence list [QUERY] [--all]\n"
        "       eddyline silence end ID"
    )
    one.add_argument("query", metavar="QUERY", help="a name, a number (q12), or a pattern such as 'watch-*'")
    one.add_argument("rest", nargs="?", metavar="ID", help="of the silence that is to end; for list, a query")
    _key(one)
    one.add_argument("--for", dest="duration", metavar="DURATION", help="how long, such as '2 hours'")
    one.add_argument("--until", metavar="TIME", help="such as 2026-01-31T08:00:00Z")
    one.add_argument(
        "--severity",
        choices=SEVERITIES,
        metavar="SEVERITY",
        help=f"only these: {', '.join(SEVERITIES)}",
    )
    one.add_argument("--reason", default="", metavar="WORDS", help="why, for whoever looks")
    one.add_argument("--all", action="store_true", help="list those that are over, too")
    one.add_argument("--owner", metavar="OWNER", help="whose query it is; of a pattern: only this owner's")

    one = command(
        "ack",
        "Take notice of open alerts of a query.",
        "eddyline ack cheap --key sym=A --note 'looking into it'",
    )
    one.add_argument("query", metavar="QUERY", help="a name, or a number")
    _key(one)
    one.add_argument("--note", default="", metavar="WORDS", help="for whoever looks")
    _owner(one)

    one = command("explain", "Show how a query is answered, or would be.", "eddyline explain cheap")
    one.add_argument("query", nargs="?", metavar="QUERY", help="a name, an SQL text, or a file of rules")
    one.add_argument(
        "--all", action="store_true", help="the predicate index of every stream, instead of a query"
    )
    one.add_argument(
        "--filters",
        nargs="?",
        const="",
        metavar="STREAM",
        help="the expensive conditions of a stream, or of all: their order and what sharing them saves",
    )
    one.add_argument(
        "--joins",
        action="store_true",
        help="what joins keep of each stream, and in which order rows look for partners",
    )
    _owner(one)

    one = command(
        "why", "Show why a row matches a query or does not.", "eddyline why cheap sym=ACME price=9.5"
    )
    one.add_argument("query", metavar="QUERY", help="a name")
    one.add_argument(
        "row",
        nargs="*",
        default=(),
        metavar="ROW",
        help="column=value …, or one JSON object; the last rows if not given",
    )
    one.add_argument("--last", type=count, default=1000, metavar="N", help="how many of the last rows (1000)")
    _owner(one)

    one = command("receipt", "Show everything a result follows from.", "eddyline receipt 12-345-6 --json")
    one.add_argument("result", metavar="ID", help="the cursor that eddyline tail --json shows")

    one = command(
        "prove", "Let plain Spark SQL judge a result, independent of the engine.", "eddyline prove 12-345-6"
    )
    one.add_argument("result", metavar="ID", help="the cursor that eddyline tail --json shows")

    one = command(
        "deadletters", "Show what could not be decided, and why.", "eddyline deadletters --query cheap"
    )
    one.add_argument("--query", metavar="QUERY", help="only of this query")
    one.add_argument("--stream", metavar="STREAM", help="only of this stream")
    one.add_argument("-n", "--newest", type=count, default=20, metavar="N", help="how many (20)")
    _owner(one)

    one = command("export", "Write all that stands as rule files.", "eddyline export backup/")
    one.add_argument("folder", metavar="FOLDER", help="a new or empty folder")

    one = command("versions", "List the versions of the home, newest first.", "eddyline versions")
    one.add_argument("-n", "--newest", type=count, default=20, metavar="N", help="how many (20)")

    one = command(
        "rollback", "Make the queries of an earlier version stand again.", "eddyline rollback 12 --dry-run"
    )
    one.add_argument("version", type=count, metavar="VERSION", help="see eddyline versions")
    one.add_argument("--dry-run", action="store_true", help="only show what that would take")

    one = command("rounds", "Show what the last rounds took, newest first.", "eddyline rounds --newest 5")
    one.add_argument("-n", "--newest", type=count, default=20, metavar="N", help="how many (20)")

    one = command("top", "Watch a running home.", "eddyline top")
    one.add_argument("--once", action="store_true", help="print one frame and end")
    one.add_argument("--every", type=seconds, default=1.0, metavar="SECONDS", help="between frames (1)")
    sorts = ["results", "rate", "dead", "name"]
    one.add_argument("--sort", choices=sorts, default="rate", metavar="BY", help=f"{', '.join(sorts)} (rate)")

    one = command(
        "backup", "Write a home to one file, also while it runs.", "eddyline backup trading/ trading.tar.gz"
    )
    one.add_argument(
        "folder", nargs="?", metavar="HOME", help="the home; if not given, as with other commands"
    )
    one.add_argument("file", nargs="?", metavar="FILE", help="a new .tar, or .tar.gz to have it compressed")
    one.add_argument("--verify", metavar="FILE", help="read this backup and compare everything in it instead")

    one = command("restore", "Make a home of a backup.", "eddyline restore trading.tar.gz trading/")
    one.add_argument("file", metavar="FILE", help="the backup")
    one.add_argument("folder", metavar="HOME", help="the folder to make; it must not be there")

    one = command("doctor", "Check this machine and the home.", "eddyline doctor")
    one.add_argument(
        "--forget-damaged", action="store_true", help="leave files that are damaged out from now on"
    )
    one.add_argument(
        "--prepare", action="store_true", help="build Java's class archive now, so that Spark starts faster"
    )

    one = command("completion", "Print completion for a shell.", 'eval "$(eddyline completion bash)"')
    one.add_argument("shell", choices=["bash", "zsh", "fish"], metavar="SHELL", help="bash, zsh or fish")

    command("version", "Print the version of eddyline.", "eddyline version --json")
    return top


def _logs(one: Parser) -> None:
    """What is said on stderr while it runs."""
    one.add_argument(
        "--log-format",
        choices=["text", "json"],
        default="text",
        metavar="FORMAT",
        help="text, or json: one object a line (text)",
    )
    levels = ["debug", "info", "warning", "error"]
    one.add_argument(
        "--log-level", choices=levels, default="info", metavar="LEVEL", help=f"{', '.join(levels)} (info)"
    )


def _spark(one: Parser) -> None:
    """What a pipeline runs on, and who looks after it."""
    one.add_argument(
        "--spark",
        action="store_true",
        help="let workers of Spark read and filter large input",
    )
    one.add_argument(
        "--master",
        metavar="URL",
        help="the cluster to run on, such as spark://host:7077; all cores of this machine if not given",
    )
    one.add_argument(
        "--conf",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of Spark, such as spark.executor.memory=4g; may be repeated",
    )
    one.add_argument(
        "--audit",
        metavar="SHARE",
        help='let another engine evaluate this share of rounds again, such as "0.1 %%"',
    )


def _token_commands(token: Parser) -> None:
    actions = _actions(token)
    one = _described(
        actions, "add", "Make a token; it is shown once.", "eddyline token add --role author --owner anna"
    )
    roles = ["reader", "author", "admin"]
    one.add_argument(
        "--role",
        choices=roles,
        default="reader",
        metavar="ROLE",
        help="reader: see own queries; author: change them, too; admin: everything (reader)",
    )
    one.add_argument("--note", default="", metavar="TEXT", help="what it is for")
    one.add_argument(
        "--expires", metavar="DURATION", help='from now on, such as "30 days"; never if not given'
    )
    _owner(one)
    _described(actions, "list", "List tokens, without what they are.", "eddyline token list")
    one = _described(actions, "drop", "Make tokens worthless.", "eddyline token drop 3f2a9c01b7de")
    one.add_argument("tokens", nargs="+", metavar="ID", help="see eddyline token list")


def _stream_commands(stream: Parser) -> None:
    actions = _actions(stream)
    one = _described(
        actions,
        "add",
        "Propose a stream from a sample of its data.",
        "eddyline stream add trades --sample data/trades.json --write",
    )
    one.add_argument("name", metavar="NAME", help="what the stream is called")
    one.add_argument("--sample", metavar="PATH", help="a file or folder to look at; - for standard input")
    one.add_argument(
        "--rows", type=from_one, default=1000, metavar="N", help="how many of the first rows (1000)"
    )
    one.add_argument(
        "--format", choices=FORMATS, metavar="FORMAT", help=f"{', '.join(FORMATS)}; else by name and content"
    )
    one.add_argument("--delimiter", metavar="CHAR", help="of CSV; else the likeliest")
    one.add_argument("--time", metavar="COLUMN", help="when a row happened; else the likeliest")
    units = ["s", "ms", "us", "ns"]
    one.add_argument("--time-unit", choices=units, metavar="UNIT", help="s, ms, us or ns, of numbers in it")
    one.add_argument("--time-format", metavar="FORM", help="of text in it: dd.MM.yyyy HH:mm, or iso")
    one.add_argument("--write", action="store_true", help="add the stream to the pipeline file")
    one.add_argument("--pipeline", metavar="FILE", help="the pipeline file")


def _end_commands(group: Parser, noun: str, metavar: str) -> None:
    """The ends of a pipeline that runs."""
    actions = _actions(group)
    shown = f"List {noun}s: position, behind, rate, failures."
    _described(actions, "list", shown, f"eddyline {noun} list")
    again = f"Try a {noun} that fails again now, without its pause."
    example = {"source": "trades", "sink": "webhook"}[noun]
    one = _described(actions, "retry", again, f"eddyline {noun} retry {example}")
    one.add_argument("name", metavar=metavar, help=f"see eddyline {noun} list")


def _query_commands(query: Parser) -> None:
    actions = _actions(query)

    one = _described(
        actions,
        "add",
        "Register a query.",
        'eddyline query add --name cheap "SELECT sym FROM trades WHERE price < 10"',
    )
    one.add_argument("text", nargs="?", metavar="SQL", help="a SELECT; - to read it from standard input")
    one.add_argument("--file", metavar="FILE", help="read it from a file")
    one.add_argument("--name", metavar="NAME", help="what it is called")
    one.add_argument(
        "--param",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="the value of :NAME; again for more",
    )
    one.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a property, such as enabled=false"
    )
    one.add_argument("--replace", action="store_true", help="also if the name is taken by another text")
    _owner(one)

    for name, summary in (
        ("drop", "End queries."),
        ("pause", "Let queries see nothing until they are resumed."),
        ("resume", "Let paused queries stand again."),
    ):
        one = _described(actions, name, summary, f"eddyline query {name} cheap")
        one.add_argument("queries", nargs="+", metavar="QUERY", help="a name, or a number")
        _owner(one)

    one = _described(actions, "list", "List queries.", "eddyline query list cheap --state paused")
    one.add_argument("pattern", nargs="?", metavar="PART", help="part of the name or the text")
    states = ["running", "paused", "suspended"]
    one.add_argument("--state", choices=states, metavar="STATE", help="running, paused or suspended")
    one.add_argument("--owner", metavar="OWNER", help="only of this owner")
    one.add_argument("--page", type=from_one, default=1, metavar="N")
    one.add_argument("--per-page", type=from_one, default=50, metavar="N", help="how many (50)")

    one = _described(actions, "show", "Show all about a query.", "eddyline query show cheap")
    one.add_argument("query", metavar="QUERY", help="a name, or a number")
    one.add_argument("--latest", type=count, default=5, metavar="N", help="how many of its results (5)")
    _owner(one)


def _actions(group: Parser) -> Any:
    """What a group of commands can do; its help lists them."""
    return group.add_subparsers(
        dest="action", metavar="ACTION", title="actions", parser_class=Parser, required=True
    )


def _described(commands: Any, name: str, summary: str, example: str) -> Parser:
    parser: Parser = commands.add_parser(
        name,
        help=summary,
        description=summary,
        epilog=f"Try:  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _common(parser)
    return parser


def _common(parser: Parser, *, is_top: bool = False) -> None:
    """Options of every command, before or after its name."""
    none: Any = None if is_top else argparse.SUPPRESS
    no: Any = False if is_top else argparse.SUPPRESS
    parser.add_argument(
        "--home", metavar="FOLDER", default=none, help="the home; else EDDYLINE_HOME, else of eddyline.toml"
    )
    parser.add_argument("--json", action="store_true", default=no, help="print for programs")
    parser.add_argument(
        "--progress", action="store_true", default=none, help="say how far it is, also in a pipe"
    )


def _key(parser: Parser) -> None:
    parser.add_argument(
        "--key",
        action="append",
        default=[],
        metavar="COLUMN=VALUE",
        help="of the alert; again for more columns of per",
    )


def _owner(parser: Parser) -> None:
    parser.add_argument("--owner", default="", metavar="OWNER", help="whose query it is, if somebody's")


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """What was asked for. Raises CommandError."""
    try:
        args: argparse.Namespace = build().parse_args(argv)
    except MissingArgument as error:
        words = sys.argv[1:] if argv is None else argv
        home = names.home_folder(words)
        if error.kind is not None and home is not None:
            error.list_names(names.names(error.kind, words), str(home))
        raise
    return args
