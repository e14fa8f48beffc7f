"""Mistakes of a query with aggregates that is being written: each in the field that it is in."""

from __future__ import annotations

from typing import Any

import pytest

import eddyline
from eddyline.rules.text_mistakes import query_mistakes

DECLARED = "CREATE TABLE auths (card STRING, amount BIGINT, ts TIMESTAMP) TBLPROPERTIES (time = 'ts')"
RUNNING = "SELECT card, count(*) AS n FROM auths GROUP BY card"


@pytest.mark.parametrize(
    ("text", "values", "fields"),
    [
        (RUNNING, {"keep": "30 days"}, []),
        (RUNNING, {"emit": "final"}, ["properties.emit"]),
        (RUNNING, {"keep": "soon"}, ["properties.keep"]),
        (f"CREATE VIEW v TBLPROPERTIES (emit = 'final') AS {RUNNING}", {}, ["properties.emit"]),
        (f"{RUNNING}, window(ts, '1 minute')", {"keep": "1 day"}, ["properties.keep"]),
        (f"{RUNNING}, window(ts, '1 minute')", {"emit": "final"}, []),
        (f"{RUNNING}, window(amount, '1 minute')", {"emit": "final"}, ["text"]),
        ("SELECT card FROM auths", {"keep": "1 day"}, ["properties.keep"]),
    ],
)
def test_a_mistake_is_in_its_field(text: str, values: dict[str, Any], fields: list[str]) -> None:
    with eddyline.open() as engine:
        engine.sql(DECLARED)
        assert [each.field for each in query_mistakes(engine, text, property_values=values)] == fields
