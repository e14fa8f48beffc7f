"""The worked examples of shared_eddies.json: selections and joins, each run with several cuts into rounds."""

from __future__ import annotations

import datetime
import json
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.laws import open_engine
from tests.oracles.joins import EPOCH, Apply, Bound, Declared, JoinQuery, Literal, Node, Of, Source, Twin

pytestmark = pytest.mark.vectors

FOLDER = Path(os.environ.get("EDDYLINE_VECTORS") or Path(__file__).parent / "vectors")
FILE = FOLDER / "shared_eddies.json"
VECTORS: dict[str, Any] = json.loads(FILE.read_text()) if FILE.exists() else {}
N_CUTS = 4


def cases(kind: str) -> list[Any]:
    return [
        pytest.param(
            case, id=f"{FILE.stem}: {case.get('name', number)}", marks=[pytest.mark.slow] * is_big(case)
        )
        for number, case in enumerate(VECTORS.get(kind, []))
    ]


def is_big(case: dict[str, Any]) -> bool:
    return isinstance(case.get("queries"), int) and case["queries"] > 10_000


def cut(items: Sequence[Any], number: int) -> list[Sequence[Any]]:
    """The items in rounds: all at once, one by one, then cuts at random places."""
    if number == 0:
        return [items]
    if number == 1:
        return [items[at : at + 1] for at in range(len(items))]
    rng = random.Random(number)
    points = sorted(rng.sample(range(len(items) + 1), min(len(items), rng.randint(1, 6))))
    return [items[a:b] for a, b in zip([0, *points], [*points, len(items)], strict=True)]


# --------------------------------------------------------------------------------------------- writing a case as SQL


def kind_of(values: list[Any]) -> pa.DataType:
    present = [v for v in values if v is not None]
    if any(isinstance(v, str) for v in present):
        return pa.string()
    return pa.float64() if any(isinstance(v, float) for v in present) else pa.int64()


def literal(value: Any) -> str:
    return "NULL" if value is None else f"'{value}'" if isinstance(value, str) else repr(value)


def comparison(atom: dict[str, Any]) -> str:
    return f"{atom['col']} {atom['op']} {literal(atom['const'])}"


def conjunction(clauses: list[list[dict[str, Any]]]) -> str:
    return " AND ".join("(" + " OR ".join(map(comparison, clause)) + ")" for clause in clauses) or "TRUE"


def written(tree: Any) -> str:
    if isinstance(tree, dict):
        return comparison(tree)
    operator, *arguments = tree
    if operator == "not":
        return f"NOT ({written(arguments[0])})"
    return "(" + f" {operator.upper()} ".join(written(a) for a in arguments) + ")"


def atoms(where: Any) -> Iterator[dict[str, Any]]:
    if isinstance(where, dict):
        yield where
    elif isinstance(where, list):
        for part in where:
            yield from atoms(part)


def schemas_of(
    streams: dict[str, list[dict[str, Any]]], constants: dict[tuple[str, str], list[Any]]
) -> dict[str, pa.Schema]:
    """A schema per stream that holds all values of its rows and all constants they meet."""
    found = {}
    for stream, rows in streams.items():
        names = sorted({name for row in rows for name in row} | {n for s, n in constants if s == stream})
        types = {n: kind_of([r.get(n) for r in rows] + constants.get((stream, n), [])) for n in names}
        found[stream] = pa.schema([("id_", pa.int64()), *types.items()])
    return found


def push(
    engine: Any, schemas: dict[str, pa.Schema], tuples: Sequence[tuple[int, str, int, dict[str, Any]]]
) -> None:
    """One round of (arrival number, stream, id, values)."""
    rounds: dict[str, list[dict[str, Any]]] = {}
    for arrival, stream, identity, values in tuples:
        known = {name: values.get(name) for name in schemas[stream].names}
        rounds.setdefault(stream, []).append({**known, "id_": identity, "_arrival": arrival})
    if rounds:
        engine.push(rounds)


# --------------------------------------------------------------------------------------------- selections


@pytest.mark.parametrize("case", cases("filter_cases") + cases("boolean_cases"))
@pytest.mark.parametrize("cut_number", range(N_CUTS))
def test_selections_accept_exactly_their_tuples(case, cut_number):
    streams: dict[str, list[dict[str, Any]]] = {}
    for t in case["tuples"]:
        streams.setdefault(t["source"], []).append(t["values"])
    constants: dict[tuple[str, str], list[Any]] = {}
    for query in case["queries"]:
        streams.setdefault(query["source"], [])
        for atom in atoms(query.get("where", query.get("where_tree"))):
            source, _, name = atom["col"].partition(".")
            constants.setdefault((source, name), []).append(atom["const"])
    schemas = schemas_of(streams, constants)
    engine = open_engine()
    for stream, schema in schemas.items():
        engine.stream(stream, schema)
    queries = {}
    for query in case["queries"]:
        where = conjunction(query["where"]) if "where" in query else written(query["where_tree"])
        queries[query["id"]] = engine.query(
            f"SELECT id_ FROM {query['source']} WHERE {where}", name=query["id"]
        )
    numbered = [(n, t["source"], t["id"], t["values"]) for n, t in enumerate(case["tuples"], 1)]
    for round_ in cut(numbered, cut_number):
        push(engine, schemas, round_)
    assert {name: [r["id_"] for r in q.latest(10_000)] for name, q in queries.items()} == case["expected"]


@pytest.mark.parametrize("case", cases("grouped_filter_cases"))
@pytest.mark.parametrize("cut_number", range(N_CUTS))
def test_all_predicates_of_a_query_on_one_attribute_must_hold(case, cut_number):
    engine = open_engine()
    t = kind_of([*case["probes"], *(p["const"] for p in case["predicates"])])
    engine.stream("s", pa.schema([("a", t)]))
    conditions: dict[str, list[str]] = {}
    for p in case["predicates"]:
        conditions.setdefault(p["query"], []).append(f"a {p['op']} {literal(p['const'])}")
    names = {}
    for name, parts in conditions.items():
        names[engine.query(f"SELECT a FROM s WHERE {' AND '.join(parts)}", name=name).id] = name
    found = []
    for probes in cut(case["probes"], cut_number):
        offsets, ids = engine.push("s", pa.table({"a": pa.array(probes, t)})).pairs()
        found += [sorted(names[i] for i in ids[offsets[k] : offsets[k + 1]]) for k in range(len(probes))]
    assert found == [sorted(expected) for expected in case["expected"]]


# --------------------------------------------------------------------------------------------- events

POLICIES = ("random", "tickets", "fixed", "auto")


def node(clause: list[dict[str, Any]], places: dict[str, int]) -> Node:
    """A clause as the twin has it: comparisons with constants, one of which must hold."""
    parts: list[Node] = []
    for atom in clause:
        alias, _, name = atom["col"].partition(".")
        parts.append(Apply(atom["op"], (Of(places[alias], name), Literal(atom["const"]))))
    return parts[0] if len(parts) == 1 else Apply("or", tuple(parts))


def query_of(given: dict[str, Any]) -> JoinQuery:
    """A query of the vectors. Its time windows become conditions: no row is more than its window older than any other."""
    places = {entry["alias"]: at for at, entry in enumerate(given["from"])}
    where = [node(clause, places) for clause in given["where"]]
    for predicate in given["join"]:
        sides = [predicate[side].partition(".") for side in ("left", "right")]
        where.append(Apply(predicate["op"], tuple(Of(places[alias], name) for alias, _, name in sides)))
    sources = []
    for at, entry in enumerate(given["from"]):
        window = entry.get("window") or {}
        bound = Bound("rows", window["n"]) if window.get("kind") == "count" else None
        sources.append(Source(entry["alias"], entry["stream"], bound))
        if window.get("kind") == "time":
            within = Literal(datetime.timedelta(seconds=window["t"]))
            others = [other for other in range(len(places)) if other != at]
            where += [Apply("<", (Apply("-", (Of(o, "ts"), Of(at, "ts"))), within)) for o in others]
    ids = tuple(Of(at, "id_") for at in range(len(sources)))
    return JoinQuery(tuple(sources), tuple(where), ids, has_commas=True)


@dataclass
class Events:
    """A case in order: the schema of each stream, and steps that are tuples, or an addition or removal between rounds."""

    schemas: dict[str, pa.Schema]
    steps: list[tuple[str, Any]]  # tuples: (arrival, stream, values) in order; add: (id, query); remove: id

    @staticmethod
    def of(case: dict[str, Any]) -> Events:
        streams: dict[str, list[dict[str, Any]]] = {}
        constants: dict[tuple[str, str], list[Any]] = {}
        for event in case["events"]:
            if event["op"] == "tuple":
                streams.setdefault(event["stream"], []).append(event["values"])
            elif event["op"] == "add":
                aliases = {entry["alias"]: entry["stream"] for entry in event["query"]["from"]}
                for entry in event["query"]["from"]:
                    streams.setdefault(entry["stream"], [])
                named = [(atom["col"], atom["const"]) for atom in atoms(event["query"]["where"])]
                for predicate in event["query"]["join"]:
                    named += [(predicate["left"], None), (predicate["right"], None)]
                for column, constant in named:
                    alias, _, name = column.partition(".")
                    constants.setdefault((aliases[alias], name), []).append(constant)
        schemas = {
            stream: schema.append(pa.field("ts", pa.timestamp("us", tz="UTC")))
            for stream, schema in schemas_of(streams, constants).items()
        }
        steps: list[tuple[str, Any]] = []
        for number, event in enumerate(case["events"]):
            if event["op"] == "add":
                steps.append(("add", (event["query"]["id"], query_of(event["query"]))))
            elif event["op"] == "remove":
                steps.append(("remove", event["id"]))
            else:
                known = {name: event["values"].get(name) for name in schemas[event["stream"]].names}
                known |= {"id_": event["id"], "ts": EPOCH + datetime.timedelta(seconds=event["ts"])}
                if not steps or steps[-1][0] != "tuples":
                    steps.append(("tuples", []))
                steps[-1][1].append((number + 1, event["stream"], known))
        return Events(schemas, steps)

    def rounds(self, cut_number: int) -> Iterator[tuple[str, Any]]:
        """The steps, with the tuples between two changes in one round or several."""
        for kind, what in self.steps:
            if kind != "tuples":
                yield kind, what
                continue
            for some in cut(what, cut_number):
                by_stream: dict[str, list[tuple[int, dict[str, Any]]]] = {}
                for arrival, stream, values in some:
                    by_stream.setdefault(stream, []).append((arrival, values))
                yield "round", by_stream


def expected_of(case: dict[str, Any]) -> dict[str, list[list[int]]]:
    return {name: sorted(rows) for name, rows in case["expected"].items() if rows}


@pytest.mark.parametrize("case", cases("event_cases"))
@pytest.mark.parametrize("cut_number", range(N_CUTS))
def test_the_twin_of_joins_gives_what_the_vectors_say(case, cut_number):
    """What judges joins elsewhere is judged here, alone."""
    events = Events.of(case)
    twin = Twin(Declared(name, {}, time="ts") for name in events.schemas)
    standing: set[str] = set()
    heard: dict[str, list[list[int]]] = {}
    for kind, what in events.rounds(cut_number):
        if kind == "add":
            twin.add(*what)
            standing.add(what[0])
        elif kind == "remove" and what in standing:
            twin.drop(what)
            standing.remove(what)
        elif kind == "round":
            for name, found in twin.push(what, now_us=0).items():
                for (arrivals, ids), n in found.items():
                    heard.setdefault(name, []).extend([[max(arrivals) - 1, *ids]] * n)
    assert {name: sorted(rows) for name, rows in heard.items()} == expected_of(case)


@pytest.mark.thorough
@pytest.mark.parametrize("case", cases("event_cases"))
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("cut_number", range(N_CUTS))
def test_events_give_their_results_under_every_policy_and_cut(case, policy, cut_number):
    """Joins and selections, added and removed while tuples arrive.

    Afterwards no more is held than windows still cover, once every stream has come as far as the last tuple.
    """
    events = Events.of(case)
    engine = open_engine(routing=policy, seed=cut_number)
    for stream, schema in events.schemas.items():
        engine.stream(stream, schema, time="ts")
    standing: dict[str, Any] = {}
    heard: dict[str, list[list[int]]] = {}
    for kind, what in events.rounds(cut_number):
        if kind == "add":
            standing[what[0]] = engine.query(what[1].text(), name=what[0])
        elif kind == "remove" and what in standing:
            standing.pop(what).drop()
        elif kind == "round":
            engine.push({name: [{**row, "_arrival": at} for at, row in rows] for name, rows in what.items()})
            for name, query in standing.items():
                for result in query.results():
                    heard.setdefault(name, []).append([max(arrivals_of(result)) - 1, *result.values()])
    assert {name: sorted(rows) for name, rows in heard.items()} == expected_of(case)

    last = max(event["ts"] for event in case["events"] if event["op"] == "tuple")
    newest = {"ts": EPOCH + datetime.timedelta(seconds=last)}
    engine.push({name: [newest | {"_arrival": 1_000_000 + at}] for at, name in enumerate(events.schemas)})
    held = {stream: facts["rows"] for stream, facts in engine.joins().items()}
    for stream, bound in case["state_bound"].items():
        assert held.get(stream, 0) <= bound + 1, (stream, held)


def arrivals_of(result: Any) -> tuple[int, ...]:
    """The arrival numbers of the rows of a result."""
    return tuple(getattr(result, "arrivals", None) or (result.arrival,))


# --------------------------------------------------------------------------------------------- stocks


def generator(seed: int) -> Callable[[int], int]:
    """The vectors' own random numbers: `draw(m)` is below m."""
    x = seed

    def draw(m: int) -> int:
        nonlocal x
        x = (1103515245 * x + 12345) % 2**31
        return (x >> 16) % m

    return draw


@pytest.mark.parametrize("case", cases("stocks_cases"))
@pytest.mark.parametrize("articles_first", [True, False])
def test_stocks_meet_their_articles(case, articles_first):
    draw = generator(case["seed"])
    thresholds = [0.0] + [(draw(10_000) + 1) / 100 for _ in range(case["queries"] - 1)]
    prices = [(draw(10_000) + 1) / 100 for _ in range(case["stocks"])]
    n_articles = case["articles_per_stock"]
    engine = open_engine()
    engine.stream("stocks", "sym BIGINT, price DOUBLE")
    engine.stream("articles", "sym BIGINT, n BIGINT")
    queries = engine.query_many(
        "SELECT s.sym, a.n FROM recent(stocks, 1000000) s JOIN recent(articles, 1000000) a ON s.sym = a.sym "
        "WHERE s.price > :x",
        params={"x": thresholds},
    )
    symbols = np.arange(case["stocks"])
    stocks = pa.table({"sym": symbols, "price": prices})
    articles = pa.table({"sym": np.repeat(symbols, n_articles), "n": np.arange(len(symbols) * n_articles)})
    pushes = [("articles", articles), ("stocks", stocks)]
    n_results: Counter[int] = Counter()
    for stream, table in pushes if articles_first else pushes[::-1]:
        for first in range(0, len(table), 1_000):
            matches = engine.push(stream, table.slice(first, 1_000))
            n_results.update({query.id: len(matches.to_arrow(query)) for query in queries})
    assert [n_results[query_id] for query_id in queries.ids] == case["expected"]["results_per_query"]


# --------------------------------------------------------------------------------------------- scale


def workload(case: dict[str, Any]) -> tuple[list[list[tuple[str, str, int]]], np.ndarray]:
    """Queries as lists of predicates, and tuples as rows of five values, from the case's generator."""
    draw = generator(case["seed"])
    queries = []
    for _ in range(case["queries"]):
        predicates = []
        for attribute in "abcde":
            if draw(2) == 0:
                operator = ["<", ">", "<=", ">="][draw(4)]
                predicates.append((attribute, operator, draw(100)))
        queries.append(predicates)
    return queries, np.array([[draw(100) for _ in range(5)] for _ in range(case["tuples"])], dtype=np.int64)


@pytest.mark.thorough
@pytest.mark.parametrize("case", cases("scale_cases"))
def test_many_queries_match_as_their_digest_says(case):
    queries, values = workload(case)
    engine = open_engine()
    engine.stream("s", pa.schema([(name, pa.int64()) for name in "abcde"]))
    number_of: dict[int, int] = {}
    shapes: dict[tuple[tuple[str, str], ...], list[int]] = {}
    for number, predicates in enumerate(queries):
        shapes.setdefault(tuple((a, o) for a, o, _ in predicates), []).append(number)
    for shape, numbers in shapes.items():
        if not shape:
            made = engine.query_many(["SELECT a FROM s"] * len(numbers))
        else:
            where = " AND ".join(f"{a} {o} :{a}" for a, o in shape)
            table = {a: [queries[n][k][2] for n in numbers] for k, (a, _) in enumerate(shape)}
            made = engine.query_many(f"SELECT a FROM s WHERE {where}", params=pa.table(table))
        number_of.update(zip(made.ids, numbers, strict=True))
    translate = np.zeros(max(number_of) + 1, dtype=np.uint64)
    translate[list(number_of)] = list(number_of.values())

    total, digest, first = 0, np.uint64(0), []
    for start in range(0, len(values), 170):  # uneven rounds
        rows = values[start : start + 170]
        matches = engine.push("s", pa.table({name: rows[:, k] for k, name in enumerate("abcde")}))
        offsets, ids = matches.pairs()
        t = np.repeat(np.arange(start, start + len(rows), dtype=np.uint64), np.diff(offsets))
        with np.errstate(over="ignore"):
            terms = (translate[ids] + np.uint64(1)) * np.uint64(2654435761) + (t + np.uint64(1)) * np.uint64(
                40503
            )
            digest += terms.sum(dtype=np.uint64)
        total += matches.count
        first += np.diff(offsets).tolist()
    assert total == case["expected"]["total"]
    assert first[:5] == case["expected"]["first_tuples"]
    assert str(digest) == case["expected"]["digest"]
