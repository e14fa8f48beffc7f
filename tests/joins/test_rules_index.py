"""Tables whose rows are rules: what form they have, and that filters find what a look at every pair would."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline.batch import TupleBatch
from eddyline.expressions import Context, Frame, call, cast, evaluate
from eddyline.filters import FilterStage
from eddyline.joins import rules_index
from eddyline.joins.rules_index import RuleForm, Rules, rule_form
from eddyline.joins.table import KeyedTable
from eddyline.joins.table_changes import TableChanges
from eddyline.model import (
    NO_TIME,
    Atom,
    AtomKind,
    Clause,
    Column,
    Expression,
    JoinInput,
    JoinKey,
    Role,
    Round,
    Signature,
    Slot,
)
from eddyline.types import BIGINT, DOUBLE, STRING

TRADES = pa.schema([("sym", STRING), ("price", DOUBLE)])
WATCHES = pa.schema([("id", BIGINT), ("sym", STRING), ("low", DOUBLE), ("high", DOUBLE)])
BY_SYM = JoinKey(0, 1, Column(STRING, "sym"), Column(STRING, "sym"))
PRICE, LOW, HIGH = Column(DOUBLE, "0.price"), Column(DOUBLE, "1.low"), Column(DOUBLE, "1.high")


def signature(*keys: JoinKey, role: Role = Role.TABLE, outer: str = "") -> Signature:
    inputs = (JoinInput("trades", Role.CURRENT), JoinInput("watches", role))
    return Signature("trades ⋈ watches", inputs, keys, outer)


def clause(*conditions: Expression) -> Clause:
    return Clause(tuple(Atom(AtomKind.RESIDUAL, condition) for condition in conditions))


BETWEEN = (clause(call(">=", [PRICE, LOW])), clause(call("<=", [PRICE, HIGH])))
OUTSIDE = (clause(call("<", [PRICE, LOW]), call(">", [PRICE, HIGH])),)


def computed(expression: Expression, batch: pa.RecordBatch) -> pa.Array:
    frame = Frame(batch.num_rows, {("", name): batch.column(name) for name in batch.schema.names})
    return frame.array(evaluate(expression, frame))


# --------------------------------------------------------------------------------------------- the form


def test_a_range_between_two_columns_of_the_table_is_a_shape_with_a_slot_for_each_column_used():
    form = rule_form(signature(BY_SYM), 0, 1, BETWEEN)
    assert form is not None
    assert form.constants == (Column(STRING, "sym"), Column(DOUBLE, "low"), Column(DOUBLE, "high"))
    atoms = [
        (atom.attribute, atom.operator, atom.constant)
        for c in form.shape.condition.clauses
        for atom in c.atoms
    ]
    assert atoms == [
        (Column(STRING, "sym"), "=", Slot(STRING, 0)),
        (Column(DOUBLE, "price"), ">=", Slot(DOUBLE, 1)),
        (Column(DOUBLE, "price"), "<=", Slot(DOUBLE, 2)),
    ]
    assert form.shape.stream == "trades"
    assert form.decided_clauses == BETWEEN


def test_a_comparison_may_stand_the_other_way_round_and_compute_on_both_sides():
    doubled = call("+", [LOW, LOW])
    form = rule_form(signature(), 0, 1, [clause(call("<", [doubled, call("abs", [PRICE])]))])
    assert form is not None
    low, price = Column(DOUBLE, "low"), Column(DOUBLE, "price")
    assert form.constants == (call("+", [low, low]),)
    atom = form.shape.condition.clauses[0].atoms[0]
    assert (atom.attribute, atom.operator) == (call("abs", [price]), ">")


def test_what_mixes_both_sides_or_is_of_one_or_differs_from_query_to_query_is_left_to_others():
    mixed = clause(call(">", [call("-", [PRICE, LOW]), HIGH]))
    alone = clause(call(">", [PRICE, call("abs", [PRICE])]))
    own = clause(call(">", [PRICE, call("+", [LOW, Slot(DOUBLE, 0)])]))
    marked = clause(call("<", [Column(BIGINT, "0.#age"), cast(LOW, BIGINT)]))
    partly = clause(call("<", [PRICE, LOW]), call("is null", [HIGH]))
    others = (mixed, alone, own, marked, partly)
    assert rule_form(signature(BY_SYM), 0, 1, others) is None
    form = rule_form(signature(BY_SYM), 0, 1, (*others, *BETWEEN))
    assert form is not None
    assert form.decided_clauses == BETWEEN


def test_a_table_without_ranges_is_probed():
    unequal = clause(call("!=", [PRICE, LOW]))
    assert rule_form(signature(BY_SYM), 0, 1, ()) is None
    assert rule_form(signature(BY_SYM), 0, 1, (unequal,)) is None


def test_only_a_table_at_its_latest_rows_is_rules():
    assert rule_form(signature(BY_SYM, role=Role.AS_OF), 0, 1, BETWEEN) is None
    assert rule_form(signature(BY_SYM, role=Role.WINDOW), 0, 1, BETWEEN) is None
    assert rule_form(signature(BY_SYM, outer="left"), 0, 1, BETWEEN) is None


# --------------------------------------------------------------------------------------------- the rules

syms = st.sampled_from(["A", "B", "a symbol of more than seven", None])
prices = st.sampled_from([None, 0.0, -0.0, 1.0, 2.0, 2.5, 3.0, float("nan")])
watches = st.tuples(syms, prices, prices)
trades = st.lists(st.tuples(syms, prices), max_size=6)
a_round = st.tuples(
    st.lists(st.tuples(st.integers(1, 5), st.none() | watches), max_size=4), trades, st.booleans()
)


class Market:
    """A table of watches, its rules, and filters for them: what an engine would hold."""

    def __init__(self, form: RuleForm) -> None:
        self.table = KeyedTable(WATCHES, ("id",), computed)
        self.rules = Rules(form, computed)
        self.stage = FilterStage(Context())
        self.current_watches: dict[int, Any] = {}  # the slow twin

    def round(self, changes: Any, trades: Any, number: int, first: int, *, commits: bool) -> tuple[Any, Any]:
        """Changes and trades take turns; gives the pairs that were found and those that should be: (trade, watch)."""
        n = max(len(changes), len(trades))
        came = TableChanges(
            batch(WATCHES, [(i, *(row or (None, None, None))) for i, row in changes]),
            first + 2 * np.arange(len(changes)),
            np.full(len(changes), NO_TIME, np.int64),
            np.array([row is None for _, row in changes], dtype=bool),
        )
        deltas = self.table.apply(came)
        added, removed = deltas.sign > 0, deltas.sign < 0
        self.rules.add(deltas.rows.filter(pa.array(added)), deltas.row_arrival[added])
        self.rules.check()
        arrival = first + 2 * np.arange(len(trades)) + 1
        rows = TupleBatch(
            "trades",
            batch(TRADES, trades),
            arrival,
            np.ones(len(trades), np.int8),
            np.zeros(len(trades), dtype=bool),
        )
        self.stage.build(self.rules.plan)
        found = self.stage.push(rows, Round(number, 0, 0, 0, first, {}))
        self.stage.check()
        offsets, ids = found.pairs()
        at = np.repeat(np.arange(len(trades)), np.diff(offsets))
        versions = self.table.versions.rows_by_arrival(self.rules.arrival_of(ids))
        is_current = self.table.versions.is_current_at(versions, arrival[at])
        watched = self.table.take(versions, ["id"])[0].to_pylist()
        pairs = [(int(a), w) for a, w, current in zip(at, watched, is_current, strict=True) if current]
        before, expected = dict(self.current_watches), []
        for k in range(n):
            if k < len(changes):
                self.current_watches[changes[k][0]] = changes[k][1]
            if k < len(trades):
                expected += [
                    (k, i) for i, row in self.current_watches.items() if row and wants(row, trades[k])
                ]
        if commits:
            self.table.commit()
            self.rules.drop(deltas.row_arrival[removed])
        else:
            self.table.rollback()
            self.rules.drop(deltas.row_arrival[added])
            self.current_watches = before
        assert len(self.rules) == len(self.table.current())
        return sorted(pairs), sorted(expected)


def wants(row: Any, trade: Any) -> bool:
    """Spark's view: NULL compares with nothing, NaN is the largest number, both zeros are equal."""
    (sym, low, high), (traded, price) = row, trade
    if None in (sym, low, high, traded, price) or sym != traded:
        return False
    order = [(x != x, 0.0 if x != x else x) for x in (low, price, high)]
    return order[0] <= order[1] <= order[2]


def batch(schema: pa.Schema, rows: list[Any]) -> pa.RecordBatch:
    columns = [pa.array([row[k] for row in rows], f.type) for k, f in enumerate(schema)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


@pytest.mark.parametrize("most_ids", [rules_index.MOST_IDS, 10])
def test_filters_find_the_rules_that_stood_when_a_row_came(monkeypatch, most_ids):
    monkeypatch.setattr(rules_index, "MOST_IDS", most_ids)
    form = rule_form(signature(BY_SYM), 0, 1, BETWEEN)
    assert form is not None

    @settings(max_examples=60, deadline=None)
    @given(st.lists(a_round, max_size=5))
    def is_found(rounds):
        market, first = Market(form), 1
        for number, (changes, rows, commits) in enumerate(rounds):
            found, expected = market.round(changes, rows, number, first, commits=commits)
            assert found == expected
            first += 2 * max(len(changes), len(rows)) if commits else 0

    is_found()


def test_a_rule_with_a_null_in_one_of_two_ways_to_match_matches_by_the_other():
    form = rule_form(signature(), 0, 1, OUTSIDE)
    assert form is not None
    rules, stage = Rules(form, computed), FilterStage(Context())
    rules.add(
        batch(WATCHES, [(1, None, 2.0, None), (2, None, None, 5.0), (3, None, None, None)]),
        np.array([7, 8, 9]),
    )
    stage.build(rules.plan)
    rows = batch(TRADES, [("A", 1.0), ("A", 3.0), ("A", 6.0)])
    ones = np.ones(3, np.int8)
    found = stage.push(
        TupleBatch("trades", rows, np.arange(10, 13), ones, np.zeros(3, dtype=bool)),
        Round(1, 0, 0, 0, 0, {}),
    )
    offsets, ids = found.pairs()
    assert np.diff(offsets).tolist() == [1, 0, 1]
    assert rules.arrival_of(ids).tolist() == [7, 8]


def test_many_small_changes_leave_few_segments():
    form = rule_form(signature(BY_SYM), 0, 1, BETWEEN)
    assert form is not None
    rules = Rules(form, computed)
    for k in range(500):
        rules.add(batch(WATCHES, [(k, "A", 1.0, 2.0)]), np.array([k + 1]))
        if k % 2:
            rules.drop(np.array([k]))
    rules.check()
    assert len(rules) == 250
    assert len(rules.plan.segments) < 12
    rules.drop(np.arange(1, 1000))
    assert (len(rules), rules.plan.segments) == (0, ())
