"""What starts with `import eddyline` and with a command: nothing that is not needed yet. Modules are counted, not seconds."""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
from collections.abc import Iterator

import pytest

import eddyline
from eddyline import kernels
from eddyline.catalog import names
from eddyline.cli.arguments import build
from eddyline.cli.completion import NAMES_FILE
from eddyline.cli.main import handler_of
from eddyline.kernels.deferred import Deferred

pytestmark = pytest.mark.thorough

# What a command that opens no engine has no use for.
HEAVY = {"numpy", "pyarrow", "pandas", "numba", "sqlglot", "scipy", "sqlite3", "rich", "httpx", "pyspark"}
ENGINE = {
    "api",
    "catalog",
    "control",
    "delivery",
    "engine",
    "explain",
    "filters",
    "joins",
    "kernels",
    "model",
    "sql",
}


def _loaded(statement: str) -> set[str]:
    """The modules a new process has loaded after a statement."""
    code = f"import sys\n{statement}\nprint(*sys.modules, file=sys.stderr)"
    return set(
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stderr.split()
    )


def _rooms(loaded: set[str]) -> set[str]:
    return {name.split(".")[1] for name in loaded if name.startswith("eddyline.")}


def test_importing_the_package_loads_neither_the_engine_nor_its_libraries() -> None:
    loaded = _loaded("import eddyline")
    assert {name for name in loaded if name.startswith("eddyline")} == {"eddyline", "eddyline.version"}
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


def test_an_engine_that_was_only_opened_has_not_loaded_numba() -> None:
    loaded = _loaded("import eddyline; eddyline.open().close()")
    assert not loaded & {
        "numba",
        "llvmlite",
        "scipy",
        "datasketches",
        "pandas",
        "polars",
        "rich",
        "httpx",
        "pyspark",
    }
    assert {name for name in loaded if name.startswith("eddyline.kernels.")} == {
        "eddyline.kernels.deferred",
        "eddyline.kernels.layouts",
    }


def test_every_kernel_that_the_door_offers_is_in_its_module() -> None:
    deferred = [value for value in vars(kernels).values() if isinstance(value, Deferred)]
    assert deferred
    for each in deferred:
        module = importlib.import_module(f"eddyline.kernels.{each.module}")
        assert callable(getattr(module, each.name)), each


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        [],
        ["version"],
        ["version", "--json"],
        ["run", "--help"],
        ["completion", "bash"],
        ["nonsense"],
    ],
    ids=" ".join,
)
def test_a_command_that_opens_no_engine_loads_none(words: list[str]) -> None:
    loaded = _loaded(f"from eddyline.cli import main; main({words})")
    assert not loaded & HEAVY
    assert not _rooms(loaded) & ENGINE


def test_the_client_loads_documents_and_no_engine() -> None:
    loaded = _loaded("import eddyline.client")
    assert not loaded & (HEAVY - {"httpx", "rich"})
    assert not _rooms(loaded) & ENGINE


def test_documents_load_neither_the_engine_nor_its_libraries() -> None:
    loaded = _loaded("import eddyline.documents")
    assert _rooms(loaded) == {"documents", "errors", "events", "notebook", "version"}
    assert not loaded & HEAVY


def test_a_command_loads_only_the_module_that_runs_it() -> None:
    loaded = _loaded("from eddyline.cli import main; main(['init', '--json', '/proc/none/demo'])")
    assert "eddyline.cli.project" in loaded
    assert not _rooms(loaded) & ENGINE
    assert not loaded & {f"eddyline.cli.{name}" for name in ("queries", "running", "serve", "session", "top")}


def test_completing_names_loads_nothing_of_the_package() -> None:
    run = (
        f"sys.argv[1:] = ['query', 'eddyline', '']; runpy.run_path({str(NAMES_FILE)!r}, run_name='__main__')"
    )
    assert str(NAMES_FILE) == names.__file__
    assert not {name for name in _loaded(f"import runpy; {run}") if name.startswith(("eddyline", "pyarrow"))}


def test_what_runs_a_command_is_there() -> None:
    runs = list(_runs(build()))
    assert len(set(runs)) == len(runs)
    assert all(callable(handler_of(run)) for run in runs)


def _runs(parser: argparse.ArgumentParser) -> Iterator[str]:
    """What runs each command that is not a group of others."""
    groups = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    if not groups:
        yield parser.get_default("run")
    for group in groups:
        for below in group.choices.values():
            yield from _runs(below)


def test_every_public_name_is_there_and_listed() -> None:
    assert set(eddyline.__all__) <= set(dir(eddyline))
    assert all(getattr(eddyline, name) is not None for name in eddyline.__all__)


def test_a_name_that_is_not_there_is_said_by_name() -> None:
    with pytest.raises(AttributeError, match="module 'eddyline' has no attribute 'Engin'"):
        _ = eddyline.Engin  # type: ignore[attr-defined]
