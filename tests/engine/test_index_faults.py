"""A query with which an index cannot be built is suspended before the round; all others see every row. In memory, in a home, in
joins, in tasks."""

from __future__ import annotations

import pytest

import eddyline
from eddyline.errors import LimitError
from eddyline.events import IndexBuildFailed
from eddyline.filters.index_part import IndexPart
from tests.faulty_queries import FAULTY, TIMES, armed
from tests.on_workers import opener

pytestmark = pytest.mark.thorough

ROW = [{"sym": "A", "price": 1.0}]
WHY = "the predicate index cannot be built with it: MemoryError"
EXPLODES = "length(replace(repeat('a',1000000),'a',repeat('b',1000000))) > 0"


def declared(engine: eddyline.Engine) -> eddyline.Engine:
    engine.stream("trades", "sym STRING, price DOUBLE")
    engine.query("SELECT sym FROM trades WHERE price < 5", name="before")
    return engine


def test_a_text_whose_constants_exhaust_memory_is_refused_with_its_place():
    engine = declared(eddyline.open(None))
    with pytest.raises(LimitError) as refused:
        engine.query(f"SELECT sym FROM trades WHERE {EXPLODES}", name="exploding")
    assert refused.value.position == (1, 37)
    assert "replace would make a text of 1,000,000,000,000 bytes; at most 16,777,216 are made" in str(
        refused.value
    )
    later = engine.query("SELECT sym FROM trades WHERE price < 6", name="later")
    assert engine.push("trades", ROW).count == 2
    assert len(later.results()) == 1


def test_constants_of_a_known_shape_are_refused_with_their_own_place():
    engine = declared(eddyline.open(None))
    engine.query("SELECT sym FROM trades WHERE sym = 'A' AND sym != repeat('a', 10)")
    with pytest.raises(LimitError) as refused:
        engine.query("SELECT sym FROM trades WHERE sym = 'a longer one' AND sym != repeat('a', 10000000)")
    assert refused.value.position == (1, 62)
    with pytest.raises(
        LimitError, match="in row 2 of the parameters: repeat would make a text of 2,000,000 char"
    ):
        engine.query_many("SELECT sym FROM trades WHERE sym = repeat('a', :n)", params={"n": [1, 2_000_000]})
    with pytest.raises(LimitError, match="repeat would make a text of 2,000,000 characters"):
        engine.query("SELECT sym FROM trades WHERE sym = repeat('a', :n)", params={"n": 2_000_000})
    many = ", ".join(f"repeat(:a, {n})" for n in range(1_000_000, 1_000_009))
    with pytest.raises(LimitError, match="take too much to compute"):
        engine.query(f"SELECT concat(sym, {many}) AS x FROM trades", params={"a": "a"})
    assert engine.push("trades", ROW).count == 2


def test_a_row_that_goes_over_a_limit_is_a_dead_letter_of_its_pair():
    engine = declared(eddyline.open(None))
    engine.query(
        "SELECT sym FROM trades WHERE length(replace(sym, 'a', repeat('b', 1000000))) > 0", name="grows"
    )
    assert engine.push("trades", [{"sym": "a" * 100, "price": 1.0}, {"sym": "ab", "price": 9.0}]).count == 2
    (letter,) = engine.dead_letters()
    assert (letter.query, letter.error) == ("grows", "COLLECTION_SIZE_LIMIT_EXCEEDED.FUNCTION")
    assert letter.message == "replace would make a text of 100,000,000 bytes; at most 16,777,216 are made"


@pytest.mark.parametrize("where", ["memory", "home", "tasks"])
def test_the_query_at_fault_is_suspended_and_the_others_go_on(tmp_path, where):
    open_engine = {
        "memory": lambda: eddyline.open(None),
        "home": lambda: eddyline.open(tmp_path / "home"),
        "tasks": opener(tmp_path),
    }
    engine = declared(open_engine[where]())
    faulty = engine.query(FAULTY.format(n=TIMES), name="faulty")
    later = engine.query("SELECT sym FROM trades WHERE price < 6", name="later")
    with armed():
        assert engine.push("trades", ROW).count == 2
        assert (faulty.state, faulty.suspended) == ("suspended", WHY)
        assert f"suspended  {WHY}" in str(faulty.explain())
        assert engine.push("trades", ROW).count == 2
    assert [len(engine.get(name).results()) for name in ("before", "later", "faulty")] == [2, 2, 0]
    assert later.state == "running"
    faulty.resume()  # what was the matter is over
    assert engine.push("trades", ROW).count == 3


def test_a_suspended_query_stays_so_after_reopening(tmp_path):
    with declared(eddyline.open(tmp_path / "home")) as engine:
        engine.query(FAULTY.format(n=TIMES), name="faulty")
        with armed():
            engine.push("trades", ROW)
    with eddyline.open(tmp_path / "home") as engine, armed() as tried:
        assert engine.get("faulty").suspended == WHY
        assert engine.push("trades", ROW).count == 1
        assert tried == []


def test_a_home_whose_index_cannot_be_built_after_reopening_serves_the_others(tmp_path):
    with declared(eddyline.open(tmp_path / "home")) as engine:
        engine.query(FAULTY.format(n=TIMES), name="faulty")
    with eddyline.open(tmp_path / "home") as engine, armed():
        assert engine.push("trades", ROW).count == 1
        assert engine.get("faulty").suspended == WHY


@pytest.mark.parametrize("where", ["memory", "tasks"])
def test_joins_go_on_without_the_query_at_fault(tmp_path, where):
    engine = declared(opener(tmp_path)() if where == "tasks" else eddyline.open(None))
    engine.stream("news", "sym STRING, head STRING")
    text = "SELECT t.sym, n.head FROM trades t JOIN recent(news, 10) n ON t.sym = n.sym WHERE {}"
    of_one = engine.query(text.format(f"t.sym != repeat('x', {TIMES})"), name="of one input")
    of_both = engine.query(text.format(f"concat(t.sym, n.sym) != repeat('x', {TIMES})"), name="of both")
    sound = engine.query(text.format("t.price < 5"), name="sound")
    with armed():
        engine.push("news", [{"sym": "A", "head": "up"}])
        engine.push("trades", ROW)
    assert (of_one.suspended, of_both.suspended, sound.state) == (WHY, WHY, "running")
    assert [result["head"] for result in sound.results()] == ["up"]


def test_why_of_a_suspended_query_says_so_and_what_cannot_be_computed():
    engine = declared(eddyline.open(None))
    engine.stream("news", "sym STRING, head STRING")
    text = (
        "SELECT t.sym FROM trades t JOIN recent(news, 10) n ON t.sym = n.sym WHERE t.sym != repeat('x', {})"
    )
    faulty = engine.query(FAULTY.format(n=TIMES) + " AND price < 5", name="faulty")
    joined = engine.query(text.format(TIMES), name="joined")
    cannot = "eddyline could not decide this row: MemoryError"
    with armed():
        engine.push({"trades": ROW, "news": [{"sym": "A", "head": "up"}]})
        asked = faulty.why(ROW[0]), joined.why({"t": ROW[0], "n": {"sym": "A"}})
        counted = faulty.why_not(), joined.why_not()
        refuted = faulty.why({"sym": "A", "price": 9.0})
    for found in asked:
        assert (found.matches, found.error) == (False, cannot)
        assert found.notes[0] == f"it is suspended, so it sees no rows: {WHY}"
        assert found.notes[0] in str(found)
        assert [clause.verdict for clause in found.clauses] in (["error", "true"], ["true", "error"])
    assert (refuted.matches, refuted.error) == (False, "")
    for found in counted:
        assert (found.n_matched, found.notes[0]) == (0, f"it is suspended, so it sees no rows: {WHY}")
    assert faulty.why(ROW[0]).matches  # what was the matter is over; it is suspended still
    assert faulty.why(ROW[0]).notes == asked[0].notes
    engine.get("before").pause()
    assert engine.get("before").why(ROW[0]).notes == ("it is paused, so it sees no rows",)


def test_rules_of_a_table_that_cannot_be_indexed_are_found_by_their_key(monkeypatch):
    engine = eddyline.open(None)
    told = []
    engine.rounds.listen(told.append)
    engine.stream("trades", "sym STRING, price DOUBLE")
    engine.stream("watches", "id BIGINT, sym STRING, low DOUBLE", key="id")
    query = engine.query("SELECT w.id FROM trades t JOIN watches w ON t.sym = w.sym AND t.price > w.low")
    engine.push("watches", [{"id": 1, "sym": "A", "low": 0.5}, {"id": 2, "sym": "A", "low": 2.0}])
    build = IndexPart.build.__func__

    def without_rules(cls, members, *rest, **options):
        if any(segment.shape.key.startswith("rules of") for segment, _ in members):
            raise RuntimeError("no rules")
        return build(cls, members, *rest, **options)

    with monkeypatch.context() as broken:
        broken.setattr(IndexPart, "build", classmethod(without_rules))
        engine.push("trades", ROW)
    assert [result["id"] for result in query.results()] == [1]
    assert query.state == "running"
    assert any(isinstance(event, IndexBuildFailed) for event in told)
    engine.push("trades", ROW)
    assert [result["id"] for result in query.results()] == [1]
