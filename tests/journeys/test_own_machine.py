"""A user on a machine of their own: a project in the shell, then the same engine in Python."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path

import pandas as pd
import pytest

import eddyline
from eddyline import EddylineError
from tests.journeys.conftest import Shell

FIRST_MS = 1_790_000_000_000


def test_a_project_from_init_runs_changes_and_goes_on_where_it_was(shell: Shell, tmp_path: Path) -> None:
    assert shell("init", "demo").code == 0
    shell.folder = project = tmp_path / "demo"
    first = shell("run", "--once")
    assert first.code == 0, first.err
    for result in (
        "big: sym=BYTE, worth=65000.0",
        "cheap: sym=ACME, price=9.5",
        "cheap: sym=DATA, price=7.75",
    ):
        assert result in first.out

    rule = project / "rules" / "cheap.sql"
    rule.write_text(rule.read_text().replace("price < 10", "price < 8"))
    planned = shell("plan")
    assert planned.code == 0
    assert "price < 10" in planned.out
    assert "price < 8" in planned.out
    trade = {"sector": "TECH", "qty": 1, "ts": "2026-01-05 09:31:00"}
    rows = [{"sym": "EDGE", "price": 9.0, **trade}, {"sym": "FLUX", "price": 7.0, **trade}]
    (project / "data" / "more.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    second = shell("run", "--once")
    assert (second.code, "cheap: sym=FLUX, price=7.0" in second.out) == (0, True)
    assert "EDGE" not in second.out
    assert "ACME" not in second.out  # that was delivered

    everything = shell("tail", "cheap", "--no-follow", "--json")
    assert [line["row"]["sym"] for line in everything.lines] == ["ACME", "DATA", "FLUX"]
    asked = shell("why", "cheap", "sym=EDGE", "sector=TECH", "price=9.0")
    assert "price < 8" in asked.out
    assert "price = 9.0" in asked.out


def test_ten_thousand_matches_are_all_there_and_still_after_reopening(tmp_path: Path) -> None:
    with eddyline.open(tmp_path / "home") as engine:
        engine.sql("CREATE TABLE trades (sym STRING, n INT, price DOUBLE)")
        engine.sql("CREATE VIEW cheap AS SELECT sym, n FROM trades WHERE price < 10")
        cheap = engine.get("cheap")
        matches = engine.push(
            "trades", [{"sym": f"S{n % 7}", "n": n, "price": 5.0 + n % 2 * 20} for n in range(20_000)]
        )
        assert matches.count == 10_000
        found = cheap.results()
        assert (len(found), found.n_dropped) == (10_000, 0)
        assert [result["n"] for result in found] == list(range(0, 20_000, 2))
        assert cheap.results() == []  # all of them are read
    with eddyline.open(tmp_path / "home") as engine:
        cheap = engine.get("cheap")
        assert (len(cheap.results()), cheap.n_results) == (10_000, 10_000)
        assert [result["n"] for result in cheap.latest(3)] == [19_994, 19_996, 19_998]
        table = cheap.to_arrow()
        assert (table.column_names, table.num_rows) == (["sym", "n"], 10_000)
        assert cheap.to_pandas().equals(table.to_pandas())
        assert cheap.to_polars()["n"].sum() == sum(range(0, 20_000, 2))
        third = cheap.latest(3)[0].cursor
        assert cheap.to_arrow(after=third)["n"].to_pylist() == [19_996, 19_998]


def test_results_are_awaited_while_another_thread_pushes() -> None:
    with eddyline.open() as engine:
        engine.stream("trades", "n INT")
        cheap = engine.query("SELECT n FROM trades WHERE n < 1000", name="cheap")

        def produce() -> None:
            for start in range(0, 2000, 100):
                engine.push("trades", [{"n": n} for n in range(start, start + 100)])

        async def listen() -> list[int]:
            heard = []
            async for result in cheap:
                heard.append(result["n"])
                if result["n"] == 999:
                    break
            return heard

        producer = threading.Thread(target=produce)
        producer.start()
        assert asyncio.run(asyncio.wait_for(listen(), 60)) == list(range(1000))
        producer.join()


@pytest.mark.usefixtures("own_functions")
def test_mistakes_are_told_with_a_way_out(tmp_path: Path) -> None:
    with eddyline.open() as engine:
        engine.stream("trades", "sym STRING, price DOUBLE")
        cheap = engine.query("SELECT sym FROM trades WHERE price < 10", name="cheap")
        unknown = [{"sym": "A", "prise": 1.0}]
        for data in (unknown, pd.DataFrame(unknown)):
            with pytest.raises(EddylineError, match="stream trades has no column prise") as refused:
                engine.push("trades", data)
            assert "Did you mean price?" in str(refused.value)
        missing = [{"sym": "A"}]
        for data in (missing, pd.DataFrame(missing)):
            assert engine.push("trades", data).count == 0  # a price that is not there is NULL
        with pytest.raises(EddylineError, match="int cannot be pushed to trades"):
            engine.push("trades", 5)
        with pytest.raises(EddylineError, match="5 cannot be called") as refused:
            cheap.on_result(5)  # type: ignore[arg-type]
        assert "query.on_result(print)" in str(refused.value)
        with pytest.raises(EddylineError, match="there is no stream trade"):
            engine.push("trade", unknown)

        @eddyline.udf(returns="double")
        def halved(price):
            return float(price) / 2

        engine.query("SELECT halved(price) AS half FROM trades", name="half")
        engine.push("trades", [{"sym": "A", "price": 3.0}])
        (letter,) = engine.dead_letters(query="half")
        assert "its parameters have no annotations" in letter.message

    with pytest.raises(EddylineError, match="is not a local folder, and a home is one"):
        eddyline.open("s3://bucket/home")
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(EddylineError, match="is no home, and holds other files") as refused:
        eddyline.open(tmp_path)
    assert "create=True" in str(refused.value)


def test_columns_called_like_words_of_sql_joins_by_using_and_times_in_milliseconds() -> None:
    with eddyline.open() as engine:
        orders = engine.stream(
            "orders",
            "card STRING, `order` INT, `group` STRING, `end` INT, `window` INT, `limit` DOUBLE, `offset` INT, ts BIGINT",
            time="ts",
            time_unit="ms",
            lateness="1 second",
        )
        engine.stream("cards", "card STRING, owner STRING", key="card")
        odd = engine.query(
            "SELECT order, group, end, window, limit, offset FROM orders WHERE order > 1 AND limit < 5"
        )
        owned = engine.query("SELECT card, owner, order FROM orders JOIN cards USING (card)")
        engine.push("cards", [{"card": "c1", "owner": "ann"}])
        row = {"card": "c1", "order": 2, "group": "g", "end": 3, "window": 4, "limit": 4.5, "offset": 6}
        engine.push("orders", [row | {"ts": FIRST_MS + 10_000}])
        engine.push("orders", [row | {"order": 1, "ts": FIRST_MS}])  # ten seconds behind
        assert odd.results() == [{"order": 2, "group": "g", "end": 3, "window": 4, "limit": 4.5, "offset": 6}]
        assert owned.results()[0] == {"card": "c1", "owner": "ann", "order": 2}
        assert (orders.watermark_us, orders.n_late) == ((FIRST_MS + 9_000) * 1_000, 1)

        engine.stream("guessed", "n INT, ts BIGINT", time="ts")
        with pytest.warns(UserWarning, match=r"looks like milliseconds: declare time_unit = 'ms'"):
            engine.push("guessed", [{"n": 1, "ts": FIRST_MS}])


def test_devices_that_all_fall_silent_are_told() -> None:
    now_s = [FIRST_MS // 1000]
    with eddyline.open(clock=lambda: now_s[0] * 1_000_000) as engine:
        engine.stream("readings", "device STRING, ts BIGINT", time="ts", time_unit="ms", idle="1 minute")
        silent = engine.query(
            "SELECT a.device FROM readings a LEFT ANTI JOIN readings b"
            " ON a.device = b.device AND b.ts > a.ts AND b.ts <= a.ts + 600000",
            name="silent",
            per="device",
            resolve="1 hour",
            message="{device} says nothing",
        )
        said: list[str] = []
        engine.on_message(lambda message: said.append(message.message))
        for _ in range(3):
            now_s[0] += 60
            engine.push("readings", [{"device": d, "ts": now_s[0] * 1000} for d in ("boiler", "pump")])
        assert silent.results() == []
        for _ in range(12):
            now_s[0] += 60
            engine.tick()
        assert sorted(result["device"] for result in silent.results()) == ["boiler", "pump"]
        assert sorted(said) == ["boiler says nothing", "pump says nothing"]
