"""The fuzz targets by name: each is made with a folder of its own, takes bytes, and raises if the contract does not hold.

The contract is the same for all: the process survives, what is refused is refused with an EddylineError, and every row that is
given becomes a row or a dead letter. The same functions run over the inputs of `corpus/` as tests, and by `make fuzz` over inputs
that are found as it goes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.fuzz import readers, requests, texts, values

CORPUS = Path(__file__).parent / "corpus"

Target = Callable[[bytes], None]
TARGETS: dict[str, Callable[[Path], Target]] = {
    make.__name__: make
    for make in (
        readers.json_rows,
        readers.csv_rows,
        readers.plain_text,
        readers.avro_messages,
        readers.kafka_messages,
        readers.json_file,
        readers.csv_file,
        readers.packed_file,
        readers.avro_file,
        readers.parquet_file,
        readers.arrow_file,
        values.python_rows,
        values.kept_rows,
        texts.sql_text,
        texts.sql_statements,
        texts.schema_text,
        texts.settings_text,
        texts.rules_text,
        texts.cursor_text,
        texts.script_text,
        requests.http_requests,
    )
}


def corpus(name: str) -> list[Path]:
    """The inputs of a target that are kept: seeds, and what once broke the contract."""
    return sorted((CORPUS / name).iterdir())
