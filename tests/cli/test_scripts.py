"""`eddyline init` and `eddyline test`: a project that passes, and what is said when it does not."""

from __future__ import annotations

from xml.etree import ElementTree


def test_a_new_project_runs_and_its_test_passes(shell, project):
    assert shell("eddyline test").out == "ok      rules/cheap.stream\n1 passed, 0 failed\n"
    said = shell("eddyline run --once")
    assert said.out == (
        "+ big: sym=BYTE, worth=65000.0\n+ cheap: sym=ACME, price=9.5\n+ cheap: sym=DATA, price=7.75\n"
    )
    assert shell("eddyline run --once").out == ""  # everything was read


def test_a_second_project_has_functions_of_its_own(shell, project, tmp_path, monkeypatch):
    shell("eddyline test")
    shell(f"eddyline init {tmp_path}/other")
    other = tmp_path / "other"
    (other / "functions.py").write_text(
        (other / "functions.py").read_text().replace("price * qty", "price * qty * 2")
    )
    monkeypatch.chdir(other)
    assert "worth=130000.0" in shell("eddyline run --once").out


def test_a_failing_test_says_what_came_out_otherwise(shell, project):
    script = project / "rules" / "cheap.stream"
    script.write_text(script.read_text().replace("cheap +'ACME', 9.5", "cheap +'ACME', 9.6"))
    said = shell("eddyline test --junit out/report.xml")
    assert (said.code, said.out) == (1, "FAILED  rules/cheap.stream\n0 passed, 1 failed\n")
    assert said.err == (
        "rules/cheap.stream:2: push came out otherwise\n"
        "  missing   cheap +'ACME', 9.6   (line 3)\n"
        "  not asked cheap +'ACME', 9.5\n"
    )
    suite = ElementTree.parse(project / "out" / "report.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures")) == ("1", "1")
    (case,) = suite
    assert case.get("name") == "cheap.stream"
    assert "missing   cheap +'ACME', 9.6" in str(case[0].text)
    body = shell("eddyline test --json").json
    assert (body["passed"], body["failed"]) == (0, 1)
    assert body["tests"][0]["differences"][0]["line"] == 2


def test_a_rule_with_a_mistake_fails_its_test(shell, project):
    (project / "rules" / "cheap.sql").write_text("CREATE VIEW cheap AS SELECT sim FROM trades")
    said = shell("eddyline test")
    assert said.code == 1
    assert "there is no column sim in trades" in said.err


def test_a_script_that_cannot_be_read_fails(shell, project):
    (project / "rules" / "odd.stream").write_text("strem s (n int)\n")
    said = shell("eddyline test rules")
    assert (said.code, said.out) == (
        1,
        "ok      rules/cheap.stream\nFAILED  rules/odd.stream\n1 passed, 1 failed\n",
    )
    assert said.err == "rules/odd.stream:1: 'strem' is not a command\nhint: Did you mean stream?\n"


def test_a_script_without_a_rule_file_has_the_streams_alone(shell, project):
    (project / "free.stream").write_text(
        "query dear: SELECT sym FROM trades WHERE price > 100\n"
        "push trades ('A', 'TECH', 101.0, 1, NULL), ('B', 'TECH', 1.0, 1, NULL)\n"
        "  dear +'A'\n"
    )
    assert shell("eddyline test free.stream").code == 0


def test_scripts_run_without_a_pipeline_too(shell, tmp_path):
    (tmp_path / "a.sql").write_text("SELECT n FROM s WHERE n > 1")
    (tmp_path / "streams.sql").write_text("CREATE TABLE s (n INT)")
    (tmp_path / "a.stream").write_text("push s (1), (2)\n  a +2\n")
    assert shell("eddyline test").out == "ok      a.stream\n1 passed, 0 failed\n"
    assert shell("eddyline test --junit /nowhere/at/all/x.xml").code in (0, 2)
