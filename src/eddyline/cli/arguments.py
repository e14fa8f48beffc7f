"""The words of the command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from eddyline.cli import home_arguments, pipeline_arguments, query_arguments
from eddyline.cli.options import add_common_options
from eddyline.cli.parser import MissingArgument, Parser

HELP = """\
Run standing SQL queries over streams.

  init NAME              create a folder with a pipeline, a rule and its test
  run, serve [PIPELINE]  read sources, evaluate rules, write results; also over HTTP
  plan, apply [RULES]    show what would change and its cost; deploy it as one version
  test [PATHS]           run the .stream tests beside the rules
  stream add NAME        propose a stream from a sample of its data
  query ACTION           add, drop, list, show, pause or resume a query
  source, sink ACTION    list the progress of each; retry one that fails
  tail, deadletters      follow results; show rows that could not be decided
  alerts, ack, silence   show open alerts; acknowledge them; withhold their messages
  explain QUERY | SQL    show how it is evaluated; --all, --filters, --joins, --aggregates
  why QUERY [ROW]        show why a row matches or not; without a row: the last rows
  receipt ID, prove ID   show what a result follows from; prove it with Spark SQL
  export FOLDER          write all deployed queries as rule files
  versions, rollback N   list earlier versions; deploy one again
  rounds, top, doctor    show recent rounds; watch a running home; check everything
  backup, restore, token save a home to one file; restore it; manage access
  completion, version    shell completion for bash, zsh or fish; the version

  --home FOLDER   the home; else EDDYLINE_HOME, else that of eddyline.toml
  --json          for programs    --progress  show progress, also in a pipe    --help

Try:  eddyline init demo && cd demo && eddyline run --once
"""

# In the order in which help and completion list them.
_DECLARATIONS = (
    pipeline_arguments.init,
    pipeline_arguments.run,
    pipeline_arguments.serve,
    pipeline_arguments.token,
    pipeline_arguments.plan,
    pipeline_arguments.apply,
    pipeline_arguments.test,
    pipeline_arguments.stream,
    query_arguments.query,
    home_arguments.source,
    home_arguments.sink,
    query_arguments.tail,
    query_arguments.alerts,
    query_arguments.silence,
    query_arguments.ack,
    query_arguments.explain,
    query_arguments.why,
    query_arguments.receipt,
    query_arguments.prove,
    query_arguments.deadletters,
    home_arguments.export,
    home_arguments.versions,
    home_arguments.rollback,
    home_arguments.rounds,
    home_arguments.top,
    home_arguments.backup,
    home_arguments.restore,
    home_arguments.doctor,
    home_arguments.completion,
    home_arguments.version,
)


class _Top(Parser):
    def format_help(self) -> str:
        return HELP


def build() -> Parser:
    """The parser of all commands."""
    top = _Top(prog="eddyline", add_help=True, allow_abbrev=False)
    add_common_options(top, is_top=True)
    commands = top.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    for declare in _DECLARATIONS:
        declare(commands)
    return top


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The parsed command. Raises CommandError."""
    try:
        args: argparse.Namespace = build().parse_args(argv)
    except MissingArgument as error:
        from eddyline.catalog import names  # only a wrong command waits for it

        words = sys.argv[1:] if argv is None else argv
        home = names.home_folder(words)
        if error.kind is not None and home is not None:
            error.list_names(names.names(error.kind, words), str(home))
        raise
    return args
