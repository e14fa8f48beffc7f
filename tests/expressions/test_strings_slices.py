"""A part of a batch gives what the whole gives: no function may look at a buffer without its offset, or need a row."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from eddyline.errors import EddylineError
from eddyline.expressions import Context, Frame, evaluate
from eddyline.model import Expression
from tests.expressions import (
    test_collections,
    test_dates,
    test_json,
    test_regex,
    test_strings,
    test_timestamps,
)
from tests.expressions.judge import NEW_YORK, NOW_US, Cases, numbered, python_values, same
from tests.scalars import scalar

MODULES = [test_strings, test_regex, test_json, test_dates, test_timestamps, test_collections]


@pytest.mark.thorough
@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__.rpartition(".")[2])
def test_slices_single_rows_and_no_rows_agree_with_the_whole(module):
    wrong: list[str] = []
    for case in cases_of(module):
        table = numbered(case.table).combine_chunks()
        half = len(table) // 2
        padded = pa.concat_tables([table.slice(half), table, table]).combine_chunks()
        for text in case.expressions:
            try:
                bound = scalar(text, table.schema, time_zone=NEW_YORK)
            except EddylineError:
                continue
            whole = values(bound, table)
            parts = [values(bound, padded.slice(len(table) - half, len(table)))]
            parts.append(values(bound, table.slice(0, 1)) + values(bound, table.slice(1)))
            if values(bound, table.slice(0, 0)) != [] or not all(same(whole, part) for part in parts):
                wrong.append(text)
    assert wrong == []


def cases_of(module: Any) -> list[Cases]:
    """All that the module has judged by Spark."""
    lists = [value for value in vars(module).values() if isinstance(value, list)]
    return [case for found in lists for case in found if isinstance(case, Cases)]


def values(bound: Expression, table: pa.Table) -> list[Any]:
    """One value per row, the error's class where there is none."""
    columns = {
        ("", name): table[name].chunk(0) if len(table) else pa.array([], table[name].type)
        for name in table.column_names
    }
    frame = Frame(len(table), columns, context=Context(now_us=NOW_US, time_zone=NEW_YORK))
    result = evaluate(bound, frame)
    array = frame.array(result)
    array.validate(full=True)
    assert array.type == bound.type, f"promised {bound.type} and gave {array.type}"
    shown = python_values(array)
    if result.errors is None:
        return shown
    return [
        frame.failure(code).error if code else value for code, value in zip(result.errors, shown, strict=True)
    ]
