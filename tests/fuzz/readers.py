"""Fuzz targets for what turns bytes into rows: lines, messages and files of every format."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from eddyline.documents import jsonable
from eddyline.errors import EddylineError
from eddyline.expressions import Context
from eddyline.expressions.conversions import convert
from eddyline.model import DeadLetter, Stream
from eddyline.sources import infer_schema, json_lines
from eddyline.sources.formats import FileFormat
from eddyline.sources.ingestion import IngestedRows
from eddyline.sources.json_lines import JsonLines
from eddyline.sources.kafka_messages import MessageRows
from eddyline.sources.payloads import AvroMessages, CsvRows, unfit_for_csv
from eddyline.sources.plain_text import plainly_converted
from eddyline.sources.positions import FilePlace
from eddyline.sources.readers import UnreadableFile, open_file
from eddyline.sources.sample import propose
from eddyline.sources.static_tables import StaticTable
from eddyline.storage import read_dead_letters, write_dead_letters
from eddyline.types import parse_type

SCHEMAS = (
    "n INT, s STRING",
    "n DECIMAL(10,2), d DOUBLE, f FLOAT",
    "t TIMESTAMP, u TIMESTAMP_NTZ, v DATE",
    "l ARRAY<BIGINT>, r STRUCT<p: DECIMAL(5,1), q: STRING>, m MAP<STRING, DOUBLE>",
    "k TINYINT NOT NULL, o BINARY, b BOOLEAN",
    "w DECIMAL(38,38), x DECIMAL(38,0), y SMALLINT, z BIGINT",
)
STREAMS = [Stream("s", infer_schema(schema)) for schema in SCHEMAS]
TIME_ZONES = ("UTC", "Europe/Berlin", "EST")
_SPACE = b" \t\r\n"

AVRO_FIELDS = {
    "n": "int",
    "s": ["null", "string"],
    "d": {"type": "bytes", "logicalType": "decimal", "precision": 2000, "scale": 100},
    "t": {"type": "long", "logicalType": "timestamp-micros"},
    "v": {"type": "int", "logicalType": "date"},
    "l": {"type": "array", "items": ["null", "long"]},
    "m": {"type": "map", "values": "double"},
    "id": {"type": "string", "logicalType": "uuid"},
    "e": {"type": "enum", "name": "Side", "symbols": ["BUY", "SELL"]},
}
AVRO_SCHEMA = json.dumps(
    {"type": "record", "name": "T", "fields": [{"name": n, "type": t} for n, t in AVRO_FIELDS.items()]}
)
AVRO_STREAM = Stream(
    "s",
    infer_schema(
        "n SMALLINT, s STRING, d DECIMAL(10,2), t TIMESTAMP, v DATE, l ARRAY<INT>, m MAP<STRING, DOUBLE>, id STRING, e STRING"
    ),
)
AVRO = FileFormat("avro", avro_schema=AVRO_SCHEMA, framing="confluent", schema_id=7)


class Choices:
    """Bytes as a few choices and what is left."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def among(self, things: Sequence[Any]) -> Any:
        """One of the things, by the first byte, which printable digits and letters spell as a human would."""
        first, self.data = self.data[:1] or b"0", self.data[1:]
        return things[(first[0] - ord("0")) % len(things)]


def check_rows(found: IngestedRows, stream: Stream, n_given: int) -> None:
    """Every row that was given is a row that is sound, or a dead letter that can be written down."""
    assert found.rows.num_rows + len(found.misfits) == n_given, (n_given, found)
    assert found.rows.schema.equals(stream.schema), found.rows.schema
    found.rows.validate(full=True)
    letters = [DeadLetter(1, "s", misfit.row, misfit.error, misfit.message) for misfit in found.misfits]
    written = io.BytesIO()
    write_dead_letters(written, letters)
    assert len(read_dead_letters(pa.py_buffer(written.getvalue()))) == len(letters)
    json.dumps(jsonable([misfit.row for misfit in found.misfits])).encode()


# --------------------------------------------------------------------------------------------- lines and messages


def json_rows(folder: Path) -> Callable[[bytes], None]:
    """Lines of JSON; read as columns, they are what they are row by row."""
    json_lines._LEAST = 1  # columns for any number of lines

    def target(data: bytes) -> None:
        choices = Choices(data)
        stream, zone = choices.among(STREAMS), choices.among(TIME_ZONES)
        lines = choices.data.split(b"\n")
        alone = JsonLines(stream, zone)
        alone._columns = None
        found, judge = JsonLines(stream, zone).rows(lines, 1, "f"), alone.rows(lines, 1, "f")
        check_rows(judge, stream, sum(not _is_blank(line) for line in lines))
        check_rows(found, stream, judge.rows.num_rows + len(judge.misfits))
        assert _comparable(found) == _comparable(judge)

    return target


def _is_blank(line: bytes) -> bool:
    try:
        return not line.decode().strip()
    except UnicodeDecodeError:
        return False


def _comparable(found: IngestedRows) -> str:
    """Values, where a time may be beyond Python's, and misfits; NaN is itself."""
    columns = [c.view(pa.int64()) if pa.types.is_timestamp(c.type) else c for c in found.rows.columns]
    return repr([[c.to_pylist() for c in columns], found.misfits, found.arrival, found.change])


def csv_rows(folder: Path) -> Callable[[bytes], None]:
    """Rows of CSV for known columns."""

    def target(data: bytes) -> None:
        choices = Choices(data)
        stream, zone, delimiter = (choices.among(t) for t in (STREAMS[:3] + STREAMS[4:], TIME_ZONES, ",;\t"))
        lines = choices.data.split(b"\n")
        found = CsvRows(stream, zone, stream.schema.names, delimiter).rows(lines, 1, "f")
        check_rows(found, stream, sum(bool(line.strip(_SPACE)) for line in lines))

    return target


PLAIN_TYPES = ("INT", "BIGINT", "DOUBLE", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "DECIMAL(10,2)", "BOOLEAN")


def plain_text(folder: Path) -> Callable[[bytes], None]:
    """Text cast by Arrow is what SQL's cast makes of it."""

    def target(data: bytes) -> None:
        choices = Choices(data)
        t, zone = parse_type(choices.among(PLAIN_TYPES)), choices.among(TIME_ZONES)
        texts = pa.array(choices.data.decode(errors="replace").split("\n"))
        context = Context(time_zone=zone)
        judge = convert(texts, t, context)
        judge.values.validate(full=True)
        plain = plainly_converted(texts, t, context)
        assert plain is None or (plain.equals(judge.values) and not judge.problems), (texts, plain, judge)

    return target


def avro_messages(folder: Path) -> Callable[[bytes], None]:
    """Messages behind the id of a schema, apart by a byte that they rarely have."""
    decoder = AvroMessages(AVRO_STREAM, "UTC", AVRO)

    def target(data: bytes) -> None:
        messages = data.split(b"\x1e")
        check_rows(decoder.rows(messages, 1, "t"), AVRO_STREAM, len(messages))

    return target


class _Message:
    """What the client library hands over."""

    def __init__(self, data: bytes, offset: int) -> None:
        key, has_value, value = data.partition(b"\x1f")
        self._key, self._offset = key or None, offset
        self._value = value if has_value else None

    def key(self) -> bytes | None:
        return self._key

    def value(self) -> bytes | None:
        return self._value

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return (1, int.from_bytes((self._key or b"")[:8].rjust(8, b"\0"), "big", signed=True) // 1_000)


def kafka_messages(folder: Path) -> Callable[[bytes], None]:
    """Messages with key, value and time of their own, in every format."""
    own = ", _key STRING, _timestamp TIMESTAMP"
    streams = [Stream("s", infer_schema(SCHEMAS[k] + own)) for k in (0, 1)]
    keyed = Stream("s", infer_schema("s STRING, n INT, _key STRING NOT NULL"), key=("_key",))
    kinds = [(FileFormat(f), s) for f in ("json", "csv") for s in (*streams, keyed)]
    decoders = [(MessageRows(kind, stream, "UTC"), stream) for kind, stream in kinds]
    whole = Stream("s", pa.schema([*AVRO_STREAM.schema, pa.field("_key", pa.binary())]))
    decoders.append((MessageRows(AVRO, whole, "UTC"), whole))

    def target(data: bytes) -> None:
        choices = Choices(data)
        decoder, stream = choices.among(decoders)
        messages = [_Message(part, k) for k, part in enumerate(choices.data.split(b"\x1e"))]
        check_rows(decoder.rows(messages), stream, len(messages))

    return target


# --------------------------------------------------------------------------------------------- files


def _file(folder: Path, format_name: str, ending: str) -> Callable[[bytes], None]:
    path = folder / f"f{ending}"
    file_format = FileFormat(format_name)
    streams = [s for s in STREAMS if format_name != "csv" or not unfit_for_csv(s)]

    def target(data: bytes) -> None:
        stream = streams[len(data) % len(streams)]
        path.write_bytes(data)
        try:
            reader = open_file(path, file_format, stream, "Europe/Berlin", FilePlace())
        except (UnreadableFile, EddylineError):
            reader = None
        if reader is not None:
            try:
                while (found := reader.read(100, 1 << 16)) is not None:
                    check_rows(found, stream, found.rows.num_rows + len(found.misfits))
            except (UnreadableFile, EddylineError):
                pass
            finally:
                reader.close()
        for look in (
            lambda: propose("s", path),
            lambda: StaticTable("s", path, file_format=file_format).load(),
        ):
            try:
                look()
            except EddylineError:
                continue

    return target


def json_file(folder: Path) -> Callable[[bytes], None]:
    """A file of lines or one array."""
    return _file(folder, "json", ".json")


def csv_file(folder: Path) -> Callable[[bytes], None]:
    """A file with a header."""
    return _file(folder, "csv", ".csv")


def packed_file(folder: Path) -> Callable[[bytes], None]:
    """A compressed file of lines."""
    return _file(folder, "json", ".json.gz")


def avro_file(folder: Path) -> Callable[[bytes], None]:
    return _file(folder, "avro", ".avro")


def parquet_file(folder: Path) -> Callable[[bytes], None]:
    return _file(folder, "parquet", ".parquet")


def arrow_file(folder: Path) -> Callable[[bytes], None]:
    """An Arrow file or stream, by how it begins."""
    return _file(folder, "arrow", ".arrow")
