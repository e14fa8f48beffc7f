"""What starts with `import eddyline`: nothing that is not needed yet. Modules are counted, not seconds."""

from __future__ import annotations

import subprocess
import sys

import pytest

import eddyline


def _loaded(statement: str) -> set[str]:
    """The modules a new process has loaded after a statement."""
    code = f"import sys\n{statement}\nprint(*sys.modules)"
    return set(
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.split()
    )


def test_importing_the_package_loads_neither_the_engine_nor_its_libraries() -> None:
    loaded = _loaded("import eddyline")
    assert {name for name in loaded if name.startswith("eddyline")} == {"eddyline"}
    assert not loaded & {"numpy", "pyarrow", "pandas", "numba", "sqlglot", "sqlite3"}


def test_the_engine_loads_without_pandas_spark_and_web_servers() -> None:
    loaded = _loaded("from eddyline import Engine, open")
    assert "eddyline.api" in loaded
    assert not loaded & {
        "pandas",
        "polars",
        "pyspark",
        "py4j",
        "fastapi",
        "uvicorn",
        "httpx",
        "confluent_kafka",
    }


def test_every_public_name_is_there_and_listed() -> None:
    assert set(eddyline.__all__) <= set(dir(eddyline))
    assert all(getattr(eddyline, name) is not None for name in eddyline.__all__)


def test_a_name_that_is_not_there_is_said_by_name() -> None:
    with pytest.raises(AttributeError, match="module 'eddyline' has no attribute 'Engin'"):
        _ = eddyline.Engin  # type: ignore[attr-defined]
