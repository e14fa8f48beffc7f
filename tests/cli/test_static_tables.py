"""Static tables of a pipeline file, from the shell."""

from __future__ import annotations

import json

PIPELINE = """
[streams.trades]
schema = "sym STRING, n INT"
source = { type = "files", path = "in", format = "json" }
[tables.rates]
path = "rates.csv"
key = "sym"
schema = "sym STRING, rate DOUBLE"
[rules]
files = ["rules.sql"]
[[sinks]]
type = "stdout"
format = "jsonl"
"""


def test_run_joins_rows_with_the_table_that_lies_beside_the_pipeline_file(shell, tmp_path):
    (tmp_path / "eddyline.toml").write_text(PIPELINE)
    (tmp_path / "rules.sql").write_text(
        "CREATE VIEW priced AS SELECT t.n, r.rate FROM trades t JOIN rates r ON t.sym = r.sym"
    )
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text('{"sym": "A", "n": 1}\n{"sym": "B", "n": 2}\n')
    assert shell("eddyline plan").code == 0
    missing = shell("eddyline run --once")
    assert missing.code == 1
    assert "eddyline.toml:6:8: there is no rates.csv for table rates" in missing.err
    (tmp_path / "rates.csv").write_text("sym,rate\nA,1.5\nC,3\n")
    said = shell("eddyline run --once --log-level info")
    assert said.code == 0, said.err
    assert [(row["n"], row["rate"]) for row in map(json.loads, said.out.splitlines())] == [(1, 1.5)]
    assert "TableLoaded: table rates, n_rows 2, n_changed 2, n_deleted 0" in said.err
    (tmp_path / "rates.csv").write_text("sym,rate\nA,1.5\nA,3\n")
    wrong = shell("eddyline run --once")
    assert wrong.code == 0
    assert "table rates keeps the rows it has: table rates has 2 rows with sym = 'A'" in wrong.err
