"""Joins as shapes: canonical inputs, keys, names of joined columns, local conditions, signatures."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pytest

from eddyline import types
from eddyline.catalog import codec
from eddyline.errors import LimitError, SqlError, UnknownNameError, UnsupportedError
from eddyline.model import AtomKind, Join, Role, Shape, Signature, UserCall
from eddyline.sql import Shapes, render
from tests.sql.join_streams import STREAMS, keys_of, shape_of, shown, stream

NEAR = "t.ts BETWEEN n.ts AND n.ts + INTERVAL 10 MINUTES"


def join_of(text: str) -> Join:
    found = shape_of(text).join
    assert found is not None
    return found


def signature(text: str) -> Signature:
    return join_of(text).signature


def refusal(text: str) -> SqlError:
    with pytest.raises(SqlError) as refused:
        shape_of(text)
    return refused.value


def pointed(error: SqlError) -> str:
    assert error.span is not None
    assert error.text is not None
    return error.text[error.span.start : error.span.end]


# ------------------------------------------------------------------------------------------------ names


def test_a_star_calls_columns_of_later_inputs_by_their_alias_where_names_are_the_same() -> None:
    shape = shape_of("SELECT * FROM recent(trades, 5) a JOIN recent(trades, 9) b ON a.sym = b.sym")
    names = [p.name for p in shape.projection]
    own = STREAMS["trades"].schema.names
    assert names == [*own, *(f"b_{name}" for name in own)]


def test_what_using_names_stands_once_in_a_star() -> None:
    shape = shape_of("SELECT * FROM recent(trades, 5) a JOIN recent(trades, 9) b USING (sym)")
    names = [p.name for p in shape.projection]
    own = STREAMS["trades"].schema.names
    assert names == [*own, *(f"b_{name}" for name in own if name != "sym")]


def test_inputs_stand_in_the_order_of_their_streams_names_whatever_from_says() -> None:
    shape = shape_of(
        "SELECT t.sym FROM trades t JOIN recent(news, 5) n ON t.sym = n.sym JOIN quotes q ON q.sym = t.sym"
    )
    assert [(entry.alias, entry.stream) for entry in shape.inputs] == [
        ("n", "news"),
        ("q", "quotes"),
        ("t", "trades"),
    ]
    assert shape.streams == ("news", "quotes", "trades")
    assert shape.join is not None
    assert shape.stream == shape.join.signature.name


def test_two_inputs_of_one_stream_stay_as_they_follow_in_from() -> None:
    shape = shape_of("SELECT b.sym FROM recent(trades, 5) b JOIN recent(trades, 9) a ON a.sym = b.sym")
    assert [entry.alias for entry in shape.inputs] == ["b", "a"]
    assert shown(shape.condition.clauses) == ["`0.#behind` < 5", "`1.#behind` < 9"]


def test_columns_get_the_names_of_joined_rows_and_results_those_the_user_wrote() -> None:
    shape = shape_of(
        "SELECT t.sym, n.price AS told, t.price * 2 AS twice FROM trades t JOIN recent(news, 5) n ON t.sym = n.sym"
    )
    assert [(p.name, render(p.expression, [2])) for p in shape.projection] == [
        ("sym", "`1.sym`"),
        ("told", "`0.price`"),
        ("twice", "`1.price` * 2"),
    ]
    assert shape.columns == {"1.sym", "0.price", "1.price", "0.#behind"}


def test_conditions_of_on_and_where_are_one_condition() -> None:
    shape = shape_of(
        f"SELECT t.sym FROM trades t JOIN news n ON t.sym = n.sym AND {NEAR} WHERE t.price > n.price AND NOT t.gone"
    )
    assert keys_of(shape) == ["0:sym = 1:sym"]
    assert shown(shape.condition.clauses) == [
        "`0.ts` - `1.ts` <= INTERVAL '0' SECONDS",
        "`0.ts` - `1.ts` >= INTERVAL '-600' SECONDS",
        "`1.price` > `0.price`",
        "`1.gone` = FALSE",
    ]


# ------------------------------------------------------------------------------------------------ keys


@pytest.mark.parametrize(
    ("condition", "keys", "left"),
    [
        ("t.sym = n.sym", ["0:sym = 1:sym"], []),
        ("n.sym = t.sym AND t.sym = n.sym", ["0:sym = 1:sym"], []),
        ("t.id = n.id AND t.sym = n.sym", ["0:id = 1:id", "0:sym = 1:sym"], []),
        ("t.id = n.num", ["0:num = 1:CAST(id AS BIGINT)"], []),
        ("upper(t.sym) = lower(n.sym)", ["0:lower(sym) = 1:upper(sym)"], []),
        (
            "t.sym || 'x' = n.sym",
            ["0:sym = 1:concat(sym, 'x')"],
            [],
        ),  # the constant is a part of the signature
        ("t.id + 1 = n.id", ["0:id = 1:id + 1"], []),
        ("t.id = n.id + t.id", [], ["`1.id` = `0.id` + `1.id`"]),
        ("t.id = t.num AND t.sym = n.sym", ["0:sym = 1:sym"], ["CAST(`1.id` AS BIGINT) = `1.num`"]),
        ("t.sym <=> n.sym", [], ["`1.sym` <=> `0.sym`"]),
        ("t.id < n.id", [], ["`1.id` < `0.id`"]),
        ("(t.sym = n.sym OR t.id = n.id)", [], ["`1.sym` = `0.sym` OR `1.id` = `0.id`"]),
        ("t.ts = n.ts", ["0:ts = 1:ts"], []),
    ],
)
def test_equalities_between_two_inputs_are_keys(condition: str, keys: list[str], left: list[str]) -> None:
    shape = shape_of(f"SELECT t.sym FROM recent(trades, 9) t JOIN recent(news, 5) n ON {condition}")
    assert keys_of(shape) == keys
    assert shown(shape.condition.clauses) == [*left, "`0.#behind` < 5", "`1.#behind` < 9"]


def test_keys_go_from_the_lower_place_to_the_higher_in_a_fixed_order() -> None:
    shape = shape_of(
        "SELECT a.sym FROM trades t JOIN quotes q ON t.sym = q.sym JOIN recent(asks, 3) a ON a.id = t.id AND a.sym = t.sym"
    )
    assert keys_of(shape) == ["0:id = 2:id", "0:sym = 2:sym", "1:sym = 2:sym"]


def test_using_gives_keys() -> None:
    shape = shape_of("SELECT t.price FROM trades t JOIN recent(news, 5) n USING (sym, id)")
    assert keys_of(shape) == ["0:id = 1:id", "0:sym = 1:sym"]


def test_a_parameter_in_an_equality_keeps_it_out_of_the_signature() -> None:
    shape, _ = Shapes().shape_of(
        "SELECT t.sym FROM trades t JOIN recent(news, 5) n ON t.id + :shift = n.id",
        STREAMS,
        params={"shift": types.INT},
    )
    assert keys_of(shape) == []
    assert shown(shape.condition.clauses)[0] == "`1.id` + ?1 = `0.id`"


@dataclass(frozen=True)
class Declared:
    name: str
    is_deterministic: bool
    returns: pa.DataType = types.STRING
    takes: tuple[pa.DataType, ...] | None = None
    version: str = "v1"


class Registry:
    def __init__(self, *functions: Declared) -> None:
        self._functions = {f.name: f for f in functions}

    def get(self, name: str, /) -> Declared | None:
        return self._functions.get(name.lower())

    def names(self) -> list[str]:
        return list(self._functions)


FUNCTIONS = Registry(Declared("clean", True), Declared("noise", False))


def test_a_function_of_the_user_may_make_a_key_if_it_always_answers_alike() -> None:
    text = "SELECT t.sym FROM trades t JOIN recent(news, 5) n ON {}(t.sym) = n.sym AND {}(n.sym) = 'x'"
    clean, _ = Shapes().shape_of(text.format("clean", "clean"), STREAMS, FUNCTIONS)
    noise, _ = Shapes().shape_of(text.format("noise", "noise"), STREAMS, FUNCTIONS)
    assert clean.join is not None
    assert noise.join is not None
    (key,) = clean.join.signature.keys
    assert isinstance(key.right_key, UserCall)
    assert key.right_key.version == "v1"
    assert shown(clean.join.local[0].clauses) == ["clean(sym) = ?1"]
    assert noise.join.signature.keys == ()
    assert noise.join.local[0].clauses == ()
    assert shown(noise.condition.clauses)[:2] == ["noise(`1.sym`) = `0.sym`", "noise(`0.sym`) = ?1"]


# ------------------------------------------------------------------------------------------------ local conditions


def test_what_is_said_of_one_input_is_said_over_its_own_columns_too() -> None:
    join = join_of(
        "SELECT t.sym FROM trades t JOIN recent(news, 5) n ON t.sym = n.sym"
        " WHERE t.price > 10 AND (n.id = 4 OR n.sym LIKE 'a%') AND (t.id = 1 OR n.id = 2) AND t.id IS NULL AND 1 < 2"
    )
    assert [shown(condition.clauses) for condition in join.local] == [
        ["id = ?2 OR sym LIKE ?3"],
        ["price > ?1", "id IS NULL"],
    ]
    assert [atom.kind for c in join.local[0].clauses for atom in c.atoms] == [AtomKind.COMPARE, AtomKind.LIKE]


def test_what_changes_with_the_time_is_not_local() -> None:
    shape = shape_of(
        "SELECT t.sym FROM trades t JOIN recent(news, 5) n ON t.sym = n.sym WHERE t.ts > now() - INTERVAL 1 HOUR"
    )
    assert shape.join is not None
    assert [condition.clauses for condition in shape.join.local] == [(), ()]
    assert shown(shape.condition.clauses)[0] == "`1.ts` > now() - INTERVAL '3600' SECONDS"


def test_contradictions_are_found_over_joined_rows() -> None:
    shape = shape_of(
        "SELECT t.sym FROM trades t JOIN recent(news, 5) n ON t.sym = n.sym"
        " WHERE t.price > 10 AND t.price < n.price AND t.price < 3"
    )
    assert [render(e) for e in shape.condition.never] == ["?1 >= ?2"]


# ------------------------------------------------------------------------------------------------ signatures


def test_queries_that_differ_in_aliases_windows_constants_and_order_share_a_signature() -> None:
    alike = {
        signature(text)
        for text in (
            "SELECT t.sym FROM trades t JOIN recent(news, 5) n ON t.sym = n.sym AND t.price > 1",
            "SELECT x.sym FROM recent(news, 700) AS y JOIN trades AS x ON y.sym = x.sym",
            "SELECT trades.id FROM trades, recent(NEWS, INTERVAL 1 HOUR) WHERE trades.sym = news.sym AND news.id <> 4",
        )
    }
    assert len(alike) == 1


def test_other_keys_roles_streams_and_sides_make_another_signature() -> None:
    texts = (
        "SELECT t.sym FROM trades t JOIN recent(news, 5) n ON t.sym = n.sym",
        "SELECT t.sym FROM trades t JOIN recent(news, 5) n ON t.id = n.id",
        "SELECT t.sym FROM trades t JOIN recent(news, 5) n ON t.sym = n.sym AND t.id = n.id",
        "SELECT t.sym FROM trades t JOIN recent(news, 5) n ON t.sym || '1' = n.sym",
        "SELECT t.sym FROM trades t JOIN recent(news, 5) n ON t.sym || '2' = n.sym",
        "SELECT t.sym FROM recent(trades, 3) t JOIN recent(news, 5) n ON t.sym = n.sym",
        "SELECT t.sym FROM trades t JOIN recent(asks, 5) n ON t.sym = n.sym",
        "SELECT t.sym FROM trades t LEFT JOIN recent(news, 5) n ON t.sym = n.sym",
        "SELECT t.sym FROM trades t LEFT ANTI JOIN recent(news, 5) n ON t.sym = n.sym",
        "SELECT t.sym FROM trades t JOIN quotes n ON t.sym = n.sym",
        "SELECT t.sym FROM trades t ASOF JOIN quotes n ON t.sym = n.sym",
    )
    found = [signature(text) for text in texts]
    assert len({one.name.lower() for one in found}) == len(set(found)) == len(texts)


def test_a_signature_has_a_name_people_can_read() -> None:
    inner = signature("SELECT t.sym FROM trades t JOIN recent(news, 5) n ON t.sym = n.sym")
    left = signature("SELECT t.sym FROM trades t LEFT JOIN quotes q ON t.sym = q.sym")
    anti = signature("SELECT t.sym FROM trades t LEFT ANTI JOIN quotes q ON t.sym = q.sym")
    assert inner.name.startswith("news ⋈ trades #")
    assert left.name.startswith("trades ⟕ quotes #")
    assert anti.name.startswith("trades ▷ quotes #")
    assert len(inner.name.rpartition("#")[2]) == 12


def test_the_spelling_of_a_stream_in_from_does_not_matter() -> None:
    a = signature("SELECT t.sym FROM TRADES t JOIN recent(News, 5) n ON t.SYM = n.sym")
    assert a == signature("SELECT t.sym FROM trades t JOIN recent(news, 5) n ON t.sym = n.sym")


# ------------------------------------------------------------------------------------------------ outer joins


def test_a_left_join_keeps_what_makes_a_match_apart_from_where() -> None:
    shape = shape_of(
        "SELECT t.sym, n.price FROM trades t LEFT JOIN news n ON t.sym = n.sym AND n.price > 3 AND t.id = 1"
        " AND n.ts BETWEEN t.ts AND t.ts + INTERVAL 1 HOUR WHERE t.price < 4 AND n.sym IS NULL AND t.id = n.id"
    )
    assert [entry.alias for entry in shape.inputs] == ["t", "n"]
    assert shape.join is not None
    assert shape.join.signature.outer == "left"
    assert keys_of(shape) == ["0:sym = 1:sym"]
    assert shown(shape.join.on.clauses) == [
        "`1.price` > ?1",
        "`0.id` = ?2",
        "`0.ts` - `1.ts` <= INTERVAL '0' SECONDS",
        "`0.ts` - `1.ts` >= INTERVAL '-3600' SECONDS",
    ]
    assert shown(shape.condition.clauses) == ["`0.price` < ?3", "`1.sym` IS NULL", "`0.id` = `1.id`"]
    assert shape.columns >= {"1.ts", "1.price", "0.id"}  # those of ON as well
    assert [shown(c.clauses) for c in shape.join.local] == [["price < ?3"], ["price > ?1"]]


def test_windows_of_an_outer_join_are_part_of_what_makes_a_match() -> None:
    shape = shape_of("SELECT t.sym FROM trades t LEFT JOIN recent(news, 5) n ON t.sym = n.sym")
    assert shape.join is not None
    assert shown(shape.join.on.clauses) == ["`1.#behind` < 5"]
    assert shape.condition.clauses == ()
    assert [entry.role for entry in shape.join.signature.inputs] == [Role.CURRENT, Role.WINDOW]


def test_an_outer_join_with_times_that_cannot_be_never_finds_a_match() -> None:
    shape = shape_of(
        "SELECT t.sym FROM trades t LEFT JOIN news n ON t.sym = n.sym AND n.ts > t.ts AND n.ts < t.ts WHERE t.price > 1"
    )
    assert shape.join is not None
    assert [render(e) for e in shape.join.on.never] == ["TRUE"]
    assert shape.condition.never == ()


def test_everything_of_a_left_anti_join_is_everything_of_the_left() -> None:
    shape = shape_of("SELECT * FROM trades t LEFT ANTI JOIN recent(news, 5) n ON t.sym = n.sym WHERE id = 3")
    assert [p.name for p in shape.projection] == list(STREAMS["trades"].schema.names)
    assert shown(shape.condition.clauses) == ["`0.id` = ?1"]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("SELECT t.sym, n.id FROM trades t LEFT ANTI JOIN recent(news, 5) n ON t.sym = n.sym", "n.id"),
        ("SELECT n.* FROM trades t LEFT ANTI JOIN recent(news, 5) n ON t.sym = n.sym", "n.*"),
        (
            "SELECT t.sym FROM trades t LEFT ANTI JOIN recent(news, 5) n ON t.sym = n.sym WHERE n.id = 1",
            "n.id",
        ),
    ],
)
def test_a_left_anti_join_has_no_columns_of_its_right(text: str, part: str) -> None:
    error = refusal(text)
    assert isinstance(error, UnknownNameError)
    assert error.problem == "results have no row of n: LEFT ANTI JOIN keeps rows that have no match"
    assert error.hint == "Name columns of t, or write LEFT JOIN."
    assert pointed(error) == part


def test_a_function_that_answers_anew_cannot_decide_that_there_is_no_match() -> None:
    text = "SELECT t.sym FROM trades t LEFT JOIN recent(news, 5) n ON t.sym = n.sym AND noise(t.sym) = n.sym"
    with pytest.raises(UnsupportedError) as refused:
        Shapes().shape_of(text, STREAMS, FUNCTIONS)
    assert refused.value.problem == "noise is not deterministic and cannot stand in ON of LEFT JOIN"
    assert pointed(refused.value) == "noise(t.sym)"


# ------------------------------------------------------------------------------------------------ limits


def chain(n_inputs: int) -> str:
    parts = [f"JOIN recent(asks, 5) a{n} ON a{n}.sym = t.sym" for n in range(1, n_inputs)]
    return f"SELECT t.sym FROM trades t {' '.join(parts)}"


def test_eight_inputs_may_be_joined() -> None:
    assert len(signature(chain(8))) == 8


def test_nine_inputs_are_refused() -> None:
    error = refusal(chain(9))
    assert isinstance(error, LimitError)
    assert error.problem == "a query joins at most 8 inputs, this one 9"
    assert pointed(error) == "recent(asks, 5) a8 ON a8.sym = t.sym"


def test_an_outer_join_takes_two_inputs() -> None:
    error = refusal(
        "SELECT t.sym FROM trades t JOIN quotes q ON t.sym = q.sym LEFT JOIN recent(news, 5) n ON t.sym = n.sym"
    )
    assert error.problem == "LEFT JOIN takes two inputs, this query has 3"
    assert error.hint == "Join two inputs per query, or write JOIN where a match is needed anyway."
    assert pointed(error) == "recent(news, 5) n ON t.sym = n.sym"


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("SELECT t.sym FROM trades t, news n", "news n"),
        ("SELECT t.sym FROM trades t CROSS JOIN quotes q", "quotes q"),
        (
            "SELECT t.sym FROM trades t JOIN recent(news, 5) n ON t.price > 3",
            "recent(news, 5) n ON t.price > 3",
        ),
        (
            "SELECT t.sym FROM trades t JOIN quotes q ON t.sym = q.sym JOIN recent(news, 5) n ON true",
            "recent(news, 5) n ON true",
        ),
    ],
)
def test_an_input_that_nothing_connects_is_refused(text: str, part: str) -> None:
    error = refusal(text)
    assert error.problem.startswith("no condition connects ")
    assert error.problem.endswith(" to the rest of the query")
    assert error.hint is not None
    assert error.hint.startswith("Add a condition such as ON a.id = b.id.")
    assert pointed(error) == part


def test_every_pair_may_be_meant_if_all_inputs_have_a_window() -> None:
    shape = shape_of("SELECT t.sym FROM recent(trades, 3) t, recent(news, 5) n, ticks k")
    assert shown(shape.condition.clauses) == ["`0.#behind` < 5", "`1.#behind` < 5", "`2.#behind` < 3"]


@pytest.mark.parametrize(
    ("join", "way_out"),
    [("FULL JOIN", "LEFT ANTI JOIN"), ("FULL OUTER JOIN", "LEFT ANTI JOIN"), ("NATURAL JOIN", "USING (id)")],
)
def test_joins_of_other_kinds_are_refused_with_a_way_out(join: str, way_out: str) -> None:
    error = refusal(f"SELECT t.sym FROM trades t {join} news n ON t.sym = n.sym")
    assert error.problem == f"{join.replace(' OUTER', '')} is not supported"
    assert error.hint is not None
    assert way_out in error.hint


# ------------------------------------------------------------------------------------------------ RIGHT and SEMI


def test_a_right_join_is_a_left_join_with_its_sides_exchanged() -> None:
    condition = "t.sym = n.sym AND t.price > 5"
    right = shape_of(f"SELECT t.price, n.id FROM recent(trades, 5) t RIGHT OUTER JOIN news n ON {condition}")
    left = shape_of(f"SELECT t.price, n.id FROM news n LEFT JOIN recent(trades, 5) t ON {condition}")
    assert right.join == left.join
    assert right.projection == left.projection
    assert [right.inputs[place].alias for place in right.written_order] == ["t", "n"]


def test_a_star_over_a_right_join_has_the_columns_in_the_order_written() -> None:
    shape = shape_of("SELECT * FROM recent(trades, 5) t RIGHT JOIN news n ON t.sym = n.sym")
    own = STREAMS["trades"].schema.names
    assert [p.name for p in shape.projection] == [*own, *(f"n_{name}" for name in own)]


def test_a_right_join_of_a_table_says_where_the_stream_belongs() -> None:
    error = refusal("SELECT q.sym FROM trades t RIGHT JOIN quotes q ON t.sym = q.sym")
    assert error.problem == "RIGHT JOIN of quotes, which has a key, takes a left side that has one too"
    assert error.hint == "Put the stream last: FROM quotes … RIGHT JOIN trades, or write JOIN."
    assert pointed(error).startswith("quotes q")


def test_a_left_semi_join_by_the_whole_key_is_a_join_without_columns_of_its_right() -> None:
    semi = shape_of("SELECT * FROM trades t LEFT SEMI JOIN quotes q ON t.sym = q.sym AND q.price > 1")
    join = shape_of("SELECT t.* FROM trades t JOIN quotes q ON t.sym = q.sym AND q.price > 1")
    assert (semi.join, semi.projection, semi.condition) == (join.join, join.projection, join.condition)


def test_a_left_semi_join_by_less_than_the_whole_key_hides_the_rows_of_its_right() -> None:
    semi = shape_of("SELECT * FROM trades t LEFT SEMI JOIN quotes q ON t.id = q.id")
    assert semi.join is not None
    assert {entry.stream: entry.is_shown for entry in semi.join.signature.inputs} == {
        "trades": True,
        "quotes": False,
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "SELECT t.sym FROM trades t SEMI JOIN recent(news, 5) n ON t.sym = n.sym",
            "LEFT SEMI JOIN looks up a table; news has no key",
        ),
        (
            "SELECT q.bid FROM trades t LEFT SEMI JOIN quotes q ON t.sym = q.sym",
            "results have no columns of q: LEFT SEMI JOIN keeps rows of t that have a match",
        ),
    ],
)
def test_a_left_semi_join_is_refused_unless_it_looks_up_a_table(text: str, problem: str) -> None:
    assert refusal(text).problem == problem


def test_a_left_semi_join_of_tables_is_counted_also_where_it_looks_up_a_whole_key() -> None:
    for text in (
        "SELECT q.sym FROM quotes q LEFT SEMI JOIN watches w ON q.id = w.id",
        "SELECT q.sym FROM quotes q LEFT SEMI JOIN watches w ON q.sym = w.sym",
    ):
        join = shape_of(text).join
        assert join is not None
        assert join.signature.is_counted
        assert join.signature.hidden_places == {1}


# ------------------------------------------------------------------------------------------------ USING


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("SELECT sym FROM recent(trades, 5) t JOIN recent(news, 5) n USING (sym)", "t.sym"),
        ("SELECT sym FROM trades t LEFT JOIN recent(news, 5) n USING (sym)", "t.sym"),
        ("SELECT sym FROM recent(trades, 5) t RIGHT JOIN news n USING (sym)", "n.sym"),
        ("SELECT n.sym FROM recent(trades, 5) t JOIN recent(news, 5) n USING (sym)", "n.sym"),
        (
            "SELECT sym FROM recent(trades, 5) t JOIN recent(news, 5) n USING (sym) JOIN quotes q USING (sym)",
            "t.sym",
        ),
    ],
)
def test_the_name_of_a_column_of_using_is_not_ambiguous(text: str, column: str) -> None:
    shape = shape_of(text)
    place, _, name = shape.projection[0].expression.name.partition(".")  # type: ignore[attr-defined]
    assert f"{shape.inputs[int(place)].alias}.{name}" == column


def test_a_name_is_ambiguous_beside_an_input_that_using_does_not_name() -> None:
    error = refusal(
        "SELECT t.id FROM recent(trades, 5) t JOIN recent(news, 5) n USING (sym) JOIN quotes q ON sym = q.sym"
    )
    assert error.problem == "sym could be a column of t and q"


def test_a_star_begins_with_the_columns_of_using() -> None:
    shape = shape_of("SELECT * FROM recent(trades, 5) t JOIN recent(news, 5) n USING (id, sym)")
    names = [p.name for p in shape.projection]
    assert names[:6] == ["id", "sym", "price", "num", "gone", "ts"]
    assert names[6:] == ["n_price", "n_num", "n_gone", "n_ts"]


# ------------------------------------------------------------------------------------------------ sharing of shapes


def test_texts_equal_but_for_constants_are_bound_once() -> None:
    shapes = Shapes()
    text = "SELECT t.sym FROM trades t JOIN recent(news, 5) n ON t.sym = n.sym AND t.price > {}"
    assert shapes.shape_of(text.format(1), STREAMS)[0] is shapes.shape_of(text.format(2), STREAMS)[0]
    assert shapes.bound == 1


def test_a_constant_in_a_key_is_no_slot() -> None:
    shapes = Shapes()
    text = "SELECT t.sym FROM trades t JOIN recent(news, 5) n ON t.id + {} = n.id AND t.num > 3"
    one, values = shapes.shape_of(text.format(1), STREAMS)
    two, _ = shapes.shape_of(text.format(2), STREAMS)
    assert (len(one.slots), values) == (1, [3])
    assert one.join is not None
    assert two.join is not None
    assert one.join.signature != two.join.signature


def test_a_stream_declared_with_another_window_time_or_key_is_bound_anew() -> None:
    shapes = Shapes()
    text = "SELECT t.sym FROM trades t JOIN fills f ON t.sym = f.sym"

    def role(**declared: object) -> Role:
        found, _ = shapes.shape_of(text, STREAMS | {"fills": stream("fills", **declared)})  # type: ignore[arg-type]
        assert found.join is not None
        return found.join.signature.inputs[0].role

    assert role(window="5 rows") is Role.WINDOW
    assert role(key=("sym",)) is Role.TABLE
    with pytest.raises(UnsupportedError, match="unbounded memory"):
        role()


# ------------------------------------------------------------------------------------------------ storing


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT t.sym FROM trades t JOIN news n ON t.sym = n.sym AND {NEAR} WHERE t.price > 3 AND n.sym LIKE 'a%'",
        "SELECT t.sym FROM trades t LEFT JOIN recent(news, 5) n ON t.sym = n.sym AND n.id > t.id WHERE t.id = 3",
        "SELECT t.sym FROM trades t LEFT JOIN news n ON t.sym = n.sym AND n.ts > t.ts AND n.ts < t.ts",
        "SELECT t.sym FROM trades t ASOF JOIN quotes q ON t.sym = q.sym JOIN watches w ON w.id = q.id",
        "SELECT t.sym FROM recent(trades, 2) t, recent(news, 3) n",
    ],
)
def test_a_join_comes_back_from_the_catalog_as_it_was(text: str) -> None:
    shape = shape_of(text)
    again = codec.shape_from(codec.shape_to(shape))
    for name in Shape.__slots__:
        assert getattr(again, name) == getattr(shape, name)
    assert codec.shape_to(again) == codec.shape_to(shape)
    assert codec.shape_meaning(again) == codec.shape_meaning(shape)


def test_a_shape_of_one_stream_is_stored_as_homes_always_had_it() -> None:
    assert '"join"' not in codec.shape_to(shape_of("SELECT sym FROM trades"))
