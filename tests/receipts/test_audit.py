"""The audit: rounds evaluated again by another engine, off the hot path. Here by DuckDB; tests/spark has the same on Spark."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import eddyline
from eddyline.errors import PropertyError
from eddyline.events import AuditDifference
from eddyline.filters import FilterOutput
from eddyline.pipeline import PipelineError, read_pipeline, share_of
from eddyline.receipts import audit as audit_module
from eddyline.receipts.audit import QUERIES, Audit
from eddyline.storage import outbox
from tests.on_workers import through_tasks

pytestmark = pytest.mark.usefixtures("no_session")

SCHEMA = "sym STRING, price DOUBLE, n INT"
WAIT_S = 60.0


@pytest.fixture
def engine(tmp_path):
    with eddyline.open(tmp_path / "home", audit="100 %") as engine:
        engine.stream("trades", SCHEMA)
        yield engine


def rows(n: int, first: int = 0) -> list[dict]:
    return [{"sym": f"S{k % 7}", "price": float(k % 11), "n": k} for k in range(first, first + n)]


def looked_at(engine: eddyline.Engine) -> tuple[int, int, int, int, int]:
    assert engine.finish_audit(WAIT_S)
    found = engine.audited()
    return found.n_rounds, found.n_queries, found.n_pairs, found.n_differences, found.n_skipped


def test_all_rows_of_a_round_are_put_before_queries_that_matched_and_others(engine):
    engine.query("SELECT sym, price FROM trades WHERE price < 3")
    engine.query("SELECT n FROM trades WHERE price > 100")
    engine.query("SELECT * FROM trades WHERE sym IN ('S1', 'S2') OR n BETWEEN 5 AND 8")
    engine.push("trades", rows(50))
    assert looked_at(engine) == (1, 3, 150, 0, 0)
    engine.push("trades", rows(10, first=50))
    assert looked_at(engine) == (2, 6, 180, 0, 0)


def test_a_result_that_is_wrong_missing_or_made_up_is_counted_told_and_an_alert(engine, monkeypatch):
    engine.query("SELECT sym, price * 2 AS twice FROM trades WHERE price < 3", name="low")
    heard, said = [], []
    engine.on_event(heard.append)
    engine.on_message(said.append)
    engine.push("trades", rows(22))
    assert looked_at(engine)[3] == 0
    assert engine.messages() == []

    honest = outbox.stored_part

    def forged(part, generations):
        """The filters' output, with the first row gone, the second another one, and the values of the third changed."""
        stored = honest(part, generations).narrow_copy(np.arange(1, len(part)))
        stored.arrivals[0] = stored.arrivals[0] + 3
        twice = stored.rows.column("twice").to_numpy(zero_copy_only=False).copy()
        twice[1] += 1e-9
        changed = stored.rows.set_column(1, "twice", twice)
        return outbox.StoredPart(
            stored.query_ids,
            stored.generations,
            stored.arrivals.copy(),
            stored.signs,
            stored.is_late,
            changed,
        )

    monkeypatch.setattr("eddyline.engine.durable.stored_part", forged)
    engine.push("trades", rows(22, first=22))
    assert engine.finish_audit(WAIT_S)
    counters = engine.audited()
    (event,) = (e for e in heard if isinstance(e, AuditDifference))
    assert (event.round_number, event.query, event.query_id, event.generation) == (2, "low", 1, 1)
    assert (event.n_missing, event.n_unexpected, event.n_different) == (2, 1, 1)
    assert counters.n_differences == 4
    assert event.example == "Row 23 matches and has no result."
    (message,) = said
    assert (message.query, message.severity, message.status) == ("eddyline.audit", "critical", "firing")
    assert message.row["n_different"] == 1
    assert message.message.startswith("round 2: 4 results of low are not what another engine finds. Row 23")
    assert [m.message for m in engine.messages()] == [message.message]


def test_a_filter_that_lets_a_row_too_many_through_is_found(tmp_path, monkeypatch):
    """Wrong where it hurts: in what the filters give, for tasks as well."""
    with eddyline.open(tmp_path / "home", audit=1.0) as engine:
        through_tasks(engine)
        engine.stream("trades", SCHEMA)
        query = engine.query("SELECT n FROM trades WHERE price < 3 AND n > 1")
        honest = FilterOutput.all_parts

        def loose(output):
            for part in honest(output):
                row = int(part.rows[0]) + 1
                part.rows[0] = row if row < len(part.batch) else row - 2
                yield part

        monkeypatch.setattr(FilterOutput, "all_parts", loose)
        engine.push("trades", rows(30))
        assert engine.finish_audit(WAIT_S)
        assert engine.audited().n_differences >= 2
        assert len(query.results()) > 0


def test_dead_letters_are_left_out_and_texts_duckdb_may_not_judge_are_skipped(engine):
    engine.query("SELECT n FROM trades WHERE n + 2147483000 > 5")
    engine.query("SELECT n FROM trades WHERE sym LIKE 'S1%'")
    engine.query("SELECT n FROM trades WHERE price < 3")
    engine.push("trades", rows(5) + rows(5, first=700))
    assert len(engine.dead_letters()) == 5
    assert looked_at(engine) == (1, 2, 15, 0, 1)
    assert engine.audited().skipped == {"DuckDB may not judge the text": 1}


def test_where_duckdb_stops_at_an_error_the_query_is_skipped(engine):
    engine.query("SELECT n FROM trades WHERE n * n * n * n > 5 OR price > -1")  # true beats error
    engine.push("trades", rows(5, first=700))
    assert looked_at(engine) == (1, 0, 0, 0, 1)
    assert engine.audited().skipped == {"the judge stops at an error": 1}


def test_queries_are_judged_as_they_were_in_the_round(engine, monkeypatch):
    """Replaced, paused, dropped and added while the audit waits."""
    kept = engine.query("SELECT n FROM trades WHERE price < 3", name="kept")
    gone = engine.query("SELECT n FROM trades WHERE price < 5", name="gone")
    paused = engine.query("SELECT n FROM trades WHERE price < 100", name="paused")
    paused.pause()
    held = threading.Event()
    original = Audit.judge
    monkeypatch.setattr(Audit, "judge", lambda self, number: held.wait(WAIT_S) and original(self, number))
    engine.push("trades", rows(20))
    kept.replace("SELECT sym FROM trades WHERE price > 3")
    gone.drop()
    paused.resume()
    engine.query("SELECT n FROM trades WHERE price < 7", name="new")
    held.set()
    assert looked_at(engine) == (1, 2, 40, 0, 0)


def test_of_many_queries_some_are_chosen_the_same_ones_every_time(tmp_path):
    with eddyline.open(tmp_path / "home", audit="100%") as engine:
        engine.stream("trades", SCHEMA)
        params = [{"k": k} for k in range(1000)]
        engine.query_many("SELECT n FROM trades WHERE n = :k", params=params)
        engine.push("trades", rows(100))
        assert looked_at(engine) == (1, QUERIES, 100 * QUERIES, 0, 0)
        chosen = []
        for _ in range(2):
            audit = Audit(engine, 0.0)
            committed = engine.rounds.durable.rounds.get(1)
            files = engine.rounds.durable.rounds.files.of_round("outbox", 1)
            chosen.append([each.query.id for each in audit._chosen(committed, files, {})])
            audit.close()
        assert chosen[0] == chosen[1]
        assert sum(query_id <= 100 for query_id in chosen[0]) == QUERIES // 2


def test_a_share_of_rounds_is_chosen_by_home_and_number(tmp_path):
    with eddyline.open(tmp_path / "home") as engine:
        some, all_of_them = Audit(engine, 0.1), Audit(engine, 1.0)
        chosen = [n for n in range(10_000) if some.chooses(n)]
        assert 900 < len(chosen) < 1100
        assert chosen == [n for n in range(10_000) if some.chooses(n)]
        assert all(all_of_them.chooses(n) for n in range(100))
        some.close()
        all_of_them.close()
    with eddyline.open(tmp_path / "other") as engine:
        other = Audit(engine, 0.1)
        assert chosen != [n for n in range(10_000) if other.chooses(n)]
        other.close()


def test_rounds_do_not_wait_and_an_audit_that_is_behind_says_how_many_it_passed_over(engine, monkeypatch):
    engine.query("SELECT n FROM trades WHERE price < 3")
    held = threading.Event()
    original = Audit.judge
    monkeypatch.setattr(Audit, "judge", lambda self, number: held.wait(WAIT_S) and original(self, number))
    for k in range(audit_module.WAITING + 5):
        engine.push("trades", rows(3, first=3 * k))
    held.set()
    n_rounds, *_ = looked_at(engine)
    behind = engine.audited().skipped["the audit is behind"]
    assert behind in (4, 5)  # one may be at work already
    assert n_rounds + behind == audit_module.WAITING + 5


def test_rows_that_are_gone_and_a_judge_that_fails_are_counted_not_raised(engine, monkeypatch, caplog):
    engine.query("SELECT n FROM trades WHERE price < 3")
    held = threading.Event()
    original = Audit.judge
    monkeypatch.setattr(Audit, "judge", lambda self, number: held.wait(WAIT_S) and original(self, number))
    engine.push("trades", rows(3))
    durable = engine.rounds.durable
    durable.rounds.files.unlist([file.name for file in durable.rounds.files.of_round("capture", 1)])
    held.set()
    looked_at(engine)
    assert engine.audited().skipped == {"the rows of round 1 are no longer kept": 1}
    monkeypatch.setattr(audit_module, "claim_difference", lambda claim, found: 1 / 0)
    engine.push("trades", rows(3))
    looked_at(engine)
    assert engine.audited().skipped["the audit failed: ZeroDivisionError"] == 1
    assert "the audit of round 2 failed" in caplog.text


def test_without_spark_and_duckdb_it_says_so(engine, monkeypatch):
    import builtins

    real = builtins.__import__

    def without(name, *rest):
        if name == "duckdb":
            raise ImportError("No module named 'duckdb'")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    engine.query("SELECT n FROM trades WHERE price < 3")
    engine.push("trades", rows(3))
    assert looked_at(engine)[0] == 0
    assert engine.audited().skipped == {"there is no Spark session, and DuckDB is not installed": 1}


def test_it_can_be_started_and_stopped_and_needs_a_home(tmp_path):
    with eddyline.open(tmp_path / "home") as engine:
        assert engine.audited() is None
        assert engine.finish_audit()
        engine.stream("trades", SCHEMA)
        engine.query("SELECT n FROM trades")
        engine.start_audit(1)
        engine.push("trades", rows(2))
        assert looked_at(engine) == (1, 1, 2, 0, 0)
        engine.stop_audit()
        assert engine.audited() is None
        engine.start_audit(0)
        assert engine.audited() is None
    with pytest.raises(PropertyError, match="an engine in memory keeps no rows"):
        eddyline.open(audit="1 %")
    with pytest.raises(PropertyError, match="not a share of rounds"):
        eddyline.open(tmp_path / "home", audit="often")
    eddyline.open(tmp_path / "home").close()  # nothing holds it


@pytest.mark.parametrize(
    ("given", "share"),
    [("0.1 %", 0.001), ("100%", 1.0), ("0.5", 0.5), (0.001, 0.001), (1, 1.0), (0, 0.0), (1e-05, 1e-05)],
)
def test_shares_are_written_as_percent_or_as_a_number(given, share):
    assert share_of(given) == pytest.approx(share)


@pytest.mark.parametrize("given", ["", "101 %", "1.5", -0.1, "x %", True, None])
def test_what_is_no_share_is_refused(given):
    with pytest.raises(PropertyError, match="is not a share of rounds"):
        share_of(given)


def test_the_pipeline_file_says_it_too(tmp_path):
    found = read_pipeline('[engine]\naudit = "0.1 %"\n', tmp_path / "eddyline.toml")
    assert found.engine.audit == pytest.approx(0.001)
    with pytest.raises(PipelineError, match="not a share of rounds"):
        read_pipeline('[engine]\naudit = "much"\n', tmp_path / "eddyline.toml")
