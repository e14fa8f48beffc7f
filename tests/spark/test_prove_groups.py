"""Results of aggregates, proven by plain Spark SQL over the rows of their groups; and tampered ones, which are caught."""

import datetime
from dataclasses import replace

import pyarrow as pa
import pytest

import eddyline
from eddyline.engine import durable
from eddyline.errors import ProofError
from eddyline.proof import checksum_of
from eddyline.receipts import group_receipts, prove

AUTHS = (
    "CREATE TABLE auths (card STRING, amount BIGINT, declined BOOLEAN, ts TIMESTAMP)"
    " TBLPROPERTIES (time='ts', lateness='1 minute')"
)


def at(minute, second=0):
    return datetime.datetime(2026, 1, 1, 12, minute, second, tzinfo=datetime.UTC)


def auth(card, amount, minute, declined=True):
    return {"card": card, "amount": amount, "declined": declined, "ts": at(minute)}


TEXTS = {
    "often": (
        "SELECT card, count(*) AS n, sum(amount) AS s FROM auths WHERE declined GROUP BY card HAVING count(*) >= :low",
        {},
    ),
    "total": (
        "SELECT count(*) AS n, avg(amount) AS a, max_by(card, amount) AS m, last(card) AS l FROM auths",
        {},
    ),
    "counts": ("SELECT card, count(*) AS n FROM auths GROUP BY card", {}),
    "busy": ("SELECT n FROM counts WHERE n BETWEEN 2 AND 3", {}),
    "tumbling": (
        "SELECT count(*) AS n FROM auths GROUP BY window(ts, '10 minutes') HAVING count(*) >= 2",
        {},
    ),
    "sliding": (
        "SELECT card, count(*) AS n FROM auths GROUP BY card, window(ts, '10 minutes', '3 minutes')",
        {"emit": "final"},
    ),
    "sessions": ("SELECT card, count(*) AS n FROM auths GROUP BY card, session_window(ts, '4 minutes')", {}),
    "recent": (
        "SELECT card, count(*) AS n FROM auths WHERE ts > now() - INTERVAL 10 MINUTES GROUP BY card HAVING count(*) >= 2",
        {},
    ),
    "silent": ("SELECT card FROM auths GROUP BY card HAVING max(ts) < now() - INTERVAL 10 MINUTES", {}),
    "velocity": (
        "SELECT amount, count(*) OVER (PARTITION BY card ORDER BY ts RANGE BETWEEN INTERVAL 5 MINUTES PRECEDING AND CURRENT ROW)"
        " AS n FROM auths QUALIFY n >= 2",
        {},
    ),
    "lags": (
        "SELECT *, lag(amount, 1, -1) OVER (PARTITION BY card ORDER BY ts) AS before,"
        " sum(amount) OVER (PARTITION BY card ORDER BY ts ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s FROM auths",
        {},
    ),
    "fast": ("SELECT amount, n FROM velocity WHERE n >= 3", {}),
    "cities": ("SELECT city, count(*) AS n, min(id) AS first FROM shops GROUP BY city", {}),
}


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    """An engine with all these queries after four rounds and a tick."""
    now = [int(at(0).timestamp() * 1_000_000)]
    with eddyline.open(tmp_path_factory.mktemp("groups") / "home", clock=lambda: now[0]) as opened:
        opened.sql(AUTHS)
        opened.stream("shops", "id INT, city STRING", key="id")
        for name, (text, properties) in TEXTS.items():
            params = {"low": 2} if ":low" in text else None
            opened.query(text, name=name, params=params, **properties)
        opened.push(
            "auths", [auth("A", 1, 2), auth("A", 2, 4), auth("A", 3, 4), auth("B", 4, 5, declined=False)]
        )
        opened.push("shops", [(1, "Ulm"), (2, "Ulm"), (3, "Bonn")])
        now[0] = int(at(9).timestamp() * 1_000_000)
        opened.push("auths", [auth("B", 5, 8), auth("A", 6, 7), auth("A", 7, 1)])
        opened.push("shops", [(2, "Bonn")])
        now[0] = int(at(19).timestamp() * 1_000_000)
        opened.tick()
        opened.push("auths", [auth("A", 8, 30)])
        yield opened


@pytest.mark.parametrize("name", [*TEXTS])
def test_every_result_is_proven_and_its_change(engine, spark, name):
    results = engine.get(name).latest(20)
    assert results
    for result in results:
        proof = engine.prove(result, spark=spark)
        assert proof.is_proven, proof


def forged(receipt, **result):
    """A receipt that says something else, and fits itself."""
    body = {name: value for name, value in receipt.items() if name != "checksum"}
    body["result"] = {**body["result"], **result}
    return body | {"checksum": checksum_of(body)}


@pytest.mark.parametrize(
    ("name", "column"),
    [("often", "s"), ("sliding", "n"), ("sessions", "n"), ("velocity", "n"), ("cities", "first")],
)
def test_a_result_with_another_value_is_not_proven(engine, spark, name, column):
    receipt = engine.receipt(engine.get(name).latest(1)[0])
    proof = prove(forged(receipt, **{column: receipt["result"][column] + 1}), spark=spark)
    assert not proof.is_proven
    assert column in proof.note


def test_a_result_that_was_there_before_is_no_insert(engine, spark):
    after = next(r for r in engine.get("counts").latest(20) if r.change == "update_postimage")
    body = dict(engine.receipt(after)) | {"change": "insert"}
    body = {name: value for name, value in body.items() if name != "checksum"}
    proof = prove(body | {"checksum": checksum_of(body)}, spark=spark)
    assert not proof.is_proven
    assert "Before the round its" in proof.note


def test_a_row_that_is_left_out_of_a_receipt_is_noticed(engine, spark):
    receipt = engine.receipt(engine.get("often").latest(1)[0])
    body = {name: value for name, value in receipt.items() if name != "checksum"}
    body["rows"] = body["rows"][1:]
    assert not prove(body | {"checksum": checksum_of(body)}, spark=spark).is_proven


def test_estimates_are_not_proven(engine, spark):
    receipt = dict(engine.receipt(engine.get("often").latest(1)[0]))
    body = receipt | {"text": receipt["text"].replace("count(*)", "approx_count_distinct(amount)")}
    body = {name: value for name, value in body.items() if name != "checksum"}
    with pytest.raises(ProofError, match="approx_count_distinct is an estimate"):
        prove(body | {"checksum": checksum_of(body)}, spark=spark)


def test_the_audit_judges_results_of_aggregates_and_finds_a_wrong_one(tmp_path, spark, monkeypatch):
    with eddyline.open(tmp_path / "home", audit=1.0) as engine:
        engine.sql(AUTHS)
        engine.query("SELECT card, count(*) AS n FROM auths GROUP BY card", name="counts", keep="1 day")
        engine.push("auths", [auth("A", 1, 1), auth("B", 1, 1)])
        assert engine.finish_audit()
        found = engine.audited()
        assert (found.n_rounds, found.n_queries, found.n_pairs, found.n_differences) == (1, 1, 2, 0)
        original = durable.stored_part

        def forged(part, generations):
            stored = original(part, generations)
            n = pa.array([n + 1 for n in stored.rows.column("n").to_pylist()], pa.int64())
            return replace(stored, rows=stored.rows.set_column(1, "n", n))

        monkeypatch.setattr(durable, "stored_part", forged)
        engine.push("auths", [auth("C", 1, 2)])
        assert engine.finish_audit()
        assert engine.audited().n_differences == 1


def test_the_audit_counts_results_whose_judge_finds_something_else(tmp_path, spark, monkeypatch):
    with eddyline.open(tmp_path / "home", audit=1.0) as engine:
        engine.sql(AUTHS)
        engine.query("SELECT card, count(*) AS n FROM auths GROUP BY card", name="counts", keep="1 day")
        told = group_receipts.GroupReceipts.body
        monkeypatch.setattr(
            group_receipts.GroupReceipts,
            "body",
            lambda *given: (found := told(*given)) | {"rows": found["rows"][1:]},
        )
        engine.push("auths", [auth("A", 1, 1), auth("A", 1, 1)])
        assert engine.finish_audit()
        assert (engine.audited().n_pairs, engine.audited().n_differences) == (1, 1)
