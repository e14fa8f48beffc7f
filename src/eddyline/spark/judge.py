"""Plain Spark SQL as a judge: the user's own text over its rows, independent of the engine.

The rows become a temporary view with the name of the stream, in a session of their own on the Spark that runs: settings, views
and functions of the caller's session are neither seen nor changed. Of a join, every input has a view that holds its one row; of
a union, those that other parts read than the one that gave the result have views without rows. ANSI
mode is on, the time zone is the home's, parameters are Spark's own, users' functions are Spark UDFs around the same Python
functions, but for those that are not deterministic, which are not called again. Nothing of eddyline's expressions or filters
takes part.
"""

from __future__ import annotations

import contextlib
import importlib.util
import pickle
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from eddyline.errors import EddylineError, ProofError
from eddyline.functions import DECLARED, UserFunction
from eddyline.proof import (
    ARRIVAL,
    INPUT,
    Claim,
    JudgeFinding,
    JudgeStopped,
    Proof,
    SparkText,
    claim_of,
    departure_proof,
    proof_of,
    replayed_claim,
    spark_text,
)
from eddyline.spark.session import local_session, stop_session
from eddyline.spark.session_check import checked_session
from eddyline.types import MONTHS, array_of, canonical

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FindFunction = Callable[[str, str], UserFunction | None]
_N_MONTHS = "CAST(12 * extract(YEAR FROM {0}) + extract(MONTH FROM {0}) AS INT)"
_judging = threading.Lock()  # one at a time: the logger below is shared


def prove(
    receipt: Mapping[str, Any],
    *,
    session: SparkSession | None = None,
    find_function: FindFunction | None = None,
    on_wait: Callable[[str], None] | None = None,
) -> Proof:
    """Run the text of a receipt over its row and compare. Raises ProofError if Spark cannot judge it, with the reason.

    Runs on the session that is given, or on the one this process has; otherwise one is started here, which `on_wait` reports, and
    stopped again. Functions are those of this process, unless `find_function` knows better.
    """
    claim = claim_of(receipt)
    judged_claim, _ = replayed_claim(claim)
    refuse_unjudged(judged_claim, find_function or declared_function)  # before anything is started for it
    judged_text = spark_text(judged_claim).text
    with _session(session, claim.time_zone, on_wait) as spark:
        began = time.perf_counter()
        judge = SparkJudge(spark, find_function)
        try:
            found = judge.finding(claim)
        except JudgeStopped as stopped:
            note = (
                f"Spark stops with an error: {stopped} In eddyline a condition that is settled beats an error, whatever "
                "their order (docs/sql.md)."
            )
            empty = claim.results.slice(0, 0)
            found = JudgeFinding(claim.matches[:0], empty, _name(spark), judged_text, (note,))
        proof = proof_of(receipt["id"], claim, found, time.perf_counter() - began)
        return departure_proof(proof, receipt, judge)


class SparkJudge:
    """Judges claims on a Spark that runs."""

    def __init__(self, session: SparkSession, find_function: FindFunction | None = None) -> None:
        self._session = session
        self._own: SparkSession | None = None  # where views and functions are made
        self._find = find_function or declared_function

    def finding(self, claim: Claim) -> JudgeFinding:
        """What Spark makes of a claim's rows. Raises ProofError if it cannot judge it, JudgeStopped if it fails on a row."""
        claim, notes = replayed_claim(claim)
        functions = refuse_unjudged(claim, self._find)
        spark_query = spark_text(claim)
        with _judging, _spark_errors(spark_query.text):
            own = self._own_session()
            for name, function in functions.items():
                _register(own, name, function)
            if claim.inputs:
                return self._join_finding(own, claim, spark_query, notes)
            if not spark_query.matching:
                return self._row_findings(own, claim, spark_query, notes)
            rows = _frame(own, claim.rows.append_column(ARRIVAL, pa.array(claim.arrivals)))
            own.conf.set("spark.sql.session.timeZone", claim.time_zone)
            matches = self._matches(own, rows, claim, spark_query)
            rows.drop(ARRIVAL).createOrReplaceTempView(f"`{claim.stream}`")
            results = _arrow(own.sql(spark_query.text, args=spark_query.args))
            own.catalog.dropTempView(claim.stream)
        if results.num_rows != len(matches):
            raise ProofError(
                f"Spark gives {results.num_rows} results for {len(matches)} rows that match",
                text=spark_query.text,
            )
        return JudgeFinding(matches, results, _name(own), spark_query.text, (*spark_query.notes, *notes))

    def _row_findings(
        self, own: SparkSession, claim: Claim, spark_query: SparkText, notes: tuple[str, ...]
    ) -> JudgeFinding:
        """A text with queries inside it, over one row at a time: it gives one row, or none if that does not match."""
        results, is_match = [], np.zeros(len(claim.arrivals), dtype=bool)
        own.conf.set("spark.sql.session.timeZone", "UTC")
        frames = [_frame(own, claim.rows.slice(at, 1)) for at in range(len(claim.arrivals))]
        own.conf.set("spark.sql.session.timeZone", claim.time_zone)
        for at, frame in enumerate(frames):
            frame.createOrReplaceTempView(f"`{claim.stream}`")
            results.append(_arrow(own.sql(spark_query.text, args=spark_query.args)))
            is_match[at] = results[-1].num_rows > 0
            own.catalog.dropTempView(claim.stream)
        found = pa.concat_tables(results) if results else claim.results.slice(0, 0)
        matches = np.asarray(claim.arrivals)[is_match]
        return JudgeFinding(matches, found, _name(own), spark_query.text, (*spark_query.notes, *notes))

    def _join_finding(
        self, own: SparkSession, claim: Claim, spark_query: SparkText, notes: tuple[str, ...]
    ) -> JudgeFinding:
        """A join over the rows of one result: it gives one row, or none if they do not match."""
        views = [INPUT.format(k) for k in range(1, len(claim.inputs) + 1)]
        tables = [entry.rows for entry in claim.inputs]
        row = None if claim.group is None else claim.group.row
        if claim.group is not None and row is not None:
            tables = [tables[0].append_column(ARRIVAL, pa.array(claim.group.arrivals))]
        frames = [_frame(own, table) for table in tables]
        own.conf.set("spark.sql.session.timeZone", claim.time_zone)
        for view, frame in zip(views, frames, strict=True):
            frame.createOrReplaceTempView(view)
        found = own.sql(spark_query.text, args=spark_query.args)
        results = _arrow(found) if row is None else _arrow(_of_row(found, row))
        for view in views:
            own.catalog.dropTempView(view)
        if results.num_rows > 1:
            raise ProofError(
                f"Spark gives {results.num_rows} results for one row of each stream", text=spark_query.text
            )
        is_outer = claim.group is None
        without = [
            e.alias for e in claim.inputs if is_outer and not e.rows.num_rows and not e.is_of_other_part
        ]
        missing = (f"That no row of {', '.join(without)} matches is taken as the receipt has it.",)
        all_notes = (*spark_query.notes, *notes, *(missing if without else ()))
        return JudgeFinding(
            claim.arrivals[: results.num_rows], results, _name(own), spark_query.text, all_notes
        )

    def _own_session(self) -> SparkSession:
        if self._own is None:
            self._own = self._session.newSession()
            self._own.conf.set("spark.sql.ansi.enabled", "true")
        self._own.conf.set("spark.sql.session.timeZone", "UTC")  # PySpark takes instants by way of it
        return self._own

    def _matches(self, own: SparkSession, rows: DataFrame, claim: Claim, spark_query: SparkText) -> Any:
        """Arrival numbers of the rows the text holds for. A single partition keeps their order, here and in the results."""
        rows.createOrReplaceTempView(f"`{claim.stream}`")
        found = own.sql(spark_query.matching, args=spark_query.args).toArrow()
        return np.asarray(found.column(0).to_numpy()).astype(np.int64)


def _name(session: SparkSession) -> str:
    return f"Spark {session.version}"


# --------------------------------------------------------------------------------------------- sessions


def is_installed() -> bool:
    """Whether PySpark is there."""
    return importlib.util.find_spec("pyspark") is not None


def running_session() -> SparkSession | None:
    """The Spark session of this process, if there is one; PySpark is not imported to find out."""
    if "pyspark" not in sys.modules:
        return None
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if SparkContext._active_spark_context is None:
        return None
    try:
        return checked_session(SparkSession(SparkContext._active_spark_context)).session
    except EddylineError:  # it has just ended, or is none that rounds could run on
        return None


@contextlib.contextmanager
def _session(
    session: SparkSession | None, time_zone: str, on_wait: Callable[[str], None] | None
) -> Iterator[SparkSession]:
    running = session or running_session()
    if running is not None:
        yield running
        return
    try:
        started = local_session(app_name="eddyline prove", time_zone=time_zone, on_wait=on_wait)
    except EddylineError as error:
        raise ProofError(
            "there is no Spark to prove it with", detail=f"{error.problem}.", hint=error.hint
        ) from error
    try:
        yield started
    finally:
        stop_session(started)


@contextlib.contextmanager
def _spark_errors(text: str) -> Iterator[None]:
    """Errors of Spark as ours, and without the stacks of Java that PySpark prints for a text it refuses."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import AnalysisException, ParseException, PySparkException
    from pyspark.logger import PySparkLogger

    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    was_disabled, logger.disabled = logger.disabled, True
    try:
        yield
    except (AnalysisException, ParseException) as error:
        raise ProofError("Spark does not accept this text", detail=_error_line(error), text=text) from error
    except (PySparkException, Py4JError) as error:
        raise JudgeStopped(_error_line(error)) from error
    finally:
        logger.disabled = was_disabled


def _error_line(error: Exception) -> str:
    """What Spark says, in a line."""
    lines = [line.strip() for line in str(error).splitlines()]
    message = next((line for line in lines if line.startswith("[")), None) or next(filter(None, lines), "")
    return message[:300] or type(error).__name__


# --------------------------------------------------------------------------------------------- rows and functions


def _frame(session: SparkSession, rows: pa.Table) -> DataFrame:
    """Rows in one partition."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return session.createDataFrame(rows, from_arrow_schema(rows.schema, prefer_timestamp_ntz=True)).coalesce(
        1
    )


def _of_row(found: DataFrame, arrival: int) -> DataFrame:
    """The result of one row of those over frames: the first column has their numbers, and no other whose name begins alike is the
    user's."""
    names = [f"c{k}" for k in range(len(found.columns))]
    own = [name for name, given in zip(names, found.columns, strict=True) if not given.startswith(ARRIVAL)]
    return found.toDF(*names).where(f"{names[0]} = {arrival}").select(*own)


def _arrow(frame: DataFrame) -> pa.Table:
    """The rows of a frame. Months, which PySpark does not turn into Arrow, are taken as numbers and made months again."""
    from pyspark.sql.types import YearMonthIntervalType

    names = [f"c{k}" for k in range(len(frame.columns))]
    months = {
        name
        for name, field in zip(names, frame.schema.fields, strict=True)
        if isinstance(field.dataType, YearMonthIntervalType)
    }
    counted = [_N_MONTHS.format(f"CAST({n} AS INTERVAL YEAR TO MONTH)") if n in months else n for n in names]
    found = frame.toDF(*names).selectExpr(*counted).toArrow()
    for k, name in enumerate(names):
        if name in months:
            values = [None if n is None else pa.MonthDayNano([n, 0, 0]) for n in found.column(k).to_pylist()]
            found = found.set_column(k, name, pa.array(values, MONTHS))
    return found


def declared_function(name: str, version: str) -> UserFunction | None:
    """A function of this process in exactly this version."""
    found = DECLARED.get(name.lower())
    return found if found is not None and found.version == version else None


def refuse_unjudged(claim: Claim, find: FindFunction) -> dict[str, UserFunction]:
    """The functions a claim calls, all of them deterministic. Raises ProofError if one is not here as it was then."""
    found: dict[str, UserFunction] = {}
    for called in claim.functions:
        assert called.is_deterministic, f"{called.name} would be called again"
        function = find(called.name, called.version)
        if function is None:
            now = DECLARED.get(called.name.lower())
            has = "It is not declared here." if now is None else f"This process has version {now.version}."
            raise ProofError(
                f"function {called.name} in version {called.version} is not in this process",
                detail=has,
                hint="Import the module that declares it as it was then, such as [functions] of the pipeline file.",
            )
        found[called.name] = function
    return found


def _register(session: SparkSession, name: str, function: UserFunction) -> None:
    from pyspark.sql.functions import arrow_udf
    from pyspark.sql.pandas.types import from_arrow_type

    returns = from_arrow_type(function.returns, prefer_timestamp_ntz=True)
    session.udf.register(name, arrow_udf(_arrow_call(function), returns))


def _arrow_call(function: UserFunction) -> Callable[..., pa.Array]:
    """The Python function, called with Arrow arrays as it wants its arguments. A worker finds its module as this process did."""
    from pyspark import cloudpickle

    packed, paths = cloudpickle.dumps(function), list(sys.path)
    ready: list[tuple[UserFunction, tuple[Any, ...]]] = []

    def call(*columns: pa.Array) -> pa.Array:
        if not ready:
            sys.path.extend(path for path in paths if path not in sys.path)
            loaded: UserFunction = pickle.loads(packed)
            ready.append((loaded, () if loaded.setup is None else (loaded.setup(),)))
        declared, first = ready[0]
        takes = declared.takes or tuple(canonical(column.type) or column.type for column in columns)
        arguments = [column.cast(t) for column, t in zip(columns, takes, strict=True)]
        if declared.mode == "scalar":
            rows = zip(*(column.to_pylist() for column in arguments), strict=True)
            found = [declared.function(*first, *row) for row in rows]
        elif declared.mode == "pandas":
            found = declared.function(*first, *(column.to_pandas() for column in arguments))
        else:
            found = declared.function(*first, *arguments)
        if isinstance(found, pa.ChunkedArray):
            found = found.combine_chunks()
        if not isinstance(found, pa.Array):
            found = array_of(found, declared.returns, from_pandas=declared.mode == "pandas" or None)
        assert len(found) == len(columns[0]), f"{declared.name}: {len(found)} values for {len(columns[0])}"
        return found.cast(declared.returns)

    return call


__all__ = ["SparkJudge", "is_installed", "prove", "refuse_unjudged", "running_session"]
