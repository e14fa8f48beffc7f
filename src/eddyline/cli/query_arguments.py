"""Commands about queries, their results and their alerts: what they are called, what they take, what runs them."""

from __future__ import annotations

from eddyline.choices import SEVERITIES
from eddyline.cli.options import (
    Commands,
    add_command,
    add_group,
    add_key_option,
    add_owner_option,
)
from eddyline.cli.parser import count, from_one


def query(commands: Commands) -> None:
    actions = add_group(commands, "query", "Work with single queries.", "eddyline query list")

    parser = add_command(
        actions,
        "add",
        "Register a query.",
        'eddyline query add --name cheap "SELECT sym FROM trades WHERE price < 10"',
        run="queries:add",
    )
    parser.add_argument("text", nargs="?", metavar="SQL", help="a SELECT; - to read it from standard input")
    parser.add_argument("--file", metavar="FILE", help="read it from a file")
    parser.add_argument("--name", metavar="NAME", help="the name of the query")
    parser.add_argument(
        "--param",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="the value of :NAME; again for more",
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a property, such as enabled=false"
    )
    parser.add_argument("--replace", action="store_true", help="replace the text of an existing query")
    add_owner_option(parser)

    for name, summary in (
        ("drop", "Drop queries."),
        ("pause", "Pause queries until they are resumed."),
        ("resume", "Resume paused queries."),
    ):
        parser = add_command(actions, name, summary, f"eddyline query {name} cheap", run=f"queries:{name}")
        parser.add_argument("queries", nargs="+", metavar="QUERY", help="a name, or a number")
        if name == "drop":
            parser.add_argument(
                "--cascade", action="store_true", help="with the queries that read them as views"
            )
        add_owner_option(parser)

    parser = add_command(
        actions, "list", "List queries.", "eddyline query list cheap --state paused", run="queries:list"
    )
    parser.add_argument("pattern", nargs="?", metavar="PART", help="part of the name or the text")
    states = ["running", "paused", "suspended"]
    parser.add_argument("--state", choices=states, metavar="STATE", help="running, paused or suspended")
    parser.add_argument("--owner", metavar="OWNER", help="only of this owner")
    parser.add_argument("--page", type=from_one, default=1, metavar="N")
    parser.add_argument("--per-page", type=from_one, default=50, metavar="N", help="how many (50)")

    parser = add_command(
        actions, "show", "Show all about a query.", "eddyline query show cheap", run="queries:show"
    )
    parser.add_argument("query", metavar="QUERY", help="a name, or a number")
    parser.add_argument("--latest", type=count, default=5, metavar="N", help="how many of its results (5)")
    add_owner_option(parser)


def tail(commands: Commands) -> None:
    parser = add_command(
        commands, "tail", "Show results, and follow new ones.", "eddyline tail cheap", run="results:tail"
    )
    parser.add_argument("queries", nargs="*", metavar="QUERY", help="all queries if not given")
    parser.add_argument(
        "-n", "--newest", type=count, default=10, metavar="N", help="begin with the N newest (10)"
    )
    parser.add_argument("--after", metavar="CURSOR", help="begin after this result, or after this round")
    parser.add_argument(
        "--reader",
        metavar="NAME",
        help="continue where the reader of this name ended, and store the position",
    )
    parser.add_argument("--no-follow", action="store_true", help="end after the last stored result")
    add_owner_option(parser)


def alerts(commands: Commands) -> None:
    parser = add_command(
        commands,
        "alerts",
        "Show open alerts, or messages of alerts.",
        "eddyline alerts --messages 20 --follow",
        run="alerts:alerts",
    )
    parser.add_argument("query", nargs="?", metavar="QUERY", help="all queries if not given")
    parser.add_argument("--messages", type=count, metavar="N", help="the N newest messages instead")
    parser.add_argument("--follow", action="store_true", help="follow new messages")
    states = ["pending", "firing", "held"]
    parser.add_argument("--state", choices=states, metavar="STATE", help="pending, firing or held")
    parser.add_argument(
        "--history", action="store_true", help="what happened to one alert of the query, by --key"
    )
    add_key_option(parser)
    parser.add_argument("--owner", metavar="OWNER", help="only of this owner")


def silence(commands: Commands) -> None:
    parser = add_command(
        commands,
        "silence",
        "Send no messages of a query's alerts until a time; list silences, or end one.",
        "eddyline silence cheap --key sym=A --for '2 hours' --reason deploy",
        run="silences:silence",
    )
    parser.usage = (
        "eddyline silence QUERY (--for DURATION | --until TIME) [OPTIONS]\n"
        "       eddyline silence list [QUERY] [--all]\n"
        "       eddyline silence end ID"
    )
    parser.add_argument(
        "query", metavar="QUERY", help="a name, a number (q12), or a pattern such as 'watch-*'"
    )
    parser.add_argument(
        "rest", nargs="?", metavar="ID", help="of the silence that is to end; for list, a query"
    )
    add_key_option(parser)
    parser.add_argument("--for", dest="duration", metavar="DURATION", help="how long, such as '2 hours'")
    parser.add_argument("--until", metavar="TIME", help="such as 2026-01-31T08:00:00Z")
    parser.add_argument(
        "--severity",
        choices=SEVERITIES,
        metavar="SEVERITY",
        help=f"only these: {', '.join(SEVERITIES)}",
    )
    parser.add_argument("--reason", default="", metavar="WORDS", help="the reason, shown to other users")
    parser.add_argument("--all", action="store_true", help="list ended silences, too")
    parser.add_argument(
        "--owner", metavar="OWNER", help="the owner of the query; of a pattern: only this owner's"
    )


def ack(commands: Commands) -> None:
    parser = add_command(
        commands,
        "ack",
        "Acknowledge open alerts of a query.",
        "eddyline ack cheap --key sym=A --note 'looking into it'",
        run="silences:ack",
    )
    parser.add_argument("query", metavar="QUERY", help="a name, or a number")
    add_key_option(parser)
    parser.add_argument("--note", default="", metavar="WORDS", help="shown to other users")
    add_owner_option(parser)


def explain(commands: Commands) -> None:
    parser = add_command(
        commands,
        "explain",
        "Show how a query is evaluated, or would be.",
        "eddyline explain cheap",
        run="queries:explain",
    )
    parser.add_argument("query", nargs="?", metavar="QUERY", help="a name, an SQL text, or a file of rules")
    parser.add_argument(
        "--all", action="store_true", help="the predicate index of every stream, instead of a query"
    )
    parser.add_argument(
        "--filters",
        nargs="?",
        const="",
        metavar="STREAM",
        help="the expensive conditions of a stream, or of all: their order and what sharing them saves",
    )
    parser.add_argument(
        "--joins",
        action="store_true",
        help="the rows joins retain of each stream, and the order of probes",
    )
    parser.add_argument(
        "--aggregates",
        nargs="?",
        const="",
        metavar="STREAM",
        help="what aggregates keep, of a stream or of all: groups, bytes, which queries share it",
    )
    add_owner_option(parser)


def why(commands: Commands) -> None:
    parser = add_command(
        commands,
        "why",
        "Show why a row matches a query or does not.",
        "eddyline why cheap sym=ACME price=9.5",
        run="queries:why",
    )
    parser.add_argument("query", metavar="QUERY", help="a name")
    parser.add_argument(
        "row",
        nargs="*",
        default=(),
        metavar="ROW",
        help="column=value …, or one JSON object; the last rows if not given",
    )
    parser.add_argument(
        "--last", type=count, default=1000, metavar="N", help="how many of the last rows (1000)"
    )
    add_owner_option(parser)


def receipt(commands: Commands) -> None:
    parser = add_command(
        commands,
        "receipt",
        "Show everything a result follows from.",
        "eddyline receipt 12-345-6 --json",
        run="prove:receipt",
    )
    parser.add_argument("result", metavar="ID", help="the cursor that eddyline tail --json shows")


def prove(commands: Commands) -> None:
    parser = add_command(
        commands,
        "prove",
        "Prove a result with plain Spark SQL, independent of the engine.",
        "eddyline prove 12-345-6",
        run="prove:prove",
    )
    parser.add_argument("result", metavar="ID", help="the cursor that eddyline tail --json shows")


def deadletters(commands: Commands) -> None:
    parser = add_command(
        commands,
        "deadletters",
        "Show rows that could not be decided, and why.",
        "eddyline deadletters --query cheap",
        run="results:deadletters",
    )
    parser.add_argument("--query", metavar="QUERY", help="only of this query")
    parser.add_argument("--stream", metavar="STREAM", help="only of this stream")
    parser.add_argument("-n", "--newest", type=count, default=20, metavar="N", help="how many (20)")
    add_owner_option(parser)
