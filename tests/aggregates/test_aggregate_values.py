"""What expressions, times and registration know of aggregates: checked values, ends of windows, warnings, properties."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pytest

from eddyline.errors import EddylineError
from eddyline.expressions import Context, Frame, call, evaluate, read_times
from eddyline.model import WINDOW_TYPE, Column, Stream
from eddyline.rules.cost import cost_class, rule_warnings
from eddyline.sql import Shapes, properties
from eddyline.sql.view_properties import stated
from eddyline.types import BIGINT, BOOLEAN
from tests.aggregates.aggregate_streams import STREAMS, shape_of


def test_a_value_that_does_not_fit_is_an_error_of_its_row_alone() -> None:
    columns = {
        ("", "total"): pa.array([1, None, None, 4], BIGINT),
        ("", "over"): pa.array([False, True, False, None], BOOLEAN),
    }
    frame = Frame(4, columns, [], Context())
    found = evaluate(call("checked", [Column(BIGINT, "total"), Column(BOOLEAN, "over")]), frame)
    assert found.errors is not None
    assert [code != 0 for code in found.errors] == [False, True, False, False]
    failure = frame.failure(int(found.errors[1]))
    assert (failure.error, failure.message) == ("ARITHMETIC_OVERFLOW", "the value does not fit BIGINT")
    assert frame.array(found).to_pylist()[::2] == [1, None]


def test_the_time_of_a_closed_window_is_its_last_microsecond() -> None:
    stream = Stream("minutes", pa.schema([("w", WINDOW_TYPE)]), time="w")
    windows = pa.array([{"start": 0, "end": 60_000_000}, None, {"start": -60_000_000, "end": 0}], WINDOW_TYPE)
    found = read_times(stream, pa.record_batch([windows], schema=stream.schema), "UTC")
    assert found is not None
    assert (found.us.to_pylist(), len(found.unreadable)) == ([59_999_999, None, -1], 0)


@pytest.mark.parametrize(
    ("text", "given", "warnings"),
    [
        ("SELECT card, count(*) AS n FROM auths GROUP BY card, amount % 10", {},
         ["has one state per card, amount % 10, for ever: keep = '30 days' forgets groups without rows for so long"]),
        ("SELECT card, count(*) AS n FROM auths GROUP BY card", {"keep": "30 days"}, []),
        ("SELECT card, count(*) AS n FROM auths GROUP BY card, window(ts, '1 minute')", {}, []),
        ("SELECT card, count(*) AS n FROM auths WHERE ts > now() - INTERVAL 1 HOUR GROUP BY card", {}, []),
        ("SELECT count(*) AS n FROM auths", {}, []),
        ("SELECT shelf, count(*) AS n FROM stock GROUP BY shelf", {}, []),
        ("SELECT count(*) OVER (PARTITION BY card ORDER BY ts) AS n FROM auths", {},
         ["has a frame without a beginning: one state per card, for ever; RANGE BETWEEN INTERVAL … PRECEDING ends it"]),
        ("SELECT lag(amount) OVER (PARTITION BY card ORDER BY ts) AS n FROM auths", {}, []),
    ],
)  # fmt: skip
def test_groups_without_end_are_warned_of(text: str, given: dict[str, str], warnings: list[str]) -> None:
    shape = shape_of(text, **given)
    assert list(rule_warnings(shape, None, Context())) == warnings
    assert cost_class(shape) == "index"


@pytest.mark.parametrize(
    ("given", "keep_us", "emit"),
    [
        ({"keep": "30 days"}, 2_592_000_000_000, "changes"),
        ({"keep": 90}, 90_000_000, "changes"),
        ({"emit": "FINAL"}, None, "final"),
    ],
)
def test_properties_of_groups_read_and_written(
    given: dict[str, object], keep_us: int | None, emit: str
) -> None:
    found = properties(given)
    assert (found.keep_us, found.emit) == (keep_us, emit)
    assert properties(stated(found)) == found


@dataclass(frozen=True)
class Noise:
    """A function of the user that answers anew each time."""

    name: str = "noise"
    returns: pa.DataType = BIGINT
    takes: tuple[pa.DataType, ...] | None = None
    version: str = "v1"
    is_deterministic: bool = False

    def get(self, name: str, /) -> Noise | None:
        return self if name == "noise" else None

    def names(self) -> list[str]:
        return ["noise"]


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("SELECT shelf, sum(noise(price)) AS s FROM stock GROUP BY shelf", "an aggregate over a table"),
        ("SELECT card, noise(count(*)) AS s FROM auths GROUP BY card", "SELECT or HAVING of groups"),
        ("SELECT card FROM auths GROUP BY card HAVING noise(card) > 3", "SELECT or HAVING of groups"),
    ],
)
def test_functions_that_answer_anew_are_refused_where_changes_are_told(text: str, where: str) -> None:
    with pytest.raises(EddylineError) as refused:
        Shapes().shape_of(text, STREAMS, Noise())
    assert refused.value.problem == f"noise is not deterministic and cannot stand in {where}"


def test_functions_that_answer_anew_may_stand_below_over_streams_and_in_final_windows() -> None:
    for text in (
        "SELECT card, sum(noise(amount)) AS s FROM auths GROUP BY card",
        "SELECT noise(count(*)) AS s FROM auths GROUP BY window(ts, '1 minute')",
    ):
        given = properties({"emit": "final"} if "window" in text else {})
        assert Shapes().shape_of(text, STREAMS, Noise(), properties=given)[0].aggregating is not None
