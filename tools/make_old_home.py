"""Make the home that later versions must still open: tests/homes/format-N/, and beside it what it holds.

    .venv/bin/python tools/make_old_home.py

It is made once, when a format of the home is first released, and stays as it is from then on. A change of the format brings a
migration (src/eddyline/catalog/migrations.py) and a home of its own.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import eddyline
from eddyline.catalog import FORMAT
from eddyline.engine import Durable

HOMES = Path(__file__).parent.parent / "tests" / "homes"
START_US = 1_714_521_600_000_000  # 2024-05-01 00:00:00 UTC
TYPES = (
    "k INT, s STRING, f DOUBLE, d DECIMAL(12,3), day DATE, ts TIMESTAMP, ntz TIMESTAMP_NTZ, flag BOOLEAN, raw BINARY, "
    "list ARRAY<INT>, item STRUCT<a: INT, b: STRING>"
)


def fill(home: Path) -> None:
    """Every kind of thing a home can hold, in a few rounds."""
    now = START_US

    def clock() -> int:
        nonlocal now
        now += 1_000_000
        return now

    with eddyline.open(home, time_zone="Europe/Berlin", clock=clock) as engine:
        engine.stream(
            "trades", "sym STRING, price DOUBLE, qty INT, ts TIMESTAMP", time="ts", lateness="5 seconds"
        )
        engine.stream("everything", TYPES)
        engine.query(
            "SELECT sym, price FROM trades WHERE price < 10.5 AND sym <> 'Ω'", name="cheap", owner="ops"
        )
        engine.query("SELECT sym FROM trades WHERE 100 / qty > 5", name="share")
        engine.query("SELECT * FROM trades WHERE sym IN ('A', 'B') OR price IS NULL", name="replaced")
        engine.query("SELECT sym FROM trades WHERE ts > now() - INTERVAL 10 MINUTES", name="paused")
        engine.query("SELECT sym FROM trades", name="dropped")
        engine.query("SELECT sym FROM trades WHERE qty = :n", params={"n": 7})
        engine.query_many(
            "SELECT sym, price FROM trades WHERE sym = :sym AND price < :limit",
            params={"sym": ["A", "B", "C", "D"], "limit": [9.5, 20.0, 1.0, 2.0]},
            name="watch-{sym}",
        )
        engine.query_many(
            ["SELECT k FROM everything WHERE k > 1", "SELECT s FROM everything WHERE s LIKE 'a%'"]
        )
        engine.query(
            "SELECT k, d, day FROM everything WHERE d > 1.250 AND day >= DATE '2024-02-29' AND "
            "ts < TIMESTAMP '2024-05-01 12:00:00' AND flag AND item.a = 1",
            name="typed",
        )
        engine.query(
            "CREATE VIEW off TBLPROPERTIES (enabled = 'false') AS SELECT sym FROM trades WHERE qty > 1"
        )
        engine.query(
            "SELECT sym, price, ts FROM trades WHERE qty >= 0",
            name="alert",
            per="sym",
            resolve="1 hour",
            cooldown="2 hours",
            message="{sym} at {price:.1f}, {ts:%H:%M}",
            severity="error",
            deliver="ops",
        )
        engine.query("SELECT qty FROM trades WHERE price < 5", name="instant", cooldown="1 day")
        engine.push(
            "trades",
            [("A", 9.0, 3, "2024-05-01 00:00:10"), ("B", 11.0, 0, "2024-05-01 00:00:11")],
            token="t1",
        )
        engine.get("paused").pause()
        engine.replace("replaced", "SELECT sym AS symbol FROM trades WHERE price >= 10")
        engine.drop("dropped")
        engine.get("watch-A").pause()
        engine.drop("watch-C")
        engine.push(
            {
                "trades": [
                    {"sym": "A", "price": 9.25, "qty": 7, "ts": "2024-05-01 00:00:01"},
                    {"sym": "B", "price": "not a number"},
                    {"sym": "D", "price": 1.5, "qty": None, "ts": "2024-05-01 00:00:20"},
                ],
                "everything": [
                    {"k": 5, "s": "abc", "d": "2.500", "day": "2024-05-01", "ts": "2024-05-01 00:00:00", "flag": True,
                     "raw": b"\x00\xff", "list": [1, None], "item": {"a": 1, "b": "x"}},
                ],
            },
            token="t2",
        )  # fmt: skip
        engine.get("watch-A").resume()
        engine.tick()
        engine.acknowledge("alert", {"sym": "A"}, note="looking", by="kim")
        engine.silence("alert", {"sym": "D"}, for_="1 day", reason="maintenance", by="kim")
        engine.silence("inst*", until="2024-05-02T00:00:00Z", severity="warning")
        engine.end_silence(engine.silence("*", for_="1 minute"), by="kim")
        engine.push("trades", [("A", 1.0, 0, "2024-05-01 00:00:30"), ("D", 3.0, 1, "2024-05-01 00:00:31")])
        engine.rounds.run_round({}, positions={"folder:in": {"file": "b.json", "row": 7}})
        assert engine.rounds.durable is not None
        engine.rounds.durable.rounds.cursors.set("mail", 2, 1)
        fill_relations(engine)


def fill_relations(engine: eddyline.Engine) -> None:
    """Tables, joins, views and their readers, an alert over a table."""
    engine.stream("quotes", "venue STRING, bid DOUBLE", key="venue")
    engine.stream("orders", "venue STRING, amount DOUBLE, ts TIMESTAMP", time="ts", window="1 hour")
    engine.query("SELECT venue, bid FROM quotes WHERE bid > 10", name="high bids")
    engine.query("SELECT venue, bid FROM quotes WHERE bid > 20", name="bid alert", message="{venue}: {bid}")
    engine.query("SELECT venue, amount, ts FROM orders WHERE amount >= 100", name="large")
    engine.query("SELECT l.venue, q.bid FROM large l JOIN quotes q ON l.venue = q.venue", name="matched")
    engine.query("SELECT venue FROM `high bids` WHERE venue <> 'Y'", name="read")
    engine.query(
        "SELECT a.venue, b.amount FROM orders a JOIN orders b ON a.venue = b.venue AND a.amount < b.amount "
        "AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 10 MINUTES",
        name="rising",
    )
    engine.query(
        "SELECT amount FROM (SELECT venue, amount FROM orders WHERE amount > 50) o "
        "WHERE EXISTS (SELECT 1 FROM quotes q WHERE q.venue = o.venue)",
        name="quoted",
    )
    engine.push("quotes", [("X", 11.0), ("Y", 25.0), ("Z", 5.0)])
    engine.push("orders", [("X", 60.0, "2024-05-01 00:00:10"), ("X", 120.0, "2024-05-01 00:00:12")])
    engine.push("quotes", [("X", 22.0), ("Y", 1.0)])
    engine.push("orders", [("X", 130.0, "2024-05-01 00:00:20"), ("N", 500.0, "2024-05-01 00:00:21")])


def facts(engine: eddyline.Engine) -> dict[str, Any]:
    """All a home holds, as JSON has it."""
    catalog, durable = engine.rounds.catalog, engine.rounds.durable
    assert durable is not None
    return {
        "version": engine.version,
        "time zone": engine.rounds.time_zone,
        "streams": [
            [s.name, [[f.name, str(f.type), f.nullable] for f in s.schema], s.time, s.lateness_us] for s in catalog.streams()
        ],
        "queries": [
            {
                "id": record.id,
                "name": record.name,
                "text": record.text,
                "state": record.state.value,
                "generation": record.generation,
                "version": record.version_from,
                "registered_us": record.registered_us,
                "owner": record.properties.owner,
                "constants": [str(constant) for constant in record.constants],
                "columns": [[field.name, str(field.type)] for field in record.shape.output],
                "results": [
                    [r.round_number, r.generation, r.arrival, r.is_late, {k: str(v) for k, v in r.items()}]
                    for r in engine.get(record.id).latest(100)
                ],
            }
            for record in catalog.records()
        ],
        "dead letters": [
            [d.round_number, d.stream, d.query_id, d.arrival, d.error, {k: str(v) for k, v in d.row.items()}]
            for d in engine.dead_letters()
        ],
        "rounds": [
            [done.round.number, done.round.version, done.round.now_us, done.round.token, done.last_arrival, done.n_results]
            for done in durable.rounds.recent(100)
        ],
        "progress": {name: [p.n_rows, p.watermark_us, p.n_late] for name, p in sorted(engine.rounds.progress.items())},
        "position": durable.rounds.position("folder:in"),
        "cursors": {name: list(place) for name, place in durable.rounds.cursors.all().items() if name != "alerts"},
        **_alerts(engine, durable),
        "versions": [what for _, _, what in durable.database.versions.recent(100)],
        "recent rows": {name: len(rows) for name, rows in sorted(engine.rounds.recent.items())},
    }  # fmt: skip


def _alerts(engine: eddyline.Engine, durable: Durable) -> dict[str, Any]:
    """What alerts there are; a home of a format before them has none."""
    counts = {
        query_id: list(durable.alerts.counts(query_id)) for query_id in durable.alerts.counted_query_ids()
    }
    if not counts:
        return {}
    return {
        "alerts": [alert.as_dict() for alert in engine.alerts()],
        "messages": [message.as_dict() | {"deliver": list(message.deliver)} for message in engine.messages()],
        "alert counts": {str(query_id): of for query_id, of in counts.items()},
        "alerts read to": durable.alerts.cursor(),
        "silences": [silence.as_dict() for silence in engine.silences(over=None)],
        "withheld": [
            [*key, kept.n_messages, kept.last.message] for key, kept in durable.alerts.withheld().items()
        ],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--anew", action="store_true", help="replace it: only before the format is released")
    options = parser.parse_args()
    home, beside = HOMES / f"format-{FORMAT}", HOMES / f"format-{FORMAT}.json"
    if home.exists() and not options.anew:
        print(f"tests/homes/{home.name} is there already; it stays as it is.", file=sys.stderr)
        return 1
    shutil.rmtree(home, ignore_errors=True)
    fill(home)
    with eddyline.open(home, clock=lambda: 0) as engine:  # by today's it would forget
        held = facts(engine)
    (home / "lock").unlink()
    (home / "rounds.jsonl").unlink(missing_ok=True)  # how long rounds took here is nobody's business later
    beside.write_text(json.dumps(held, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
