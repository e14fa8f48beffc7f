"""`python -m eddyline.demo`, which `make demo` runs."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from dataclasses import replace
from types import FrameType

from eddyline.demo.screen import Screen
from eddyline.demo.show import FULL, QUICK, Size, play
from eddyline.errors import EddylineError

INTERRUPTED = 130  # what a shell makes of Ctrl-C


def main(arguments: list[str] | None = None) -> int:
    """0: every check held. 1: one did not, or it could not run. 130: stopped."""
    size, seed = _options(arguments)
    screen = Screen()
    signal.signal(signal.SIGTERM, _stopped)
    logging.getLogger().addFilter(_is_no_interrupt)
    try:
        return 0 if play(screen, size, seed) else 1
    except KeyboardInterrupt:
        screen.say("stopped; all temporary files were removed")
        return INTERRUPTED
    except EddylineError as error:
        print(error, file=sys.stderr)
        return 1


def _options(arguments: list[str] | None) -> tuple[Size, int]:
    parser = argparse.ArgumentParser(
        prog="python -m eddyline.demo",
        description="Thousands of rules over a stream of trades, on Spark on this machine. Takes about a minute and a half.",
        epilog='Through make: make demo ARGS="--rules 10000"',
    )
    parser.add_argument(
        "--rules", type=int, metavar="N", help=f"how many are deployed (default {FULL.n_rules:,})"
    )
    parser.add_argument("--seed", type=int, default=7, metavar="N", help="of trades and rules (default 7)")
    parser.add_argument(
        "--quick", action="store_true", help=f"a small one: {QUICK.n_rules:,} rules, fewer trades"
    )
    options = parser.parse_args(arguments)
    size = QUICK if options.quick else FULL
    if options.rules is not None:
        if not 10 <= options.rules <= 1_000_000:
            parser.error("--rules must be between 10 and 1,000,000")
        size = replace(size, n_rules=options.rules)
    if options.seed < 0:
        parser.error("--seed must be at least 0")
    return size, options.seed


def _stopped(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _is_no_interrupt(record: logging.LogRecord) -> bool:
    """Ctrl-C while Java is asked something is logged on the way here, with a traceback of no use."""
    return record.exc_info is None or record.exc_info[0] is not KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
