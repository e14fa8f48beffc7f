"""UNION ALL beside Spark: the types of columns, and the values they become."""

from __future__ import annotations

import datetime
import decimal
import itertools

import pytest

import eddyline
from eddyline.errors import TypeMismatchError
from eddyline.types import type_name

VALUES = {
    "TINYINT": ("1", 1),
    "SMALLINT": ("300", 300),
    "INT": ("70000", 70_000),
    "BIGINT": ("5000000000", 5_000_000_000),
    "FLOAT": ("0.5", 0.5),
    "DOUBLE": ("0.1", 0.1),
    "DECIMAL(10,2)": ("12.34", decimal.Decimal("12.34")),
    "DECIMAL(38,10)": ("0.5", decimal.Decimal("0.5000000000")),
    "STRING": ("'a'", "a"),
    "BOOLEAN": ("true", True),
    "DATE": ("'2026-01-02'", datetime.date(2026, 1, 2)),
    "TIMESTAMP": ("'2026-01-02 03:04:05Z'", datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)),
    "TIMESTAMP_NTZ": ("'2026-01-02 03:04:05'", datetime.datetime(2026, 1, 2, 3, 4, 5)),
}


def test_columns_of_a_union_are_those_of_spark(spark):
    from pyspark.errors import AnalysisException

    names = {f"c{k}": t for k, t in enumerate(VALUES)}
    columns = ", ".join(f"CAST({VALUES[t][0]} AS {t}) AS {name}" for name, t in names.items())
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    spark.sql(f"SELECT {columns}").createOrReplaceTempView("w")
    engine = eddyline.open()
    engine.sql(f"CREATE TABLE w ({', '.join(f'{name} {t}' for name, t in names.items())})")
    expected, queries, refused = {}, {}, []
    for one, other in itertools.product(names, repeat=2):
        union = f"SELECT {one} AS v FROM w UNION ALL SELECT {other} FROM w UNION ALL SELECT NULL FROM w"
        texts = f"SELECT CAST(v AS STRING) AS v FROM ({union}) u"
        try:
            query = engine.query(union)
        except TypeMismatchError:
            refused.append((one, other))
            continue
        queries[one, other] = query, engine.query(texts)
        expected[one, other] = spark.sql(union).schema[0].dataType.simpleString(), spark.sql(texts)
    engine.push("w", [tuple(value for _, value in VALUES.values())])
    for pair, (query, texts) in queries.items():
        expected_type, frame = expected[pair]
        assert type_name(query.schema.field("v").type).lower() == expected_type, pair
        found = sorted(str(result["v"]) for result in texts.results())
        assert found == sorted(str(row.v) for row in frame.collect()), pair
    assert len(queries) == 8 * 8 + 3 * 3 + 2  # numbers, times, and each of the others with itself
    for one, other in refused:
        if "STRING" not in (names[one], names[other]):  # which Spark converts, and we do nowhere
            with pytest.raises(AnalysisException):
                spark.sql(f"SELECT {one} FROM w UNION ALL SELECT {other} FROM w").collect()
