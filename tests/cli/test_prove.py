"""`eddyline receipt` and `eddyline prove`, with the home open here and held by another engine; `eddyline run --audit`."""

from __future__ import annotations

import json

import pytest

from eddyline.receipts import receipts as receipts_module


@pytest.fixture(autouse=True)
def _duckdb_judges(monkeypatch, no_session):
    """No session is there and PySpark counts as not installed; tests/spark has proofs by Spark."""
    monkeypatch.setattr(receipts_module, "is_installed", lambda: False)


def result_of(shell, home, query: str) -> str:
    """The id of the first result of a query."""
    lines = shell(f"eddyline tail {query} --home {home} --json --no-follow").out.splitlines()
    return json.loads(lines[0])["cursor"]


def test_a_receipt_is_shown_for_people_and_for_programs(home, shell):
    result = result_of(shell, home, "cheap")
    shown = shell(f"eddyline receipt {result} --home {home}")
    assert shown.code == 0
    assert shown.out.startswith(f"result {result}: cheap, generation 1")
    receipt = shell(f"eddyline receipt {result} --home {home} --json").json
    assert receipts_module.Receipt(receipt).is_intact
    assert receipt["rows"][0]["row"]["sym"] == receipt["result"]["sym"] == "ACME"
    wrong = shell(f"eddyline receipt 1-99-1 --home {home}")
    assert (wrong.code, wrong.out) == (1, "")
    assert "round 1 has no result of query 1 for row 99" in wrong.err


def test_a_proof_ends_with_0_if_it_holds_and_with_1_if_not(home, shell, monkeypatch):
    result = result_of(shell, home, "cheap")
    proven = shell(f"eddyline prove {result} --home {home}")
    assert proven.code == 0, proven.err
    assert f"{result}: proven by DuckDB" in proven.out
    document = shell(f"eddyline prove {result} --home {home} --json").json
    assert document["is_proven"]
    assert document["expected"] == document["found"]

    issued = receipts_module.claim_of
    lie = {"sym": "LIE", "price": 1.0}

    def forged(receipt):
        body = {
            **receipt,
            "result": {name: lie.get(name, value) for name, value in receipt["result"].items()},
        }
        return issued(body | {"checksum": receipts_module.checksum_of(body)})

    monkeypatch.setattr(receipts_module, "claim_of", forged)
    refuted = shell(f"eddyline prove {result} --home {home}")
    assert refuted.code == 1
    assert f"{result}: NOT proven by DuckDB" in refuted.out
    assert "sym is 'ACME', in the result 'LIE'" in refuted.out


def test_without_spark_it_says_what_to_install(home, shell):
    said = shell(f"eddyline prove {result_of(shell, home, 'big')} --home {home}")
    assert said.code == 1
    assert said.err.splitlines() == [
        "there is no Spark to prove it with",
        "detail: PySpark is not installed, and DuckDB does not judge functions.",
        "hint: pip install 'eddyline[spark]'",
    ]
    assert shell(f"eddyline prove nothing --home {home}").code == 1


def test_a_run_says_what_its_audit_found(shell, project):
    said = shell('eddyline run --once --audit "100 %"')
    assert said.code == 0
    assert "audit: 1 round, " in said.err
    assert "0 differences" in said.err
    wrong = shell('eddyline run --once --audit "often"')
    assert wrong.code == 1
    assert "not a share of rounds" in wrong.err
