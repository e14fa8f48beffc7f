"""What stands at the end of a random script, by DuckDB: one query over whole rows. It shares no code with the reference."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from typing import Any

import duckdb
import pyarrow as pa

from tests.aggregates.written_values import written_row

TYPES = {
    "k": pa.string(), "v": pa.int64(), "x": pa.float64(), "d": pa.decimal128(6, 2), "b": pa.bool_(),
    "ts": pa.timestamp("us", "UTC"), "g": pa.int64(), "number": pa.int64(), "is_late": pa.bool_(),
}  # fmt: skip
SECONDS = {"second": 1, "minute": 60, "hour": 3600}
Script = Mapping[str, Any]


class DuckDBAnswers:
    """The rows of a script in DuckDB."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._lateness_us = _lateness_us(script["streams"][0])
        self._connection = duckdb.connect(config={"threads": 1})
        self._connection.execute("SET TimeZone = 'UTC'")
        for name, rows in (("s", list(self._stream_rows())), ("t", list(self._table_rows().values()))):
            columns = list(zip(*rows, strict=True)) or [[]] * len(TYPES)
            arrays = [_array(column, type_) for column, type_ in zip(columns, TYPES.values(), strict=True)]
            self._connection.register(name, pa.table(arrays, names=list(TYPES)))

    def close(self) -> None:
        self._connection.close()

    def queries(self) -> Iterator[tuple[str, Mapping[str, Any], int]]:
        """Those that live at the end and that DuckDB can answer: name, query, first round."""
        live = {query["name"]: (query, 0) for query in self._script["queries"]}
        n_rounds = 0
        for step in self._script["steps"]:
            live.pop(step.get("drop"), None)
            if "add" in step:
                live[step["add"]["name"]] = step["add"], n_rounds
            n_rounds += "tick" in step or "push" in step
        yield from ((n, q, first) for n, (q, first) in live.items() if "judge" in q and first < n_rounds)

    def answer(self, query: Mapping[str, Any], first: int) -> list[list[Any]]:
        """The rows of a query that came with this round, as the vectors write them."""
        judge, is_final = query["judge"], query.get("properties", {}).get("emit") == "final"
        is_stream = judge["source"] == "s"
        conditions = [f"({judge['where'] or 'true'})", *([f"number >= {first}"] if is_stream else [])]
        if judge["form"] != "groups":
            conditions += ["ts IS NOT NULL", "NOT is_late"]
        rows = f"SELECT * FROM {judge['source']} WHERE {' AND '.join(conditions)}"
        if judge["form"] == "over":
            return self._found(_over(judge, rows))
        windows, group = self._in_time(judge, rows)
        keys = [f"({key})" for key in judge["keys"]]
        columns = [*keys, *group, *(f"{value} AS f{at}" for at, value in enumerate(judge["values"]))]
        text = f"SELECT {', '.join(columns)} FROM ({windows})"
        text += f" GROUP BY {', '.join([*keys, *self._identity(judge)])}" if keys or group else ""
        having = [f"({judge['having'] or 'true'})", *([self._closed(judge)] if is_final else [])]
        text += f" HAVING {' AND '.join(having)}"
        return self._found(text, "ts NULLS FIRST, g" if is_stream else "g")

    def _found(self, text: str, order: str = "ts, g") -> list[list[Any]]:
        found = self._connection.sql(text.replace("{order}", order).replace("now()", self._now()))
        return [written_row(row.values()) for row in found.to_arrow_table().to_pylist()]

    # ----------------------------------------------------------------------------------------- time

    def _in_time(self, judge: Mapping[str, Any], rows: str) -> tuple[str, list[str]]:
        """Rows with their window or session, and the columns of its start and end."""
        if judge["form"] == "windows":
            size, slide, offset = _spec_us(judge["spec"])
            last = f"epoch_us(ts) - (((epoch_us(ts) - {offset}) % {slide}) + {slide}) % {slide}"
            starts = (
                f"SELECT *, unnest(range({last}, epoch_us(ts) - {size}, -{slide})) AS start_us FROM ({rows})"
            )
            return starts, ["make_timestamptz(start_us) AS ws", f"make_timestamptz(start_us + {size}) AS we"]
        if judge["form"] == "sessions":
            gap = _us(judge["spec"][0])
            by = f"PARTITION BY {', '.join(judge['keys'])}" if judge["keys"] else ""
            over = f"OVER ({by} ORDER BY ts, g)"
            marked = f"SELECT *, epoch_us(ts) - lag(epoch_us(ts)) {over} > {gap} AS is_new FROM ({rows})"
            numbered = f"SELECT *, count(CASE WHEN is_new THEN 1 END) {over} AS session FROM ({marked})"
            return numbered, ["min(ts) AS ws", f"make_timestamptz(max(epoch_us(ts)) + {gap}) AS we"]
        return rows, []

    def _identity(self, judge: Mapping[str, Any]) -> list[str]:
        return {"windows": ["start_us"], "sessions": ["session"]}.get(judge["form"], [])

    def _closed(self, judge: Mapping[str, Any]) -> str:
        """Whether the watermark at the end of the script has closed a window."""
        watermark = f"(SELECT max(epoch_us(ts)) - {self._lateness_us} FROM s)"
        if judge["form"] == "sessions":
            return f"max(epoch_us(ts)) + {_us(judge['spec'][0])} < {watermark}"
        return f"start_us + {_spec_us(judge['spec'])[0]} <= {watermark}"

    def _now(self) -> str:
        last = next(
            t for step in reversed(self._script["steps"]) if (t := step.get("tick") or step.get("now"))
        )
        return f"TIMESTAMPTZ '{last}'"

    # ----------------------------------------------------------------------------------------- rows

    def _stream_rows(self) -> Iterator[tuple[Any, ...]]:
        watermark: int | None = None
        for number, step in enumerate(
            step for step in self._script["steps"] if "tick" in step or "push" in step
        ):
            rows = [(g, _row(values)) for g, *values in step.get("push", {}).get("s", [])]
            for g, row in rows:
                is_late = watermark is not None and row[5] is not None and row[5] < watermark
                yield (*row, g, number, is_late)
            times = [row[5] - self._lateness_us for _, row in rows if row[5] is not None]
            watermark = max([*times, *([] if watermark is None else [watermark])], default=None)

    def _table_rows(self) -> dict[int, tuple[Any, ...]]:
        found: dict[int, tuple[Any, ...]] = {}
        for step in self._script["steps"]:
            for g, key, *values, is_gone in step.get("push", {}).get("t", []):
                found.pop(key, None)
                if is_gone is not True:
                    found[key] = (*_row(values), g, 0, False)
        return found


def _over(judge: Mapping[str, Any], rows: str) -> str:
    """A row for each row r, with values over the rows of its partition that came before it and are not after it by time."""
    same = [f"x.{key} IS NOT DISTINCT FROM r.{key}" for key in judge["keys"]]
    before = ["x.g <= r.g", "(x.ts < r.ts OR (x.ts = r.ts AND x.g <= r.g))", *same]
    back = "row_number() OVER (PARTITION BY r.g ORDER BY x.ts DESC, x.g DESC) - 1 AS back"
    pairs = f"SELECT x.*, r.g AS r_g, r.ts AS r_ts, {back} FROM r JOIN r AS x ON {' AND '.join(before)}"
    joined, columns = "r", ["r.k", "r.v", "r.ts"]
    for at, (value, frame) in enumerate(zip(judge["values"], judge["frames"], strict=True)):
        framed = f"SELECT r_g, {value} AS o{at} FROM pairs WHERE {frame} GROUP BY r_g"
        joined += f" JOIN ({framed}) AS f{at} ON f{at}.r_g = r.g"
        columns.append(f"o{at}")
    text = f"WITH r AS MATERIALIZED ({rows}), pairs AS MATERIALIZED ({pairs}) SELECT {', '.join(columns)} FROM {joined}"
    return text + (f" WHERE {judge['having']}" if judge["having"] else "")


def _row(values: list[Any]) -> tuple[Any, ...]:
    """k, v, x, d, b and microseconds."""
    k, v, x, d, b, ts = values
    at = None if ts is None else datetime.datetime.fromisoformat(ts)
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    micros = None if at is None else (at - epoch) // datetime.timedelta(microseconds=1)
    return k, v, None if x is None else float(x), d, b, micros


def _array(values: Any, type_: pa.DataType) -> pa.Array:
    return (
        pa.array(values, pa.string()).cast(type_) if pa.types.is_decimal(type_) else pa.array(values, type_)
    )


def _us(text: str) -> int:
    n, unit = text.split()
    return int(n) * SECONDS[unit.rstrip("s")] * 1_000_000


def _spec_us(spec: tuple[str, ...]) -> tuple[int, int, int]:
    size, *rest = map(_us, spec)
    return size, rest[0] if rest else size, rest[1] if len(rest) > 1 else 0


def _lateness_us(stream: str) -> int:
    _, _, after = stream.partition("lateness='")
    return _us(after.split("'")[0]) if after else 0
