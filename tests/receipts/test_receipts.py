"""Receipts: the row, the query and the round of every result that is kept, however its row came."""

from __future__ import annotations

import datetime
import json
import math
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet
import pytest

import eddyline
from eddyline.api import Commands
from eddyline.engine.durable import Retention
from eddyline.errors import HomeError, ProofError, PropertyError, ReceiptError, UnknownNameError
from eddyline.proof import checksum_of, claim_of
from eddyline.receipts import Receipt, prove
from eddyline.receipts import receipts as receipts_module
from eddyline.sources.reading import reference_from, reference_to
from eddyline.storage import OUTBOX
from tests.on_workers import opener, through_tasks

NOW_US = 1_718_000_000_123_456
SCHEMA = "sym STRING, price DOUBLE, qty INT, ts TIMESTAMP"


def rows(*values) -> list[dict]:
    """(sym, price, qty) of each."""
    at = datetime.datetime(2026, 1, 5, 9, 30, tzinfo=datetime.UTC)
    return [{"sym": sym, "price": price, "qty": qty, "ts": at} for sym, price, qty in values]


@pytest.fixture
def engine(tmp_path):
    with eddyline.open(tmp_path / "home", clock=lambda: NOW_US, time_zone="Europe/Berlin") as engine:
        engine.stream("trades", SCHEMA, time="ts")
        yield engine


def facts(receipt: Receipt) -> tuple:
    (row,) = receipt["rows"]
    return receipt["id"], row["arrival"], row["row"]["sym"], receipt["result"]


def test_a_receipt_says_all_that_a_result_follows_from(engine):
    cheap = engine.query(
        "SELECT sym, price FROM trades WHERE price < :limit", name="cheap", params={"limit": 10}, owner="ops"
    )
    engine.push("trades", rows(("A", 20.0, 1), ("B", 9.5, None)))
    (result,) = cheap.results()
    receipt = engine.receipt(result)
    assert receipt == engine.receipt("1-2-1")
    assert receipt.pop("checksum").startswith("sha256:")
    assert receipt == {
        "format": 1,
        "id": "1-2-1",
        "query": "cheap",
        "query_id": 1,
        "generation": 1,
        "version": 2,
        "owner": "ops",
        "text": "SELECT sym, price FROM trades WHERE price < :limit",
        "params": {"limit": {"type": "DOUBLE", "value": 10.0}},
        "properties": {"owner": "ops"},
        "functions": [],
        "rows": [
            {
                "stream": "trades",
                "arrival": 2,
                "columns": [
                    {"name": "sym", "type": "STRING", "nullable": True},
                    {"name": "price", "type": "DOUBLE", "nullable": True},
                    {"name": "qty", "type": "INT", "nullable": True},
                    {"name": "ts", "type": "TIMESTAMP", "nullable": True},
                ],
                "seen": ["sym", "price"],
                "row": {"sym": "B", "price": 9.5, "qty": None, "ts": "2026-01-05 09:30:00+00:00"},
            }
        ],
        "round": {
            "number": 1,
            "now": "2024-06-10T06:13:20.123456Z",
            "now_us": NOW_US,
            "version": 2,
            "seed": 1,
            "time_zone": "Europe/Berlin",
        },
        "change": "insert",
        "is_late": False,
        "columns": [
            {"name": "sym", "type": "STRING", "nullable": True},
            {"name": "price", "type": "DOUBLE", "nullable": True},
        ],
        "result": {"sym": "B", "price": 9.5},
    }  # fmt: skip


def test_the_checksum_covers_everything_and_survives_json(engine):
    engine.query("SELECT sym FROM trades WHERE price > 1")
    engine.push("trades", rows(("A", float("nan"), 1)))
    receipt = Receipt(json.loads(json.dumps(engine.receipt("1-1-1"), indent=2)))
    assert receipt.is_intact
    (price,) = claim_of(receipt).rows["price"].to_pylist()
    assert math.isnan(price)
    receipt["result"]["sym"] = "B"
    assert not receipt.is_intact
    with pytest.raises(ProofError, match="the receipt of 1-1-1 is not what was issued"):
        claim_of(receipt)


def test_people_get_it_in_a_few_lines(engine):
    engine.query("SELECT sym FROM trades WHERE price < :limit", name="cheap", params={"limit": 10})
    engine.push("trades", rows(("A", 9.5, 1)))
    assert str(engine.receipt("1-1-1")).splitlines()[:5] == [
        "result 1-1-1: cheap, generation 1, version 2",
        "  text      SELECT sym FROM trades WHERE price < :limit",
        "  :limit    10.0 (DOUBLE)",
        '  row       trades 1: {"sym": "A", "price": 9.5, "qty": 1, "ts": "2026-01-05 09:30:00+00:00"}',
        "  round     1, now() 2024-06-10T06:13:20.123456Z, version 2, Europe/Berlin",
    ]


def test_the_query_is_the_one_the_round_saw_also_if_it_was_replaced_paused_or_dropped_since(engine):
    query = engine.query("SELECT sym FROM trades WHERE price < 10", name="q", owner="ann")
    engine.push("trades", rows(("A", 1.0, 1)))
    query.replace("SELECT sym, qty FROM trades WHERE qty > 1")
    engine.push("trades", rows(("B", 1.0, 2)))
    query.pause()
    query.resume()
    engine.push("trades", rows(("C", 1.0, 3)))
    query.drop()
    receipts = [engine.receipt(f"{n}-{n}-1") for n in (1, 2, 3)]
    assert [(r["text"], r["result"], r["query"]) for r in receipts] == [
        ("SELECT sym FROM trades WHERE price < 10", {"sym": "A"}, "q"),
        ("SELECT sym, qty FROM trades WHERE qty > 1", {"sym": "B", "qty": 2}, "q"),
        ("SELECT sym, qty FROM trades WHERE qty > 1", {"sym": "C", "qty": 3}, "q"),
    ]
    generations = [r["generation"] for r in receipts]
    assert generations == sorted(set(generations))


def test_members_of_a_template_have_their_own_values_also_after_they_ended(engine):
    params = [{"sym": "A", "low": Decimal("1.50")}, {"sym": "B", "low": Decimal("2.50")}]
    engine.query_many(
        "SELECT qty FROM trades WHERE sym = :sym AND price > :low", params=params, name="w-{sym}"
    )
    engine.push("trades", rows(("B", 3.0, 7)))
    engine.get("w-B").replace("SELECT sym FROM trades")
    receipt = engine.receipt("1-1-2")
    assert (receipt["query"], receipt["result"]) == ("w-B", {"qty": 7})
    assert receipt["params"] == {
        "sym": {"type": "STRING", "value": "B"},
        "low": {"type": "DOUBLE", "value": 2.5},
    }


def test_a_parameter_that_meets_several_types_is_given_in_the_narrowest(engine):
    engine.query("SELECT sym FROM trades WHERE price > :n AND qty > :n", params={"n": 3})
    engine.push("trades", rows(("A", 4.0, 4)))
    assert engine.receipt("1-1-1")["params"] == {"n": {"type": "BIGINT", "value": 3}}


def test_functions_are_named_with_their_versions(engine):
    @eddyline.udf(returns="double", version="2024-05")
    def twice_for_receipts(x: float) -> float:
        return 2 * x

    engine.query("SELECT sym FROM trades WHERE twice_for_receipts(price) > 1")
    engine.push("trades", rows(("A", 4.0, 4)))
    assert engine.receipt("1-1-1")["functions"] == [
        {"name": "twice_for_receipts", "version": "2024-05", "is_deterministic": True}
    ]


# --------------------------------------------------------------------------------------------- recorded values


@pytest.fixture
def drawn():
    """What draw_for_receipts gave so far: 0.5, 1.5, 2.5, …"""
    given: list[float] = []

    @eddyline.udf(returns="double", version="7", deterministic=False, scalar=True)
    def draw_for_receipts(x):
        given.append(len(given) + 0.5)
        return given[-1]

    return given


DRAWING = (
    "SELECT sym, draw_for_receipts(price) AS d FROM trades WHERE Draw_For_Receipts(price) < 1 OR qty = 7"
)


def tampered(receipt: Receipt, call: int, value: object) -> Receipt:
    """Another recorded value, and a checksum that fits it."""
    body = json.loads(json.dumps({name: part for name, part in receipt.items() if name != "checksum"}))
    body["recorded"][call - 1]["value"] = value
    return Receipt(body | {"checksum": checksum_of(body)})


def test_a_receipt_tells_what_functions_that_are_not_deterministic_gave(engine, drawn):
    engine.query(DRAWING)
    engine.push("trades", rows(("A", 4.0, 4), ("B", 5.0, 5), ("C", 6.0, 7)))
    receipt = engine.receipt("1-3-1")
    assert receipt.is_intact
    assert receipt["result"] == {"sym": "C", "d": 4.5}
    assert receipt["columns"] == [
        {"name": "sym", "type": "STRING", "nullable": True},
        {"name": "d", "type": "DOUBLE", "nullable": True},
    ]
    assert receipt["recorded"] == [
        {"function": "draw_for_receipts", "version": "7", "call": 1, "type": "DOUBLE", "value": 4.5},
        {"function": "draw_for_receipts", "version": "7", "call": 2, "type": "DOUBLE", "value": 2.5},
    ]
    assert str(receipt).splitlines()[2:5] == [
        "  function  draw_for_receipts, version 7",
        "  recorded  call 1, draw_for_receipts: 4.5",
        "  recorded  call 2, draw_for_receipts: 2.5",
    ]
    assert [each.value for each in claim_of(receipt).recorded_values] == [4.5, 2.5]
    assert len(drawn) == 5


def test_results_of_such_functions_are_proven_with_what_they_gave_and_no_call(engine, drawn, monkeypatch):
    engine.query(DRAWING)
    engine.push("trades", rows(("A", 4.0, 4), ("B", 5.0, 5), ("C", 6.0, 7)))
    monkeypatch.setattr(receipts_module, "is_installed", lambda: False)
    proof = engine.prove("1-1-1")
    assert proof.is_proven, str(proof)
    assert proof.engine.startswith("DuckDB")
    assert "draw_for_receipts gave 3.5 (:recorded_1), draw_for_receipts gave 0.5 (:recorded_2)" in proof.note
    receipt = engine.receipt("1-1-1")
    assert not prove(tampered(receipt, 1, 3.25)).is_proven  # it is the result
    refuted = prove(tampered(receipt, 2, 1.0))  # it decides whether there is one
    assert (refuted.is_proven, refuted.found) == (False, None)
    assert prove(tampered(receipt, 2, 0.75)).is_proven  # nothing that was promised depends on it
    assert len(drawn) == 5


def test_a_receipt_of_an_earlier_version_is_intact_and_refused_with_the_reason(engine, drawn, monkeypatch):
    engine.query(DRAWING)
    engine.push("trades", rows(("A", 4.0, 4)))
    body = {
        name: part for name, part in engine.receipt("1-1-1").items() if name not in ("checksum", "recorded")
    }
    receipt = Receipt(body | {"checksum": checksum_of(body)})
    assert receipt.is_intact
    with pytest.raises(ProofError, match="is not deterministic, so it cannot be asked again"):
        prove(receipt, spark=object())  # before anything is asked of it
    monkeypatch.setattr(receipts_module, "is_installed", lambda: False)
    with pytest.raises(ProofError, match="there is no Spark to prove it with") as refused:
        prove(receipt)
    assert "draw_for_receipts is not deterministic" in refused.value.detail


def test_values_are_recorded_by_tasks_and_kept_through_a_restart(tmp_path, drawn, monkeypatch):
    monkeypatch.setattr(receipts_module, "is_installed", lambda: False)
    engine = opener(tmp_path / "was", n_pieces=2)(clock=lambda: NOW_US)
    engine.stream("trades", SCHEMA)
    engine.query(DRAWING, name="draws")
    engine.push("trades", rows(("A", 4.0, 7), ("B", 5.0, 7)))
    engine.close()
    home = next((tmp_path / "was").iterdir())
    with eddyline.open(home) as again:
        receipts = [again.receipt(f"1-{arrival}-1") for arrival in (1, 2)]
        for receipt in receipts:
            first, second = receipt["recorded"]
            assert first["value"] == receipt["result"]["d"]
            assert second["value"] not in (None, first["value"])
            assert prove(receipt).is_proven
    assert drawn == []  # it was called elsewhere, and not again here


def test_why_says_that_such_functions_are_called_again_but_for_results(engine, drawn):
    query = engine.query(DRAWING, name="draws")
    engine.push("trades", rows(("A", 4.0, 4)))
    again = "draw_for_receipts is not deterministic: it was called again, and may have given something else in the round"
    why = query.why({"price": 4.0, "qty": 1})
    assert why.notes == (again,)
    assert f"\n  {again}\n" in str(why)
    assert len(drawn) == 3  # it does not match, so nothing is asked for its result
    why_not = query.why_not()
    assert why_not.notes == (again,)
    assert (why_not.n_matched, why_not.nearest.matches) == (0, False)
    assert len(drawn) == 4
    found = Commands(engine).why_result(result="1-1-1")
    assert (found["matches"], found["notes"]) == (True, ())
    assert len(drawn) == 4  # what was recorded is known


# --------------------------------------------------------------------------------------------- where rows come from


def test_why_of_a_result_takes_parameters_in_their_types(engine):
    engine.stream("prices", "price DECIMAL(10,2), at TIMESTAMP")
    when = datetime.datetime(2026, 1, 5, 9, 30, tzinfo=datetime.UTC)
    params = {"most": Decimal("12.34"), "since": when, "any": [Decimal("1.50"), Decimal("2.50")]}
    text = "SELECT price FROM prices WHERE price < :most AND at >= :since AND price IN (:any)"
    engine.query(text, name="cheap", params=params)
    engine.push("prices", [{"price": Decimal("1.50"), "at": when}])
    answer = Commands(engine).why_result(result="1-1-1")
    assert [clause["verdict"] for clause in answer["clauses"]] == ["true"] * 3


def test_rows_of_several_streams_with_numbers_of_their_own_are_found_by_them(engine):
    engine.stream("news", "sym STRING")
    engine.query("SELECT sym FROM trades")
    engine.query("SELECT sym FROM news")
    numbered = [
        row | {"_arrival": n} for row, n in zip(rows(("A", 1.0, 1), ("B", 1.0, 1)), (5, 90), strict=True)
    ]
    engine.push({"trades": numbered, "news": [{"sym": "N", "_arrival": 7}, {"sym": "O", "_arrival": 91}]})
    engine.push({"trades": rows(("C", 1.0, 1)), "news": [{"sym": "P"}]})
    found = [engine.receipt(i) for i in ("1-5-1", "1-90-1", "1-7-2", "1-91-2", "2-92-1", "2-93-2")]
    assert [(r["rows"][0]["stream"], r["rows"][0]["row"]["sym"]) for r in found] == [
        ("trades", "A"), ("trades", "B"), ("news", "N"), ("news", "O"), ("trades", "C"), ("news", "P"),
    ]  # fmt: skip


def test_rows_are_as_the_stream_had_them_then(engine):
    engine.query("SELECT sym FROM trades", name="q")
    engine.push("trades", rows(("A", 1.0, 1)))
    engine.stream("trades", f"{SCHEMA}, venue STRING", time="ts")
    engine.push("trades", [row | {"venue": "X"} for row in rows(("B", 1.0, 1))])
    first, second = engine.receipt("1-1-1"), engine.receipt("2-2-1")
    assert "venue" not in first["rows"][0]["row"]
    assert second["rows"][0]["row"]["venue"] == "X"


def test_rows_that_tasks_read_are_found_by_reference_also_after_the_home_has_moved(tmp_path):
    engine = opener(tmp_path / "was", n_pieces=3)(clock=lambda: NOW_US)
    engine.stream("trades", SCHEMA)
    engine.query("SELECT sym, qty FROM trades WHERE price < 10")
    for n in range(2):
        engine.push("trades", rows(*((f"S{k}", k + 7.0, 10 * n + k) for k in range(7))))
    expected = [dict(r) for r in engine.get(1).results()]
    engine.close()
    home = next((tmp_path / "was").iterdir())
    (tmp_path / "was").rename(tmp_path / "is")
    with eddyline.open(tmp_path / "is" / home.name) as again:
        ids = ["1-1-1", "1-2-1", "1-3-1", "2-8-1", "2-9-1", "2-10-1"]
        receipts = [again.receipt(i) for i in ids]
        assert [r["result"] for r in receipts] == expected
        assert [(r["rows"][0]["row"]["sym"], r["rows"][0]["row"]["qty"]) for r in receipts] == [
            tuple(r.values()) for r in expected
        ]
        log = again.rounds.durable.rounds
        assert [(i.first_arrival, i.n_rows, i.stream) for i in log.inputs(2)] == [
            (8, 3, "trades"), (11, 3, "trades"), (14, 1, "trades"),
        ]  # fmt: skip


def run_files(engine, folder, file_format: str) -> None:
    """Rounds over files, as workers would read them."""
    from eddyline.engine.shared_work import SharedRounds
    from eddyline.model import ExecutionChoices
    from eddyline.sources.files import FolderSource
    from eddyline.sources.formats import FileFormat
    from tests.on_workers import elsewhere

    stream = engine.rounds.catalog.stream("trades")
    source = FolderSource(folder, FileFormat(file_format), stream, engine.rounds.time_zone)
    shared = SharedRounds(
        engine.rounds, elsewhere, lambda functions: b"", choices=ExecutionChoices(task_bytes=1)
    )
    while (planned := source.plan(100_000, 1 << 30)) is not None:
        shared.run_round({"trades": planned})
        source.move_to(planned.position([]))
        return


def written(folder, name: str, *values) -> None:
    folder.mkdir(exist_ok=True)
    lines = [json.dumps({"sym": s, "price": p, "qty": q, "ts": "2026-01-05 09:30:00"}) for s, p, q in values]
    (folder / name).write_text("\n".join(lines) + "\n")


def test_rows_of_files_are_read_again_and_a_file_that_is_not_what_it_was_is_told(engine, tmp_path):
    engine.query("SELECT sym FROM trades WHERE price < 10")
    folder = tmp_path / "in"
    written(folder, "a.json", ("A", 1.0, 1), ("B", 50.0, 2))
    written(folder, "b.json", ("C", 2.0, 3), ("not a row", "x", 1), ("D", 3.0, 4))
    run_files(engine, folder, "json")
    ids = [f"1-{r.arrival}-1" for r in engine.get(1).results()]
    assert ids == ["1-1-1", "1-3-1", "1-4-1"]
    assert [facts(engine.receipt(i))[2] for i in ids] == ["A", "C", "D"]
    written(folder, "b.json", ("C", 2.0, 3), ("E", 2.0, 3))
    assert facts(engine.receipt("1-1-1"))[2] == "A"
    with pytest.raises(ReceiptError, match="cannot be read again from where they lay") as changed:
        engine.receipt("1-3-1")
    assert "b.json: it is no longer what it was" in changed.value.detail
    (folder / "a.json").unlink()
    with pytest.raises(ReceiptError) as gone:
        engine.receipt("1-1-1")
    assert gone.value.detail.endswith("a.json: it is gone.")


def test_references_of_every_kind_come_back_from_json(tmp_path):
    from eddyline.kafka import Cluster, MessageRange
    from eddyline.sources.file_references import pieces
    from eddyline.sources.formats import FileFormat
    from eddyline.sources.generators import ColumnGenerator
    from eddyline.sources.kafka_messages import reference as kafka_reference
    from eddyline.sources.positions import FilePlace, FileState
    from eddyline.sources.references import Reference

    cluster = Cluster.of("host:9092", {"sasl.password": "${env:SECRET}"})
    columns = (
        ColumnGenerator("d", pa.decimal128(5, 2), "choice", (Decimal("1.50"), None), (1.0, 2.0)),
        ColumnGenerator("day", pa.date32(), "value", (datetime.date(2024, 2, 29),)),
    )
    file_format = FileFormat("csv", columns=("a", "b"), delimiter=";")
    ((file, _),) = pieces(tmp_path, file_format, FileState("a.csv", 10, 123), FilePlace(2, 3, 4))
    references = [
        file,
        kafka_reference(cluster, "t", "id", FileFormat("json"), MessageRange(0, 5, 9), 100),
        Reference("generator", {"columns": columns, "seed": 1, "first": 5, "n": 2, "started_us": 7}, 10),
        Reference("capture", {"store": "was", "name": "x", "nbytes": 1, "checksum": 2}, 1),
    ]
    again = [reference_from(reference_to(reference), tmp_path) for reference in references]
    assert again[0] == file
    assert again[1] == references[1]
    assert "SECRET" in reference_to(references[1])  # its name, not what it holds
    assert again[3].what["store"] == str(tmp_path)
    made = [column.make(1, 5, 2, 7) for column in again[2].what["columns"]]
    assert made == [column.make(1, 5, 2, 7) for column in columns]


def test_made_up_rows_are_made_again(engine):
    from eddyline.engine.shared_work import SharedRounds
    from eddyline.sources.generators import ColumnGenerator, Generator
    from tests.on_workers import elsewhere

    engine.stream("made", "k INT, x DOUBLE")
    engine.query("SELECT k, x FROM made WHERE x < 0.1")
    columns = [
        ColumnGenerator("k", pa.int32(), "sequence", high=1),
        ColumnGenerator("x", pa.float64(), "uniform", low=0, high=1),
    ]
    stream = engine.rounds.catalog.stream("made")
    source = Generator(stream, columns, n_rows=200, seed=3)
    planned = source.plan(1000, 1 << 20)
    SharedRounds(engine.rounds, elsewhere, lambda functions: b"").run_round({"made": planned})
    results = engine.get(1).results()
    assert len(results) > 5
    for result in results:
        receipt = engine.receipt(result)
        assert receipt["rows"][0]["row"] == receipt["result"] == dict(result)


# --------------------------------------------------------------------------------------------- what is not there


def test_what_has_no_receipt_says_why(engine):
    engine.query("SELECT sym FROM trades WHERE price < 10")
    engine.push("trades", rows(("A", 1.0, 1), ("B", 50.0, 1)))
    for result_id in ("", "1-1", "1-1-x", "1-1-1-1", "-1-1-1", "1" * 30 + "-1-1"):
        with pytest.raises(PropertyError, match="is not the id of a result"):
            engine.receipt(result_id)
    with pytest.raises(UnknownNameError, match="there is no result 7-1-1") as later:
        engine.receipt("7-1-1")
    assert later.value.hint == "The last round was 1."
    with pytest.raises(UnknownNameError, match="round 1 has no result of query 1 for row 2"):
        engine.receipt("1-2-1")
    with eddyline.open() as in_memory, pytest.raises(HomeError, match="an engine in memory keeps no rows"):
        in_memory.receipt("1-1-1")


def test_results_past_retention_are_told_apart_from_rows_past_retention(tmp_path):
    with eddyline.open(tmp_path / "a", retention=Retention(capture_bytes=0)) as engine:
        engine.stream("trades", SCHEMA)
        engine.query("SELECT sym FROM trades")
        engine.push("trades", rows(("A", 1.0, 1)))
        engine.rounds.durable.collect_garbage()
        with pytest.raises(ReceiptError, match="the rows of round 1 are no longer kept") as rows_gone:
            engine.receipt("1-1-1")
        assert "captures" in rows_gone.value.hint
    with eddyline.open(tmp_path / "b", retention=Retention(result_bytes=0)) as engine:
        engine.stream("trades", SCHEMA)
        engine.query("SELECT sym FROM trades")
        engine.push("trades", rows(("A", 1.0, 1)))
        engine.rounds.durable.collect_garbage()
        with pytest.raises(UnknownNameError, match="the results of round 1 are past retention"):
            engine.receipt("1-1-1")


def test_inputs_are_forgotten_with_their_round(tmp_path):
    retention = Retention(capture_bytes=0, result_bytes=0, round_count=1)
    engine = eddyline.open(tmp_path / "home", retention=retention)
    through_tasks(engine, n_pieces=1)
    engine.stream("trades", SCHEMA)
    engine.query("SELECT sym FROM trades")
    for _ in range(3):
        engine.push("trades", rows(("A", 1.0, 1)))
    log = engine.rounds.durable.rounds
    assert [len(log.inputs(n)) for n in (1, 2, 3)] == [1, 1, 1]
    engine.rounds.durable.collect_garbage()
    assert [len(log.inputs(n)) for n in (1, 2, 3)] == [0, 0, 1]
    engine.close()


def test_damaged_files_are_told(engine):
    engine.query("SELECT sym FROM trades")
    engine.push("trades", rows(("A", 1.0, 1)))
    durable = engine.rounds.durable
    for kind, message in (("capture", "cannot be read"), (OUTBOX, "no result of query")):
        (file,) = durable.rounds.files.of_round(kind, 1)
        path = durable.store.folder / file.name
        path.write_bytes(path.read_bytes()[:-1] + b"?")
        with pytest.raises((ReceiptError, UnknownNameError), match=message) as damaged:
            engine.receipt("1-1-1")
        assert damaged.value.detail
