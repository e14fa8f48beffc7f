"""How rows are written: the formats of files and messages, and what has to be said about each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eddyline.choices import FILE_ENDINGS

MESSAGE_FORMATS = ("json", "csv", "avro")  # of messages, each one row
FRAMINGS = ("none", "confluent")
COMPRESSIONS = (".gz", ".bz2", ".zst", ".lz4")  # of JSON and CSV, by the ending of the name


@dataclass(frozen=True, slots=True)
class FileFormat:
    """How the files of a folder, or the messages of a topic, are written."""

    name: str  # one of FORMATS
    columns: tuple[str, ...] = ()  # of CSV without a header
    delimiter: str = ","
    avro_schema: str | None = None  # of Avro messages: the text of the writer's schema; files hold their own
    framing: str = (
        "none"  # of Avro messages, one of FRAMINGS; "confluent": a zero and the id of the schema stand before
    )
    schema_id: int | None = None  # with framing "confluent": which

    @property
    def has_lines(self) -> bool:
        return self.name in ("json", "csv")

    def has_ending(self, file: str) -> bool:
        """Whether a file of this name is one of the format."""
        name = file.lower()
        if self.has_lines:
            name = next((name.removesuffix(c) for c in COMPRESSIONS if name.endswith(c)), name)
        return name.endswith(FILE_ENDINGS[self.name])

    def to_json(self) -> dict[str, Any]:
        """All of it, for readers in other processes."""
        return {
            "name": self.name,
            "columns": list(self.columns),
            "delimiter": self.delimiter,
            "avro_schema": self.avro_schema,
            "framing": self.framing,
            "schema_id": self.schema_id,
        }

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> FileFormat:
        return cls(**{**stored, "columns": tuple(stored.get("columns", ()))})
