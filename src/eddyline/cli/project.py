"""`eddyline init`: a folder that runs as it is."""

from __future__ import annotations

import argparse
from pathlib import Path

from eddyline.cli.output import Output
from eddyline.cli.parser import CommandError

FILES = {
    "eddyline.toml": """\
# Sources, rules and sinks of a pipeline.     eddyline run --once

[engine]
home = "home" # state and results; created by the first run

[streams.trades]
schema = "sym STRING, sector STRING, price DOUBLE, qty INT, ts TIMESTAMP"
time = "ts"
lateness = "5 seconds"
source = { type = "files", path = "data", format = "json" }

[functions]
modules = ["functions"]

[rules]
files = ["rules/*.sql"]

[[sinks]]
type = "stdout"
format = "text"
""",
    "rules/cheap.sql": """\
-- Technology shares that cost less than ten.
CREATE OR REPLACE VIEW cheap AS
  SELECT sym, price FROM trades WHERE sector = 'TECH' AND price < 10;
""",
    "rules/cheap.stream": """\
# The test of cheap.sql: eddyline test
push trades ('ACME', 'TECH', 9.5, 100, '2026-01-05 09:30:00'), ('BYTE', 'TECH', 12.0, 50, '2026-01-05 09:30:01')
  cheap +'ACME', 9.5
push trades ('CORN', 'FOOD', 4.0, 10, '2026-01-05 09:30:02'), ('DATA', 'TECH', NULL, 10, '2026-01-05 09:30:03')
""",
    "rules/big.sql": """\
-- A rule may call a function of functions.py.
CREATE OR REPLACE VIEW big AS
  SELECT sym, worth(price, qty) AS worth FROM trades WHERE qty >= 1000 AND worth(price, qty) > 50000;
""",
    "functions.py": '''\
"""Functions that rules may call."""

import eddyline


@eddyline.udf(returns="double", takes=["double", "int"])
def worth(price: float, qty: int) -> float | None:
    """What a trade was worth."""
    return None if price is None or qty is None else price * qty
''',
    "data/trades.json": """\
{"sym": "ACME", "sector": "TECH", "price": 9.5, "qty": 100, "ts": "2026-01-05 09:30:00"}
{"sym": "BYTE", "sector": "TECH", "price": 13.0, "qty": 5000, "ts": "2026-01-05 09:30:01"}
{"sym": "CORN", "sector": "FOOD", "price": 4.25, "qty": 300, "ts": "2026-01-05 09:30:02"}
{"sym": "DATA", "sector": "TECH", "price": 7.75, "qty": 40, "ts": "2026-01-05 09:30:03"}
""",
    ".gitignore": "home/\n",
}


def init(args: argparse.Namespace, out: Output) -> int:
    folder = Path(args.name)
    existing = [name for name in FILES if (folder / name).exists()]
    if existing:
        raise CommandError(
            f"{folder / existing[0]} already exists", detail="Nothing was written.", hint="Name a new folder."
        )
    try:
        for name, text in FILES.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            with open(folder / name, "x", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        raise CommandError(
            f"cannot write to {folder}", detail=error.strerror, hint="Name a folder you may write to."
        ) from None
    if out.is_json:
        out.document({"folder": str(folder), "files": list(FILES)})
        return 0
    for name in FILES:
        out.text(str(folder / name))
    out.note(f"Try:  cd {folder} && eddyline run --once")
    return 0
