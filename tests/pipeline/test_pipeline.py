"""The pipeline file: what it means, and every mistake with its place."""

from __future__ import annotations

import contextlib
import re
import tomllib
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eddyline
from eddyline.api import open_pipeline
from eddyline.errors import FunctionError, PropertyError
from eddyline.functions.declarations import DECLARED
from eddyline.pipeline import (
    FileSource,
    GeneratorSource,
    PipelineError,
    StdinSource,
    check_machine,
    find_pipeline,
    folder_of,
    load_functions,
    load_pipeline,
    read_pipeline,
)
from eddyline.pipeline.locate import locate
from eddyline.routing import RoutingOptions

ROOT = Path(__file__).parents[2]
STREAM = '[streams.trades]\nschema = "sym STRING, price DOUBLE, ts TIMESTAMP"\n'


@pytest.fixture(autouse=True)
def _functions_of_this_test_only():
    before = dict(DECLARED)
    yield
    DECLARED.clear()
    DECLARED.update(before)


def read(text: str, folder: Path):
    return read_pipeline(text, folder / "eddyline.toml")


def mistakes(text: str, folder: Path) -> list[str]:
    """Each as LINE:COLUMN PROBLEM | HINT."""
    with pytest.raises(PipelineError) as refused:
        read(text, folder)
    return [
        f"{m.place.line}:{m.place.column} {m.problem}" + (f" | {m.hint}" if m.hint else "")
        for m in refused.value.mistakes
    ]


# --------------------------------------------------------------------------------------------- places


def test_keys_and_values_are_found_in_every_kind_of_table():
    text = (
        'top = 1\n[a.b]  # a comment with = and [\nx.y = "é", \n'.replace(", ", "")
        + 'inline = { p = [1, { q = "}" }], "quoted.key" = true }\n'
        "[[list]]\n"
        "n = 1\n"
        "[[list]]\n"
        "n = 2\n"
        "[list.sub]\n"
        'long = """one\ntwo"""\n'
        "when = 2026-01-01 12:00:00\n"
    )
    found = locate(text)

    def value(*path):
        span = found.values[path]
        return text[span.start : span.end]

    def key(*path):
        span = found.keys[path]
        return text[span.start : span.end]

    assert value("top") == "1"
    assert value("a", "b") == "[a.b]"
    assert (key("a", "b", "x", "y"), value("a", "b", "x", "y")) == ("y", '"é"')
    assert value("a", "b", "inline", "p") == '[1, { q = "}" }]'
    assert value("a", "b", "inline", "p", 1, "q") == '"}"'
    assert key("a", "b", "inline", "quoted.key") == '"quoted.key"'
    assert [value("list", 0, "n"), value("list", 1, "n")] == ["1", "2"]
    assert value("list", 1, "sub", "long") == '"""one\ntwo"""'
    assert value("list", 1, "sub", "when") == "2026-01-01 12:00:00"


names = st.text(st.sampled_from("ab. é\"\\'"), min_size=1, max_size=4)
plain = st.one_of(
    st.integers(-9, 9),
    st.booleans(),
    st.floats(-9, 9),
    st.text(st.sampled_from('ab"#\\\n[]{}=,é\t'), max_size=6),
)
nested = st.recursive(
    plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3), max_leaves=8
)


def quoted(text: str) -> str:
    for character, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\t", "\\t")):
        text = text.replace(character, escaped)
    return f'"{text}"'


def written(value) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, list):
        return "[" + ", ".join(map(written, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{quoted(k)} = {written(v)}" for k, v in value.items()) + "}"
    return repr(value)


def leaves(value, path=()):
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (*path, key), inner
            yield from leaves(inner, (*path, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield (*path, number), inner
            yield from leaves(inner, (*path, number))


@given(
    st.dictionaries(names, nested, max_size=4),
    st.dictionaries(names, st.dictionaries(names, nested, max_size=3), max_size=3),
)
def test_every_value_is_found_where_it_is_written(top, tables):
    tables = {name: body for name, body in tables.items() if name not in top}
    text = "".join(f"{quoted(k)} = {written(v)} # {k!r}\n" for k, v in top.items())
    for name, body in tables.items():
        text += f"[ {quoted(name)} ]\n" + "".join(f" {quoted(k)}= {written(v)}\n" for k, v in body.items())
    meant = tomllib.loads(text)
    found = locate(text)
    assert found.twice == []
    for path, value in leaves(meant):
        span = found.values[path]
        shown = text[span.start : span.end]
        if len(path) > 1 or path[0] in top:
            assert tomllib.loads(f"v = {shown}")["v"] == value, path


# --------------------------------------------------------------------------------------------- what it means


def test_an_empty_file_is_a_pipeline(tmp_path):
    pipeline = read("", tmp_path)
    assert pipeline.engine.home == tmp_path / "home"
    assert (pipeline.streams, pipeline.sinks, pipeline.functions) == ((), (), ())


def test_everything_that_can_be_said_is_read(tmp_path):
    (tmp_path / "rules").mkdir()
    for name in ("b.sql", "a.sql", "watch.template"):
        (tmp_path / "rules" / name).write_text("SELECT sym FROM trades")
    (tmp_path / "watches.csv").write_text("user,sym\nann,A\n")
    (tmp_path / "quotes.sql").write_text(
        "CREATE TABLE quotes (sym STRING, bid DOUBLE) TBLPROPERTIES (note = 'x')"
    )
    pipeline = read(
        """
        [engine]
        home = "state/home"
        time_zone = "Europe/Berlin"
        seed = 7
        tick = "1 minute"
        retention = { results = "2 days", result_bytes = "1 GB", dead_letters = "1 hour", versions = "90 days", round_count = 7 }

        [streams.trades]
        schema = "sym STRING NOT NULL, price DOUBLE, ts TIMESTAMP"
        time = "TS"
        lateness = "5 seconds"
        [streams.trades.source]
        type = "files"
        path = "in"
        format = "csv"
        glob = "*.txt"
        poll = "200 ms"
        columns = ["sym", "price"]
        delimiter = ";"

        [streams.quotes]
        ddl = "quotes.sql"
        source = { type = "stdin", format = "csv", every = "1 second" }

        [streams.made.schema]
        sym = "STRING"
        n = "INT NOT NULL"

        [functions]
        modules = "scores"

        [rules]
        files = ["rules/*.sql", "rules/a.sql"]

        [[rules.tables]]
        name = "watch-{user}"
        template = "rules/watch.template"
        file = "watches.csv"
        key = "user"
        properties = { owner = "ops" }

        [[sinks]]
        type = "stdout"
        format = "text"

        [[sinks]]
        name = "alerts"
        type = "file"
        path = "out"
        format = "parquet"
        queries = ["cheap", "watch-*"]
        streams = ["Trades"]
        start = "beginning"
        every = "1 minute"
        bytes_per_file = "1 MB"

        [limits]
        results_per_query = 5
        result_bytes = "1 MB"
        rows_per_round = 500
        bytes_per_round = "2 MB"
        """,
        tmp_path,
    )
    engine = pipeline.engine
    assert (engine.home, engine.time_zone, engine.seed) == (tmp_path / "state/home", "Europe/Berlin", 7)
    assert engine.tick_us == 60_000_000
    assert (engine.retention.results_us, engine.retention.result_bytes) == (2 * 86_400_000_000, 1 << 30)
    assert engine.retention.captures_us == 86_400_000_000
    assert (engine.retention.versions_us, engine.retention.version_count) == (90 * 86_400_000_000, 10_000)
    assert (engine.retention.rounds_us, engine.retention.round_count) == (30 * 86_400_000_000, 7)
    assert (engine.limits.results_per_query, engine.limits.result_bytes) == (5, 1 << 20)
    assert (pipeline.limits.rows_per_round, pipeline.limits.bytes_per_round) == (500, 2 << 20)
    trades, quotes, made = pipeline.streams
    assert (trades.stream.time, trades.stream.lateness_us) == ("ts", 5_000_000)
    assert trades.source == FileSource("in", "csv", "*.txt", 200_000, ("sym", "price"), ";")
    assert quotes.stream.schema.names == ["sym", "bid"]
    assert quotes.source == StdinSource("csv", every_us=1_000_000)
    assert made.stream.schema == pa.schema(
        [pa.field("sym", pa.string()), pa.field("n", pa.int32(), nullable=False)]
    )
    assert made.source is None
    assert pipeline.functions == ("scores",)
    assert pipeline.rules.files == (tmp_path / "rules/a.sql", tmp_path / "rules/b.sql")
    [table] = pipeline.rules.tables
    assert (table.name, table.key, table.file) == ("watch-{user}", ("user",), tmp_path / "watches.csv")
    assert (table.template, table.properties) == ("SELECT sym FROM trades", {"owner": "ops"})
    screen, alerts = pipeline.sinks
    assert (screen.name, screen.format, screen.queries) == ("stdout", "text", ())
    assert (alerts.path, alerts.format, alerts.queries, alerts.start) == (
        "out",
        "parquet",
        ("cheap", "watch-*"),
        "beginning",
    )
    assert (alerts.every_us, alerts.bytes_per_file) == (60_000_000, 1 << 20)


def test_routing_is_a_name_or_a_table_of_options_and_the_engine_gets_them(tmp_path):
    assert read('[engine]\nrouting = "sweep"', tmp_path).engine.routing == "sweep"
    options = 'policy = "a_greedy"\ncost_mode = "declared"\nsample = 0.01'
    pipeline = read(f"[engine.routing]\n{options}", tmp_path)
    with open_pipeline(pipeline) as engine:
        assert engine.rounds.routing == RoutingOptions("a_greedy", profile_rate=0.01, cost_mode="declared")


def test_a_generator_says_how_each_column_is_made(tmp_path):
    pipeline = read(
        """
        [streams.t]
        schema = "a INT, b STRING, c TIMESTAMP, d DOUBLE, e STRING, f ARRAY<INT>"
        [streams.t.source]
        type = "generator"
        rate = 50
        rows = 1000
        seed = 3
        columns.a = { uniform = [1, 6], nulls = 0.5 }
        columns.b = { choice = ["x", "y"], weights = [1, 2.5] }
        columns.c = { time = 2026-01-01T00:00:00Z, jitter = "1 second" }
        columns.D = { normal = [10, 2], decimals = 2 }
        """,
        tmp_path,
    )
    source = pipeline.streams[0].source
    assert isinstance(source, GeneratorSource)
    assert (source.rate, source.rows, source.seed) == (50.0, 1000, 3)
    by_column = {column.column: column for column in source.columns}
    assert (by_column["a"].kind, by_column["a"].low, by_column["a"].high, by_column["a"].nulls) == (
        "uniform",
        1,
        6,
        0.5,
    )
    assert (by_column["b"].values, by_column["b"].weights) == (("x", "y"), (1.0, 2.5))
    assert (by_column["c"].start_us, by_column["c"].step_us) == (1_767_225_600_000_000, 20_000)
    assert (by_column["d"].kind, by_column["d"].decimals) == ("normal", 2)
    assert by_column["e"].kind == "choice"
    assert by_column["f"].values == (None,)


# --------------------------------------------------------------------------------------------- mistakes


def blocks() -> list[tuple[str, list[str]]]:
    """The blocks of pipeline_mistakes.txt: what somebody wrote, and what is wrong with it."""
    text = (Path(__file__).parent / "pipeline_mistakes.txt").read_text(encoding="utf-8")
    found = []
    for block in text.split("\n\n")[1:]:
        lines = block.strip("\n").split("\n")
        written = [line for line in lines if not line.startswith("--> ")]
        found.append(
            ("\n".join(written) + "\n", [line.removeprefix("--> ") for line in lines[len(written) :]])
        )
    return found


@pytest.mark.parametrize(("text", "expected"), blocks(), ids=range(len(blocks())))
def test_a_mistake_is_told_with_its_place_and_a_way_out(text, expected, tmp_path):
    (tmp_path / "trades.sql").write_text("CREATE TABLE trades (sym STRING)")
    (tmp_path / "kafka.sql").write_text("CREATE TABLE fast (a INT) USING kafka")
    (tmp_path / "delta.sql").write_text("CREATE TABLE fast (a INT) USING delta")
    (tmp_path / "here").mkdir()
    assert mistakes(text, tmp_path) == expected


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file(tmp_path):
    text = (
        "[engine]\nhmoe = 1\ntick = 'x'\n[streams.t]\nschema = 'a INT, b BAD'\n"
        "[[sinks]]\ntype = 'fiel'\nstreams = ['u']\n[limits]\nrows = 1\n"
    )
    assert [m.split(" ")[0] for m in mistakes(text, tmp_path)] == [
        "2:1",
        "3:8",
        "5:10",
        "7:8",
        "8:12",
        "10:1",
    ]


def test_a_mistake_in_a_ddl_file_is_told_in_that_file(tmp_path):
    (tmp_path / "t.sql").write_text("CREATE TABLE t (\n  a INT,\n  b STRONG\n)")
    with pytest.raises(PipelineError) as refused:
        read("[streams.t]\nddl = 't.sql'\n", tmp_path)
    [mistake] = refused.value.mistakes
    assert (mistake.place.file, mistake.place.line, mistake.place.column) == (tmp_path / "t.sql", 3, 5)


def test_the_message_points_at_the_place(tmp_path):
    with pytest.raises(PipelineError) as refused:
        read(STREAM + 'time = "tz"\n[engine]\ntik = "1 s"\n', tmp_path)
    file = tmp_path / "eddyline.toml"
    assert str(refused.value) == (
        f"{file} has 2 mistakes\n"
        f"{file}:3:8: stream trades has no column tz, which is given as its time\n"
        '  time = "tz"\n'
        "         ^^^^\n"
        "  hint: Known: price, sym, ts.\n"
        f"{file}:5:1: there is no key tik in [engine]\n"
        "  tik …\n"
        "  ^^^\n"
        "  hint: Did you mean tick?"
    )
    assert refused.value.mistakes[0].as_dict() == {
        "file": str(file),
        "line": 3,
        "column": 8,
        "problem": "stream trades has no column tz, which is given as its time",
        "detail": None,
        "hint": "Known: price, sym, ts.",
    }


def test_a_value_behind_an_unknown_key_is_not_shown(tmp_path):
    with pytest.raises(PipelineError) as refused:
        read('[engine]\npassword = "hunter2"\n', tmp_path)
    assert "hunter2" not in str(refused.value)
    with pytest.raises(PipelineError) as refused:
        read('[engine]\npassword = "hunter2" oops\n', tmp_path)
    assert "hunter2" not in str(refused.value)


def test_a_file_that_is_not_utf8_or_not_there_is_refused(tmp_path):
    (tmp_path / "bad.toml").write_bytes(b"[engine]\nhome = '\xff'\n")
    with pytest.raises(PipelineError) as refused:
        load_pipeline(tmp_path / "bad.toml")
    assert str(refused.value.mistakes[0]).startswith(f"{tmp_path / 'bad.toml'}:2:9: this is not UTF-8")
    with pytest.raises(PropertyError, match="cannot read"):
        load_pipeline(tmp_path / "none.toml")


def test_windows_line_ends_and_a_mark_at_the_beginning_do_not_matter(tmp_path):
    (tmp_path / "eddyline.toml").write_bytes(b"\xef\xbb\xbf[engine]\r\nseed = 3\r\n")
    assert load_pipeline(tmp_path / "eddyline.toml").engine.seed == 3


@given(st.text(st.sampled_from("[]{}=.,\"'#\n abcsinktreams01é\\${}:"), max_size=60))
def test_no_text_does_more_than_be_refused(text):
    with contextlib.suppress(PipelineError):
        read(text, Path("/nowhere"))


# --------------------------------------------------------------------------------------------- finding and opening


def test_the_file_is_found_here_above_or_where_it_is_named(tmp_path, monkeypatch):
    (tmp_path / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a" / "b")
    assert find_pipeline(tmp_path) is None
    (tmp_path / "eddyline.toml").write_text("")
    assert find_pipeline() == tmp_path / "eddyline.toml"
    assert find_pipeline(tmp_path) == tmp_path / "eddyline.toml"
    assert find_pipeline("../..") == Path.cwd() / "../../eddyline.toml"
    assert find_pipeline(tmp_path / "eddyline.toml") == tmp_path / "eddyline.toml"
    assert find_pipeline(tmp_path / "a") is None


def test_paths_start_at_the_folder_of_the_file(tmp_path):
    pipeline = read("", tmp_path)
    assert folder_of(pipeline, "in") == tmp_path / "in"
    assert folder_of(pipeline, "/data/in") == Path("/data/in")
    assert folder_of(pipeline, "~/in") == Path.home() / "in"


def test_folders_of_sources_are_checked_by_the_machine_that_runs_it(tmp_path):
    text = STREAM + "source = { type = 'files', path = 'in', format = 'json' }\n"
    pipeline = read(text, tmp_path)
    with pytest.raises(PipelineError) as refused:
        check_machine(pipeline)
    assert [f"{m.place.line}:{m.place.column} {m.problem}" for m in refused.value.mistakes] == [
        "3:35 the folder in of stream trades does not exist"
    ]
    (tmp_path / "in").mkdir()
    check_machine(pipeline)


def test_opening_imports_the_functions_and_changes_nothing(tmp_path):
    (tmp_path / "my_scores.py").write_text(
        "import eddyline\n\n@eddyline.udf(returns='int', scalar=True)\ndef my_score(n):\n    return n\n"
    )
    pipeline = read(
        "[functions]\nmodules = ['my_scores']\n[engine]\ntime_zone = 'Asia/Tokyo'\n" + STREAM, tmp_path
    )
    with open_pipeline(pipeline, home=tmp_path / "other") as engine:
        assert "my_score" in DECLARED
        assert engine.rounds.time_zone == "Asia/Tokyo"
        assert engine.version == 0
    assert (tmp_path / "other" / "catalog.db").exists()


def test_two_pipelines_may_each_have_a_module_of_the_same_name(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "same_name.py").write_text(
            f"import eddyline\n\n@eddyline.udf(returns='int', scalar=True)\ndef from_{name}(n):\n    return n\n"
        )
        load_functions(read("[functions]\nmodules = ['same_name']\n", tmp_path / name))
    assert {"from_one", "from_two"} <= set(DECLARED)


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ("def (:\n", "SyntaxError"),
        ("1 / 0\n", "ZeroDivisionError: division by zero"),
        ("import not_there_at_all\n", "not_there_at_all"),
    ],
)
def test_a_module_that_cannot_be_imported_is_an_error_of_functions(tmp_path, body, detail):
    (tmp_path / "broken_module.py").write_text(body)
    with pytest.raises(FunctionError) as refused:
        load_functions(read("[functions]\nmodules = ['broken_module']\n", tmp_path))
    assert refused.value.problem == "module broken_module with functions cannot be imported"
    assert detail in refused.value.detail


# --------------------------------------------------------------------------------------------- the page and the example


def toml_blocks() -> list[tuple[str, str]]:
    found = []
    for page in ("pipeline.md", "webhooks.md"):
        text = (ROOT / "docs" / page).read_text(encoding="utf-8")
        for m in re.finditer(r"^```toml\n(.*?)^```$", text, re.M | re.S):
            line = text.count("\n", 0, m.start()) + 2
            found.append((f"{page} line {line}", m[1]))
    return found


@pytest.fixture
def described(tmp_path):
    """The files the page speaks of."""
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "cheap.sql").write_text(
        "CREATE VIEW cheap AS SELECT sym FROM trades WHERE price < 10"
    )
    (tmp_path / "rules" / "watch.sql").write_text("SELECT sym FROM trades WHERE sym = :sym")
    (tmp_path / "watches.csv").write_text("user,sym\nann,A\n")
    (tmp_path / "trades.sql").write_text("CREATE TABLE trades (sym STRING, price DOUBLE, ts TIMESTAMP)")
    return tmp_path


@pytest.mark.parametrize(("place", "text"), toml_blocks(), ids=[place for place, _ in toml_blocks()])
def test_every_example_of_the_pages_is_accepted(place, text, described):
    read(text, described)


def test_the_page_names_every_key():
    page = (ROOT / "docs" / "pipeline.md").read_text(encoding="utf-8")
    from eddyline.pipeline import generated, sinks, streams
    from eddyline.pipeline import read as reading

    keys = {
        *reading._ENGINE,
        *reading._RETENTION,
        *reading._LIMITS,
        *reading._RULES,
        *reading._RULES_TABLE,
        *sinks._SINK,
    }
    keys |= {*streams.STREAM_KEYS, *(key for keys in streams._SOURCES.values() for key in keys)}
    keys |= {
        *generated._OPTIONS,
        *(key for keys in generated._OPTIONS.values() for key in keys),
        "nulls",
        "modules",
    }
    assert sorted(key for key in keys if f"`{key}`" not in page) == []


def test_the_example_pipelines_are_accepted():
    examples = sorted((ROOT / "examples").glob("*/eddyline.toml"))
    assert examples
    for example in examples:
        pipeline = load_pipeline(example)
        engine = eddyline.open()
        for settings in pipeline.streams:
            engine._declare(settings.stream)
