"""UNION ALL: the plain queries that a text is the union of, their types, and where a union cannot stand."""

from __future__ import annotations

import pyarrow as pa
import pytest

from eddyline import types
from eddyline.catalog import codec
from eddyline.errors import EddylineError, LimitError
from eddyline.model import Shape, Stream
from eddyline.sql import Shapes, render

STREAMS = {
    "a": Stream("a", pa.schema([("k", pa.int32()), ("x", pa.int32()), ("ts", types.TIMESTAMP)]), time="ts"),
    "b": Stream("b", pa.schema([("k", pa.int64()), ("y", pa.float64()), ("name", pa.string())])),
    "t": Stream("t", pa.schema([("k", pa.int32()), ("w", pa.string())]), key=("k",)),
}


def shape_of(text: str, **params: pa.DataType) -> Shape:
    return Shapes().shape_of(text, STREAMS, params=params or None)[0]


def asked(text: str) -> list[tuple[object, ...]]:
    """What each branch of a text asks, apart from the names of inputs and the places in the text."""
    shape, values = Shapes().shape_of(text, STREAMS)
    return [
        (
            [(each.stream, each.join) for each in branch.inputs],
            [(column.name, render(column.expression, values=values)) for column in branch.projection],
            sorted(
                " OR ".join(render(atom.condition, values=values) for atom in c.atoms)
                for c in branch.condition.clauses
            ),
            None if branch.join is None else branch.join.signature.name,
        )
        for branch in shape.all_branches
    ]


@pytest.mark.parametrize(
    ("text", "flat"),
    [
        ("SELECT k FROM a WHERE x > 1 UNION ALL SELECT x FROM a WHERE x < 5",
         ["SELECT k FROM a WHERE x > 1", "SELECT x AS k FROM a WHERE x < 5"]),
        ("SELECT k FROM a UNION ALL (SELECT x FROM a UNION ALL SELECT k + 1 FROM a)",
         ["SELECT k FROM a", "SELECT x AS k FROM a", "SELECT k + 1 AS k FROM a"]),
        ("(SELECT k FROM a UNION ALL SELECT x FROM a) UNION ALL SELECT k + 1 FROM a",
         ["SELECT k FROM a", "SELECT x AS k FROM a", "SELECT k + 1 AS k FROM a"]),
        ("SELECT u.v + 1 AS w FROM (SELECT k AS v FROM a UNION ALL SELECT x FROM a WHERE k = 2) u WHERE u.v > 3",
         ["SELECT k + 1 AS w FROM a WHERE k > 3", "SELECT x + 1 AS w FROM a WHERE k = 2 AND x > 3"]),
        ("SELECT p FROM (SELECT k, x FROM a UNION ALL SELECT x, k FROM a) AS u(p, q) WHERE q > 3",
         ["SELECT k AS p FROM a WHERE x > 3", "SELECT x AS p FROM a WHERE k > 3"]),
        ("WITH u AS (SELECT k FROM a UNION ALL SELECT x FROM a) SELECT k FROM u UNION ALL SELECT k + 1 FROM u WHERE k > 2",
         ["SELECT k FROM a", "SELECT x AS k FROM a",
          "SELECT k + 1 AS k FROM a WHERE k > 2", "SELECT x + 1 AS k FROM a WHERE x > 2"]),
        ("WITH u(n) AS (SELECT k FROM a UNION ALL SELECT x FROM a) SELECT u.n, t.w FROM u JOIN t ON t.k = u.n",
         ["SELECT a.k AS n, t.w FROM a JOIN t ON t.k = a.k", "SELECT a.x AS n, t.w FROM a JOIN t ON t.k = a.x"]),
        ("WITH l AS (SELECT k FROM a WHERE x = 1), u AS (SELECT k FROM l UNION ALL SELECT k + 1 FROM l) SELECT k FROM u",
         ["SELECT k FROM a WHERE x = 1", "SELECT k + 1 AS k FROM a WHERE x = 1"]),
        ("SELECT u.k, t.w FROM (SELECT k FROM a UNION ALL SELECT x FROM a) u LEFT JOIN t ON t.k = u.k",
         ["SELECT a.k, t.w FROM a LEFT JOIN t ON t.k = a.k", "SELECT a.x AS k, t.w FROM a LEFT JOIN t ON t.k = a.x"]),
    ],
)  # fmt: skip
def test_a_union_is_the_queries_over_one_part_each(text: str, flat: list[str]) -> None:
    assert asked(text) == [asked(each)[0] for each in flat]


def test_unions_that_are_joined_are_all_combinations_of_their_parts_in_order() -> None:
    text = (
        "WITH u(s) AS (SELECT w FROM t UNION ALL SELECT CAST(k AS STRING) FROM t)"
        " SELECT l.s, r.s AS o FROM u l JOIN u r ON l.s = r.s"
    )
    found = [
        [(c.name, render(c.expression)) for c in each.projection] for each in shape_of(text).all_branches
    ]
    one, other = "`0.w`", "CAST(`0.k` AS STRING)"
    assert [[text.replace("1.", "0.") for _, text in columns] for columns in found] == [
        [one, one], [one, other], [other, one], [other, other],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (("k FROM a", "k FROM b"), "BIGINT"),
        (("k FROM a", "y FROM b"), "DOUBLE"),
        (("k FROM a", "1.5 FROM b"), "DECIMAL(11,1)"),
        (("NULL FROM a", "name FROM b"), "STRING"),
        (("name FROM b", "NULL FROM a"), "STRING"),
        (("ts FROM a", "DATE'2026-01-01' FROM b"), "TIMESTAMP"),
        (("array(k) FROM a", "array(k) FROM b"), "ARRAY<BIGINT>"),
        (("1 FROM a", "2L FROM b", "NULL FROM a"), "BIGINT"),
    ],
)
def test_a_column_has_the_type_that_holds_the_values_of_all_parts(parts, expected) -> None:
    first, *others = parts
    column, rest = first.split(" ", 1)
    text = f"SELECT {column} AS v {rest}" + "".join(f" UNION ALL SELECT {each}" for each in others)
    for branch in shape_of(text).all_branches:
        assert [(f.name, types.type_name(f.type)) for f in branch.output] == [("v", expected)]
    inside = shape_of(f"SELECT v FROM ({text}) u")
    assert types.type_name(inside.output.field("v").type) == expected


def refusal(text: str) -> tuple[str, str]:
    """What is wrong, and the part of the text that is."""
    with pytest.raises(EddylineError) as refused:
        shape_of(text)
    span = refused.value.span
    assert span is not None
    return refused.value.problem, text[span.start : span.end]


UNION = "(SELECT k FROM a UNION ALL SELECT x FROM a)"


@pytest.mark.parametrize(
    ("text", "problem", "part"),
    [
        ("SELECT k FROM a UNION ALL SELECT k, y FROM b", "the parts of UNION ALL have 1 column and 2 columns", "k, y"),
        ("SELECT k, x FROM a UNION ALL SELECT k, name FROM b",
         "column x is INT in one part of UNION ALL and STRING in another", "name"),
        ("SELECT k FROM a UNION ALL SELECT y FROM b UNION ALL SELECT name FROM b",
         "column k is DOUBLE in one part of UNION ALL and STRING in another", "name"),
        ("SELECT NULL AS n FROM a UNION ALL SELECT NULL FROM b", "column n has no type", "NULL"),
        ("SELECT k FROM a UNION ALL SELECT nothing FROM b", "there is no column nothing in b", "nothing"),
        ("SELECT k FROM a UNION ALL SELECT DISTINCT k FROM b",
         "SELECT DISTINCT is not supported over b, which has no key", "SELECT DISTINCT k"),
        ("SELECT DISTINCT k FROM (SELECT k FROM t UNION ALL SELECT k FROM a) u",
         "SELECT DISTINCT is not supported over a, which has no key", "SELECT DISTINCT k"),
        ("SELECT k FROM (SELECT k FROM t UNION ALL SELECT DISTINCT k FROM a) u",
         "SELECT DISTINCT is not supported over a, which has no key", "SELECT DISTINCT k"),
        ("WITH u AS (SELECT DISTINCT k FROM a) SELECT k FROM t",
         "SELECT DISTINCT is not supported over a, which has no key", "SELECT DISTINCT k"),
        ("(SELECT k FROM t UNION SELECT k FROM a) UNION ALL SELECT k FROM t",
         "UNION is not supported over a, which has no key", "UNION"),
        ("SELECT k FROM t UNION SELECT k, k FROM t", "the parts of UNION have 1 column and 2 columns", "k, k"),
        ("SELECT k FROM a WHERE k IN (SELECT k FROM t UNION DISTINCT SELECT k FROM t)",
         "UNION is not supported in IN (SELECT …)", "k IN (SELECT k FROM t UNION DISTINCT SELECT k FROM t)"),
        (f"SELECT a.k FROM a LEFT JOIN {UNION} u ON u.k = a.k",
         "UNION ALL is not supported on the right side of LEFT JOIN", f"{UNION} u ON u.k = a.k"),
        (f"SELECT a.k FROM {UNION} u RIGHT JOIN a ON u.k = a.k",
         "UNION ALL is not supported on the left side of RIGHT JOIN", f"{UNION} u"),
        (f"SELECT a.k FROM a LEFT SEMI JOIN {UNION} u ON u.k = a.k",
         "UNION ALL is not supported on the right side of LEFT SEMI JOIN", f"{UNION} u ON u.k = a.k"),
        (f"WITH u AS {UNION} SELECT a.k FROM a LEFT ANTI JOIN u ON u.k = a.k",
         "UNION ALL is not supported on the right side of LEFT ANTI JOIN", "u ON u.k = a.k"),
        (f"SELECT a.k FROM a ASOF JOIN {UNION} u ON u.k = a.k",
         "UNION ALL is not supported on the right side of ASOF JOIN", f"{UNION} u ON u.k = a.k"),
        (f"SELECT k FROM a WHERE k IN {UNION}", "UNION ALL is not supported in IN (SELECT …)", f"k IN {UNION}"),
        (f"SELECT k FROM a WHERE EXISTS {UNION}", "UNION ALL is not supported in EXISTS", f"EXISTS {UNION}"),
        (f"SELECT k FROM a WHERE NOT EXISTS {UNION}", "UNION ALL is not supported in NOT EXISTS", f"EXISTS {UNION}"),
        ("SELECT k FROM a UNION SELECT k FROM b", "UNION is not supported over a, which has no key", "UNION"),
    ],
)  # fmt: skip
def test_a_union_that_cannot_be_is_refused_with_its_place(text: str, problem: str, part: str) -> None:
    assert refusal(text) == (problem, part)


def test_names_of_further_parts_do_not_matter() -> None:
    shape = shape_of("SELECT k, x FROM a UNION ALL SELECT x, x FROM a UNION ALL SELECT 1, 2 FROM b")
    assert [branch.output.names for branch in shape.all_branches] == [["k", "x"]] * 3


def test_a_union_of_too_many_queries_is_refused() -> None:
    whole = " UNION ALL ".join(["SELECT k FROM a"] * 64)
    assert len(shape_of(whole).all_branches) == 64
    with pytest.raises(LimitError, match=r"^the query is a union of more than 64 queries"):
        shape_of(f"{whole} UNION ALL SELECT k FROM a")
    doubled = "".join(f", u{n + 1} AS (SELECT k FROM u{n} UNION ALL SELECT k FROM u{n})" for n in range(40))
    with pytest.raises(LimitError, match=r"^the query is a union of more than 64 queries"):
        shape_of(f"WITH u0 AS (SELECT k FROM a){doubled} SELECT k FROM u40")


def test_constants_of_all_parts_are_slots_of_one_shape() -> None:
    shapes = Shapes()
    texts = [f"SELECT k FROM a WHERE x > {n} UNION ALL SELECT k FROM b WHERE y > {n}.5" for n in (1, 2, 3)]
    found = [shapes.shape_of(text, STREAMS) for text in texts]
    assert [values for _, values in found] == [[1, 1.5], [2, 2.5], [3, 3.5]]
    assert len({id(shape) for shape, _ in found}) == 1
    assert shapes.parsed == 1
    shape = found[0][0]
    assert all(branch.slots == shape.slots for branch in shape.branches)
    assert shape.streams == ("a", "b")


def test_a_parameter_may_stand_in_every_part() -> None:
    shape = shape_of(
        "SELECT k FROM a WHERE x > :low UNION ALL SELECT k FROM b WHERE y > :low", low=pa.int32()
    )
    assert {slot.name for slot in shape.slots} == {"low"}
    assert sorted(types.type_name(slot.type) for slot in shape.slots) == ["DOUBLE", "INT"]


def test_a_stored_union_is_read_back_with_its_branches() -> None:
    shape = shape_of(
        "SELECT a.k, t.w FROM a JOIN t ON t.k = a.k WHERE x > 1 UNION ALL SELECT k, name FROM b WHERE y > 2"
    )
    again = codec.shape_from(codec.shape_to(shape))
    assert codec.shape_to(again) == codec.shape_to(shape)
    assert [branch.branch for branch in again.all_branches] == [0, 1]
    assert [branch.stream for branch in again.all_branches] == [
        branch.stream for branch in shape.all_branches
    ]


def test_a_query_without_a_union_is_stored_as_before() -> None:
    assert "branches" not in codec.shape_to(shape_of("SELECT k FROM a"))


def test_parts_may_be_distinct_each_by_itself() -> None:
    shape = shape_of(
        "SELECT DISTINCT w FROM t UNION ALL SELECT w FROM t UNION ALL SELECT DISTINCT w FROM t WHERE k > 1"
    )
    assert [branch.is_distinct for branch in shape.all_branches] == [True, False, True]
    assert [branch.is_distinct for branch in codec.shape_from(codec.shape_to(shape)).all_branches] == [
        True,
        False,
        True,
    ]
