"""What aggregates keep, as users see it: explain of a query and of all, metrics, sizes over time."""

from __future__ import annotations

import datetime

import pytest

import eddyline
from eddyline.errors import UnknownNameError
from eddyline.server.metrics import metrics_text
from tests.on_workers import through_tasks

DECLARED = """
    CREATE TABLE auths (card STRING, amount BIGINT, declined BOOLEAN, ts TIMESTAMP)
        TBLPROPERTIES (time = 'ts', lateness = '1 minute');
    CREATE TABLE visits (page STRING, ts TIMESTAMP) TBLPROPERTIES (time = 'ts')
"""
DECLINED = "SELECT card, count(*) AS n FROM auths WHERE declined GROUP BY card HAVING count(*) >= 2"
RECENT = (
    "SELECT card, count(*) AS n FROM auths WHERE declined AND ts > now() - INTERVAL 10 MINUTES "
    "GROUP BY card HAVING count(*) >= 2"
)
PER_WINDOW = (
    "SELECT card, window.start AS start, count(*) AS n FROM auths GROUP BY card, window(ts, '10 minutes')"
)
SESSIONS = "SELECT card, count(*) AS n FROM auths GROUP BY card, session_window(ts, '5 minutes')"
VELOCITY = (
    "SELECT card, count(*) OVER (PARTITION BY card ORDER BY ts "
    "RANGE BETWEEN INTERVAL 10 MINUTES PRECEDING AND CURRENT ROW) AS n FROM auths QUALIFY n >= 2"
)


def at(minute: int) -> datetime.datetime:
    return datetime.datetime(2026, 1, 1, 12, minute, tzinfo=datetime.UTC)


def row(card: str, minute: int, amount: int = 10, *, declined: bool = True) -> dict[str, object]:
    return {"card": card, "amount": amount, "declined": declined, "ts": at(minute)}


def us(minute: int) -> int:
    return int(at(minute).timestamp()) * 1_000_000


@pytest.fixture
def now():
    return [us(0)]


@pytest.fixture
def engine(tmp_path, now):
    with eddyline.open(tmp_path / "home", clock=lambda: now[0]) as opened:
        opened.sql(DECLARED)
        yield opened


def only(explained: eddyline.Query) -> dict[str, object]:
    (facts,) = explained.explain().as_dict()["aggregates"]
    return facts


def test_a_query_is_explained_by_its_class_in_the_words_of_sql(engine):
    query = engine.query(DECLINED, name="declined")
    engine.push("auths", [row("A", 1), row("B", 2), row("C", 3, declined=False)])
    lines = str(query.explain()).splitlines()
    assert "  aggregates FROM auths WHERE declined = TRUE, by card, rows shared by 1 query" in lines
    assert lines[
        lines.index("  aggregates FROM auths WHERE declined = TRUE, by card, rows shared by 1 query") + 1
    ].startswith("    kept     GROUP BY card, for ever: 2 groups, 1 epoch, ")
    facts = only(query)
    assert (facts["words"], facts["keys"]) == ("FROM auths WHERE declined = TRUE", ["card"])
    (structure,) = facts["structures"]
    assert (structure["kind"], structure["groups"], structure["epochs"]) == ("running", 2, 1)
    assert structure["nbytes"] > 0


def test_conditions_over_groups_are_in_the_words_of_the_query(engine):
    text = "SELECT card FROM auths GROUP BY card HAVING sum(amount) < :most AND count(*) > 2 AND card > 'A'"
    facts = engine.query(text, params={"most": 100}).explain().as_dict()
    assert [each["text"] for each in facts["conditions"]] == [
        "sum(amount) < 100",
        "count(*) > 2",
        "card > 'A'",
    ]
    query = engine.query(DECLINED)
    engine.push("auths", [row("A", 1)])
    assert query.explain().as_dict()["index"]["attributes"] == ["count(*)"]


def test_queries_that_differ_above_the_aggregates_share_a_class(engine):
    few = engine.query(DECLINED, name="few")
    engine.query(DECLINED.replace(">= 2", ">= 20"), name="many")
    engine.query(RECENT, name="recent")
    engine.query(DECLINED.replace("WHERE declined", "WHERE amount > 5"), name="other")
    facts = only(few)
    assert (facts["n_queries"], [each["name"] for each in facts["queries"]]) == (3, ["few", "many", "recent"])
    (structure,) = facts["structures"]
    assert (structure["kind"], structure["n_queries"], structure["epochs"]) == ("running", 2, 2)
    assert few.explain().as_dict()["n_sharing"] == 2  # the shape: those that differ in a constant


def test_every_kind_says_what_it_keeps(engine, now):
    kept = {}
    now[0] = us(4)
    queries = [engine.query(text) for text in (RECENT, PER_WINDOW, SESSIONS, VELOCITY)]
    engine.push("auths", [row("A", 1), row("A", 2), row("B", 3)])
    for query in queries:
        (structure,) = only(query)["structures"]
        kept[structure["kind"]] = {
            name: structure[name] for name in ("words", "groups", "slices", "rows", "deadline")
        }
    assert kept == {
        "temporal filters": {
            "words": ["ts > now() - 10 minutes"],
            "groups": 2,
            "slices": None,
            "rows": 3,
            "deadline": "2026-01-01T12:11:00Z",  # the row of 12:01 leaves
        },
        "windows": {
            "words": ["windows of 10 minutes"],
            "groups": 2,
            "slices": 2,
            "rows": None,
            "deadline": None,
        },
        "sessions": {
            "words": ["sessions 5 minutes apart"],
            "groups": 2,
            "slices": 2,
            "rows": None,
            "deadline": None,
        },
        "over": {"words": ["PARTITION BY card"], "groups": 2, "slices": None, "rows": 3, "deadline": None},
    }


def test_a_text_is_explained_before_any_query_of_its_class_runs(engine):
    (facts,) = engine.explain(DECLINED).as_dict()["aggregates"]
    assert (facts["words"], facts["n_queries"], facts["nbytes"]) == ("FROM auths WHERE declined = TRUE", 0, 0)


def test_all_classes_are_explained_with_their_streams_and_of_one_stream(engine):
    engine.query(DECLINED, name="declined")
    engine.query("SELECT page, count(*) AS n FROM visits GROUP BY page", name="pages")
    engine.push("auths", [row("A", 10), row("B", 1)])
    engine.push("auths", [row("B", 1)])  # behind the watermark, 12:09
    found = engine.explain_aggregates()
    assert {facts["words"] for facts in found} == {"FROM auths WHERE declined = TRUE", "FROM visits"}
    assert (found.streams["auths"]["n_rows"], found.streams["auths"]["n_late"]) == (3, 1)
    assert "auths: 3 rows, 1 late, watermark 2026-01-01T12:09:00Z" in str(found).splitlines()
    assert "  read by    declined" in str(found).splitlines()
    (of_visits,) = engine.explain_aggregates("visits")
    assert of_visits["streams"] == ["visits"]
    with pytest.raises(UnknownNameError, match="vists"):
        engine.explain_aggregates("vists")
    assert only(engine.get("declined"))["n_late"] == 1


def test_an_engine_without_aggregates_says_so(engine):
    assert str(engine.explain_aggregates()) == "there are no aggregates"


def test_what_is_kept_is_known_again_after_a_restart(engine, tmp_path):
    engine.query(DECLINED, name="declined")
    engine.push("auths", [row("A", 1), row("B", 2)])
    (before,) = engine.explain_aggregates()
    engine.close()
    with eddyline.open(tmp_path / "home") as again:
        (after,) = again.explain_aggregates()
    assert before["structures"][0]["groups"] == after["structures"][0]["groups"] == 2


def test_a_round_that_fails_leaves_the_numbers_as_they_were(engine):
    engine.query(DECLINED, name="declined")
    engine.push("auths", [row("A", 1)])

    def fail(step: str) -> None:
        if step == "4 commit":
            raise OSError("no room")

    engine.rounds.at_step = fail
    with pytest.raises(OSError, match="no room"):
        engine.push("auths", [row("B", 2)])
    (facts,) = engine.explain_aggregates()
    assert facts["structures"][0]["groups"] == 1


def test_a_dropped_query_leaves_nothing(engine):
    query = engine.query(DECLINED, name="declined")
    engine.push("auths", [row("A", 1)])
    query.drop()
    assert engine.explain_aggregates() == []
    engine.push("auths", [row("A", 2)])
    assert "eddyline_aggregate_groups 0.0" in metrics_text(engine).decode().splitlines()


def test_metrics_have_classes_groups_and_bytes(engine):
    engine.query(DECLINED)
    engine.query(VELOCITY)
    engine.push("auths", [row("A", 1), row("B", 2)])
    lines = metrics_text(engine).decode().splitlines()
    assert "eddyline_aggregate_classes 2.0" in lines
    assert "eddyline_aggregate_groups 4.0" in lines
    assert "eddyline_aggregate_kept_rows 2.0" in lines
    assert engine.counters().aggregates.nbytes > 0


def test_sizes_over_time_are_of_the_classes(engine, now):
    engine.query(DECLINED)
    for minute in (1, 2, 3):
        now[0] = us(minute)
        engine.push("auths", [row(f"card {minute}", minute)])
    points = engine.aggregate_history.points()
    (facts,) = engine.explain_aggregates()
    assert [point["classes"][facts["id"]]["groups"] for point in points] == [1, 2, 3]


def test_a_stream_counts_the_queries_that_aggregate_its_rows(engine):
    engine.query(DECLINED)
    engine.query("SELECT card FROM auths WHERE amount > 1")
    assert {stream.name: stream.n_queries for stream in engine.streams()} == {"auths": 2, "visits": 0}


def test_aggregates_of_aggregates_are_over_the_subquery_and_both_are_read_by_the_query(engine):
    text = "SELECT n, count(*) AS m FROM (SELECT card, count(*) AS n FROM auths GROUP BY card) s GROUP BY n"
    spread = engine.query(text, name="spread")
    engine.push("auths", [row("A", 1), row("B", 2), row("B", 3)])
    found = {facts["words"]: facts for facts in engine.explain_aggregates()}
    assert found.keys() == {"FROM auths", "FROM the subquery at line 1 of spread"}
    for facts in found.values():
        assert (facts["n_queries"], [each["name"] for each in facts["queries"]]) == (1, ["spread"])
        assert [each["n_queries"] for each in facts["structures"]] == [1]
    own = spread.explain()
    assert [each["words"] for each in own.as_dict()["aggregates"]] == [
        "FROM the subquery at line 1",
        "FROM auths",
    ]
    assert (
        "  subquery   the subquery at line 1 is computed by itself, once for 1 query" in str(own).splitlines()
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("auths a LEFT JOIN cards c ON a.card = c.card", "FROM auths LEFT JOIN cards ON auths.card = cards.card"),
        ("cards c RIGHT JOIN auths a ON a.card = c.card", "FROM cards RIGHT JOIN auths ON cards.card = auths.card"),
        ("auths a JOIN cards c ON a.card = c.card", "FROM auths, cards WHERE auths.card = cards.card"),
    ],
)  # fmt: skip
def test_classes_over_joins_say_how_they_join_and_name_columns_by_their_input(engine, text, words):
    engine.sql("CREATE TABLE cards (card STRING PRIMARY KEY, region STRING)")
    query = engine.query(f"SELECT c.region, count(*) AS n FROM {text} WHERE a.amount > 5 GROUP BY c.region")
    engine.push("cards", [{"card": "A", "region": "north"}])
    engine.push("auths", [row("A", 1)])
    (facts,) = engine.explain_aggregates()
    joined = " AND " if " WHERE " in words else " WHERE "
    assert (facts["words"], facts["keys"]) == (f"{words}{joined}auths.amount > 5", ["cards.region"])
    assert [each.key for each in query.groups(where={"cards.region": "north"})] == [{"cards.region": "north"}]
    with pytest.raises(UnknownNameError) as refused:
        query.groups(where={"cards.regio": "north"})
    assert refused.value.hint == "Did you mean cards.region?"
    assert not [warning for warning in query.warnings if "`" in warning]


def test_a_class_over_a_join_of_a_stream_with_itself_says_which_input_is_which(engine):
    engine.query(
        "SELECT a.card, count(*) AS n FROM auths a JOIN auths b ON a.card = b.card AND a.amount < b.amount "
        "AND b.ts BETWEEN a.ts - INTERVAL 5 MINUTES AND a.ts GROUP BY a.card"
    )
    (facts,) = engine.explain_aggregates()
    assert facts["words"].startswith("FROM auths, auths auths_2 WHERE auths.card = auths_2.card AND ")


def test_classes_that_differ_in_their_keys_have_different_headings(engine):
    for keys in ("card", "amount", "card, amount"):
        engine.query(f"SELECT count(*) AS n FROM auths GROUP BY {keys}", name=f"by {keys}")
    engine.query("SELECT count(*) AS n FROM auths", name="all")
    lines = str(engine.explain_aggregates()).splitlines()
    headings = {line.partition(":")[0] for line in lines if line.startswith("FROM")}
    assert headings == {
        "FROM auths, by card",
        "FROM auths, by amount",
        "FROM auths, by card, amount",
        "FROM auths",
    }


def test_what_tasks_hand_on_is_said_where_rounds_are_worked_on_in_tasks(engine):
    query = engine.query(DECLINED, name="declined")
    engine.push("auths", [row("A", 1)])
    assert [line for line in str(query.explain()).splitlines() if line.startswith("    tasks")] == []
    through_tasks(engine)
    assert "    tasks    hand on what rows come to" in str(query.explain()).splitlines()
