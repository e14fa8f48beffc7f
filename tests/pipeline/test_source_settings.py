"""Sources given in Python: checked as values, in the words of a pipeline file, without a file."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from eddyline.errors import PropertyError
from eddyline.model import Stream
from eddyline.pipeline import FileSource, GeneratorSource, source_settings

TRADES = Stream("trades", pa.schema([("n", pa.int32()), ("price", pa.float64())]))


def settings(given: object, folder: Path = Path("/data")) -> object:
    return source_settings(TRADES, given, folder, "UTC")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["in/😀", 'in "quoted"', "in\\back", "in\nline", "in\ttab", "in\u2028"])
def test_a_path_may_have_any_characters(name):
    source = settings({"type": "files", "path": name, "format": "json"})
    assert isinstance(source, FileSource)
    assert source.path == name


def test_paths_tuples_and_mappings_are_taken_as_they_are():
    source = settings({"type": "files", "path": Path("in"), "format": "csv", "columns": ("n", "price")})
    assert isinstance(source, FileSource)
    assert (source.path, source.columns) == ("in", ("n", "price"))
    made = settings(
        {"type": "generator", "columns": {"n": {"uniform": (1, 6)}, "price": {"value": 2.5}}, "rows": 3}
    )
    assert isinstance(made, GeneratorSource)


def test_everything_that_is_wrong_is_said_at_once_with_the_stream():
    with pytest.raises(PropertyError) as refused:
        settings({"type": "files", "path": 5, "format": "jsn", "glb": "*.json"})
    error = refused.value
    assert (
        error.problem
        == "the source of stream trades cannot be used: there is no key glb in a source of type files"
    )
    assert error.hint == "Did you mean glob?"
    assert error.detail == (
        "Also: format is 'jsn', not one of json, csv, parquet, arrow, avro. "
        "Also: path must be a text, and this is a whole number."
    )


def test_a_value_that_no_file_could_hold_is_named_by_its_type():
    with pytest.raises(PropertyError, match="path must be a text, and this is a Decimal"):
        settings({"type": "files", "path": Decimal(1), "format": "json"})


def test_a_source_without_a_type_says_which_there_are():
    with pytest.raises(PropertyError, match="the source of stream trades has no type") as refused:
        settings({"path": "in"})
    assert refused.value.hint is not None
    assert "files" in refused.value.hint
