"""Static tables: data that does not change until a new version of it is loaded.

A table is read whole: from a Parquet, Arrow, CSV or JSON file, from a folder of such files (of Parquet with the columns that
folder names like `day=2026-01-01` add), or from data in hand, as a Spark DataFrame gives with `toArrow()`. Its *version* tells
whether that is still what was read: names, sizes and times of change of the files, or a hash of the data in hand; and which
columns are read of it.

A static table is right or refused, since no source sends a row of it again: a row that does not fit, a key that is NULL or there
twice, is an error of the whole.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.choices import FILE_ENDINGS
from eddyline.errors import SchemaError, did_you_mean
from eddyline.model import Stream
from eddyline.sources.formats import FileFormat
from eddyline.sources.ingestion import Misfit, as_table, infer_schema, ingest
from eddyline.sources.positions import FilePlace, SourceError
from eddyline.sources.readers import UNREADABLE, UnreadableFile, open_file
from eddyline.sources.sample import propose
from eddyline.types import DOUBLE, is_floating, python_rows

TABLE_FORMATS = ("parquet", "arrow", "csv", "json")
TRIES = 3  # to read files that do not change meanwhile
_COLUMNAR = ("parquet", "arrow")
_ROWS_AT_ONCE, _BYTES_AT_ONCE = 1 << 20, 1 << 28

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class TableRows:
    """All rows of one version of a static table."""

    rows: pa.RecordBatch
    version: str


@dataclass(frozen=True, slots=True)
class StaticTableChange:
    """The step from one version to the next: deleted rows, by their key or as they are, then rows that are written."""

    rows: pa.RecordBatch
    is_delete: Mask


class StaticTable:
    """A named table, and where its rows are."""

    def __init__(
        self,
        name: str,
        source: Any,
        *,
        schema: pa.Schema | None = None,
        key: Sequence[str] = (),
        file_format: FileFormat | None = None,
        time_zone: str = "UTC",
    ) -> None:
        """`source` is the path of a file or folder, or data in hand. Without a schema, it has the one of the data.

        With one, other columns of the data are left out.
        """
        self.name = name
        self._path = Path(source) if isinstance(source, (str, os.PathLike)) else None
        self._data = None if self._path is not None else as_table(source)
        if self._path is None and self._data is None:
            raise SchemaError(
                f"{type(source).__name__} is no data for table {name}",
                hint="Give a path, an Arrow table, a pandas or Polars DataFrame, or toArrow() of one of Spark.",
            )
        self._format = file_format
        self._time_zone = time_zone
        self._declared = None if schema is None else infer_schema(schema)
        self.schema = self._own_schema() if self._declared is None else self._declared
        self.key = tuple(_spelt(name, self.schema, column) for column in key)

    # ----------------------------------------------------------------------------------------- versions

    def version(self) -> str:
        """Of what is there now, whether it was read or not."""
        if self._data is not None:
            states = [_content_hash(self._data)]
        else:
            folder, files = self._files()
            states = [f"{file.relative_to(folder)} {_state(self.name, file)}" for file in files]
        columns = sorted(f"{f.name.lower()} {f.type}" for f in self.schema)
        version_text = "\n".join([str(self._path), *self.key, *columns, *states])
        return hashlib.blake2s(version_text.encode(), digest_size=16).hexdigest()

    def load(self) -> TableRows:
        """Read it. Raises SourceError if it cannot be read now, SchemaError if what is there is wrong."""
        for _ in range(TRIES):
            version = self.version()
            rows = self._read()
            if self.version() == version:
                self._check_key(rows)
                return TableRows(rows, version)
        raise SourceError(
            f"table {self.name} was changed while it was read, {TRIES} times",
            hint="Write its files elsewhere and rename them when they are complete.",
        )

    def change(self, before: pa.RecordBatch, after: pa.RecordBatch) -> StaticTableChange:
        """What leads from one load to the next. With a key, rows whose keys are missing are deleted, and rows
        that are new or differ are written; without a key, all old rows are deleted and all new ones written."""
        deleted_rows, new_rows = before, after
        if self.key:
            gone_at, same_at = _compared(before, after, self.key)
            deleted_rows = before.take(pa.array(gone_at))
            if len(same_at):
                new_rows = after.take(pa.array(np.setdiff1d(np.arange(after.num_rows), same_at)))
        is_delete = np.repeat([True, False], [deleted_rows.num_rows, new_rows.num_rows])
        return StaticTableChange(pa.concat_batches([deleted_rows, new_rows]), is_delete)

    # ----------------------------------------------------------------------------------------- reading

    def _read(self) -> pa.RecordBatch:
        if self._data is not None:
            return self._in_schema(self._data)
        folder, files = self._files()
        kind = self._format_of(files)
        if kind.name in _COLUMNAR:
            return self._in_schema(self._columns(folder, files, kind))
        return self._from_rows(files, kind)

    def _in_schema(self, data: pa.Table) -> pa.RecordBatch:
        written = {name.lower(): name for name in data.schema.names}
        self._check_columns(list(written))
        data = data.select([written[f.name.lower()] for f in self.schema])
        ingested = ingest(self._stream(), data, self._time_zone)
        self._check_fit(ingested.misfits)
        return ingested.rows

    def _from_rows(self, files: Sequence[Path], kind: FileFormat) -> pa.RecordBatch:
        """Files of lines or records, of which each row may or may not fit."""
        batches = []
        for file in files:
            try:
                reader = open_file(file, kind, self._stream(), self._time_zone, FilePlace())
                try:
                    while (ingested := reader.read(_ROWS_AT_ONCE, _BYTES_AT_ONCE)) is not None:
                        self._check_fit(ingested.misfits)
                        lacking = set(ingested.change.missing)
                        self._check_columns([n.lower() for n in self.schema.names if n not in lacking])
                        batches.append(ingested.rows)
                finally:
                    reader.close()
            except UnreadableFile as error:
                raise self._unreadable(f"{file.name}: {error}") from None
        if not batches:
            return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in self.schema], schema=self.schema)
        return pa.concat_batches(batches)

    def _own_schema(self) -> pa.Schema:
        if self._data is not None:
            return infer_schema(self._data.schema)
        folder, files = self._files()
        kind = self._format_of(files)
        if kind.name in _COLUMNAR:
            return infer_schema(self._columns(folder, files, kind).schema)
        delimiter = kind.delimiter if kind.name == "csv" else None
        return propose(
            self.name, files[0], file_format=kind.name, delimiter=delimiter, time_zone=self._time_zone
        ).schema

    def _columns(self, folder: Path, files: Sequence[Path], kind: FileFormat) -> pa.Table:
        """What files of columns hold; of a table that was declared, only its columns, if the format lets others be."""
        import pyarrow.dataset  # loads pandas

        try:
            if kind.name == "arrow":
                tables = [_arrow_table(file) for file in files]
                return pa.concat_tables(tables, promote_options="default")
            found = pyarrow.dataset.dataset(
                [str(file) for file in files],
                format="parquet",
                partitioning=pyarrow.dataset.partitioning(flavor="hive"),
                partition_base_dir=str(folder),
            )
            declared_names = (
                None if self._declared is None else {name.lower() for name in self._declared.names}
            )
            columns = [
                name
                for name in found.schema.names
                if declared_names is None or name.lower() in declared_names
            ]
            table = found.to_table(columns=columns)
            table.validate(full=True)
            return table
        except UNREADABLE as error:
            raise self._unreadable(str(error)) from None

    def _files(self) -> tuple[Path, list[Path]]:
        """The folder, and its files in the order of their names; those that begin with a dot or an underscore are left alone."""
        assert self._path is not None
        if not self._path.exists():
            raise SourceError(
                f"there is no {self._path.name} for table {self.name}",
                hint="Write the file or folder, or mend the path.",
            )
        if self._path.is_file():
            return self._path.parent, [self._path]
        files = []
        for place, folders, names in os.walk(self._path):
            folders[:] = sorted(name for name in folders if name[0] not in "._")
            files += [Path(place) / name for name in names if name[0] not in "._" and self._is_wanted(name)]
        if not files:
            raise SourceError(
                f"there is no file in {self._path.name} for table {self.name}",
                hint=f"Files end in {', '.join(ending for kind in TABLE_FORMATS for ending in FILE_ENDINGS[kind])}.",
            )
        return self._path, sorted(files)

    def _is_wanted(self, file: str) -> bool:
        return _format_of(file) is not None if self._format is None else _format_of(file) == self._format.name

    def _format_of(self, files: Sequence[Path]) -> FileFormat:
        """The one way in which all files are written."""
        if self._format is not None:
            return self._format
        found = sorted({str(_format_of(file.name)) for file in files})
        if found == ["None"]:
            raise SourceError(
                f"{files[0].name} of table {self.name} does not say how it is written",
                hint="Name the format, or let the name end in .parquet, .arrow, .csv or .json.",
            )
        if len(found) > 1:
            raise SourceError(
                f"the files of table {self.name} are written in several ways: {', '.join(found)}",
                hint="Name the format of those that are meant.",
            )
        return FileFormat(found[0])

    # ----------------------------------------------------------------------------------------- what is wrong

    def _check_columns(self, names: Sequence[str]) -> None:
        missing = [f.name for f in self.schema if f.name.lower() not in names]
        if missing:
            raise SchemaError(
                f"table {self.name} has no column {missing[0]} in its data",
                detail=f"missing: {', '.join(missing)}; there are: {', '.join(names) or 'none'}.",
                hint=did_you_mean(missing[0], names, noun="column"),
            )

    def _check_fit(self, misfits: Sequence[Misfit]) -> None:
        if misfits:
            row = ", ".join(f"{name} = {value!r}" for name, value in misfits[0].row.items())
            raise SchemaError(
                f"a row of table {self.name} does not fit: {misfits[0].message}",
                detail=f"The row: {row}.",
                hint="Mend the data, or declare the column otherwise.",
            )

    def _check_key(self, rows: pa.RecordBatch) -> None:
        if not self.key:
            return
        for name in self.key:
            if rows.column(name).null_count:
                raise SchemaError(
                    f"key column {name} of table {self.name} is NULL in {rows.column(name).null_count} rows",
                    hint="Leave such rows out, or choose another key.",
                )
        counted = _comparable(rows, self.key).group_by(list(self.key)).aggregate([([], "count_all")])
        again = counted.filter(pc.greater(counted.column("count_all"), 1))
        if len(again):
            first = python_rows(again.slice(0, 1))[0]
            shown = ", ".join(f"{name} = {first[name]!r}" for name in self.key)
            raise SchemaError(
                f"table {self.name} has {first['count_all']} rows with {shown}",
                detail=f"{len(again)} of its keys are there more than once.",
                hint="Only one row of a key can stand: leave out the others, or choose another key.",
            )

    def _unreadable(self, why: str) -> SourceError:
        why = why.splitlines()[0].replace(f"{self._path}/", "").replace(str(self._path), self.name)
        return SourceError(
            f"table {self.name} cannot be read", detail=f"{why[:300].rstrip('.')}.", hint="It is tried again."
        )

    def _stream(self) -> Stream:
        """What readers take for the declaration."""
        return Stream(self.name, self.schema)


def _spelt(table: str, schema: pa.Schema, column: str) -> str:
    for name in schema.names:
        if name.lower() == column.lower():
            return str(name)
    raise SchemaError(
        f"table {table} has no column {column}, which is to be its key",
        hint=did_you_mean(column, schema.names, noun="column"),
    )


def _format_of(file: str) -> str | None:
    """The format that the name of a file speaks of."""
    return next((kind for kind in TABLE_FORMATS if FileFormat(kind).has_ending(file)), None)


def _arrow_table(file: Path) -> pa.Table:
    """All of an Arrow file or an Arrow stream."""
    with pa.OSFile(str(file)) as opened:
        is_file = opened.read(6) == b"ARROW1"
        opened.seek(0)
        table = (pa.ipc.open_file if is_file else pa.ipc.open_stream)(opened).read_all()
    table.validate(full=True)
    return table


def _state(table: str, file: Path) -> str:
    try:
        found = file.stat()
    except OSError as error:
        raise SourceError(
            f"table {table} cannot be read",
            detail=f"{file.name}: {error.strerror}.",
            hint="It is tried again.",
        ) from None
    return f"{found.st_size} {found.st_mtime_ns}"


def _content_hash(data: pa.Table) -> str:
    sink = pa.BufferOutputStream()
    data = data.replace_schema_metadata(None).combine_chunks()
    with pa.ipc.new_stream(sink, data.schema) as writer:
        writer.write_table(data)
    return hashlib.blake2s(sink.getvalue(), digest_size=16).hexdigest()


def _comparable(rows: pa.RecordBatch, key: Sequence[str]) -> pa.Table:
    """Key columns in which equal keys have equal bits: one zero, one NaN."""
    columns = {}
    for name in key:
        values = rows.column(name)
        if is_floating(values.type):
            values = pc.add(values, pa.scalar(0.0, values.type))
            values = pc.if_else(pc.is_nan(values), pa.scalar(float("nan"), values.type), values)
        columns[name] = values
    return pa.table(columns)


def _compared(
    before: pa.RecordBatch, after: pa.RecordBatch, key: Sequence[str]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Rows of the first whose key the second does not have; rows of the second that the first has just so. In both, no key is
    there twice."""
    n_before, n_after = before.num_rows, after.num_rows
    both = pa.concat_tables([_comparable(before, key), _comparable(after, key)])
    placed = both.append_column("#place", pa.array(np.arange(n_before + n_after)))
    ends = placed.group_by(list(key)).aggregate([("#place", "min"), ("#place", "max")])
    first, last = (ends.column(name).to_numpy() for name in ("#place_min", "#place_max"))
    met = np.flatnonzero((first < n_before) & (last >= n_before))
    old, new = first[met], last[met] - n_before
    is_same = np.ones(len(met), dtype=bool)
    for field in after.schema:
        is_same &= _same(
            before.column(field.name).take(pa.array(old)), after.column(field.name).take(pa.array(new))
        )
    return np.sort(last[last < n_before]), new[is_same]


def _same(old: pa.Array, new: pa.Array) -> Mask:
    """Where values certainly are the same, to the last bit; of values that cannot be compared so, nowhere."""
    if is_floating(old.type):
        bits = pa.int64() if old.type == DOUBLE else pa.int32()
        old, new = old.view(bits), new.view(bits)
    try:
        equal = pc.fill_null(pc.equal(old, new), False)
    except pa.ArrowNotImplementedError:
        return np.zeros(len(old), dtype=bool)
    both_null = pc.and_(old.is_null(), new.is_null())
    return np.asarray(pc.or_(equal, both_null).to_numpy(zero_copy_only=False), dtype=bool)
