"""A sink that takes alerts and gets none is named, wherever rules are looked at."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.thorough

PAGER = """
[[sinks]]
name = "pager"
type = "webhook"
url = "http://127.0.0.1:1/"
allow_private = true
"""
UNFED = (
    "warning: sink pager takes alerts, and no query is an alert: it will send nothing. Make a query an alert: "
    "TBLPROPERTIES (deliver = 'pager', per = 'COLUMN'); or send all results: takes = \"results\" in line {} of eddyline.toml\n"
)
ALERT = (
    "CREATE OR REPLACE VIEW {name} TBLPROPERTIES ({properties}) AS SELECT sym FROM trades WHERE price < 0;\n"
)


@pytest.fixture
def pager(project):
    with open(project / "eddyline.toml", "a") as file:
        file.write(PAGER)
    return project


def test_plan_apply_run_and_doctor_name_a_sink_that_no_alert_feeds(shell, pager):
    lines = (pager / "eddyline.toml").read_text().splitlines()
    unfed = UNFED.format(lines.index('name = "pager"'))
    assert shell("eddyline plan").err == unfed
    assert shell("eddyline plan --json").json["warnings"] == [unfed.removeprefix("warning: ").rstrip()]
    assert shell("eddyline apply").err == unfed
    assert unfed in shell("eddyline run --once").err
    said = shell("eddyline doctor")
    assert said.code == 0
    assert unfed.replace("warning: ", "warning  rules: ") in said.out


@pytest.mark.parametrize("properties", ["per = 'sym'", "deliver = 'pager'", "severity = 'error'"])
def test_an_alert_that_goes_to_the_sink_is_enough(shell, pager, properties):
    (pager / "rules" / "low.sql").write_text(ALERT.format(name="low", properties=properties))
    assert shell("eddyline plan").err == ""
    assert shell("eddyline doctor").out.endswith("ok       rules: 3 queries in eddyline.toml\n")


def test_an_alert_that_goes_elsewhere_is_not(shell, pager):
    with open(pager / "eddyline.toml", "a") as file:
        file.write("queries = ['watch-*']\n")
    (pager / "rules" / "low.sql").write_text(ALERT.format(name="low", properties="per = 'sym'"))
    assert (
        "warning: sink pager takes alerts, and no alert goes there: it will send nothing."
        in shell("eddyline plan").err
    )
    (pager / "rules" / "watch.sql").write_text(ALERT.format(name="`watch-1`", properties="per = 'sym'"))
    assert shell("eddyline plan").err == ""


def test_an_alert_that_is_in_no_file_is_enough(shell, pager):
    shell("eddyline apply")
    shell("eddyline query add --name low --set per=sym 'SELECT sym FROM trades WHERE price < 0'")
    assert shell("eddyline plan").err == ""


def test_a_table_of_alerts_is_enough(shell, pager):
    (pager / "rules" / "watch.csv").write_text("sym\nACME\nBYTE\n")
    (pager / "rules" / "watch.sql").write_text(
        "CREATE OR REPLACE VIEW `watch-{sym}` TBLPROPERTIES (rules_table = 'watch.csv', per = 'sym') AS "
        "SELECT sym, price FROM trades WHERE sym = :sym"
    )
    assert shell("eddyline plan").err == ""


def test_a_rule_with_a_mistake_might_be_the_alert(shell, pager):
    (pager / "rules" / "low.sql").write_text("SELECT prize FROM trades")
    said = shell("eddyline plan")
    assert said.code == 1
    assert "sink pager" not in said.err
