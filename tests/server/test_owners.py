"""Nothing of another owner can be reached: every address of /openapi.json is asked for it, in every way the page allows.

What to send is made from the page, so that a new address is tried without being named here. Vera has queries, results, alerts and
dead letters, all of which hold a word that mallory never sends. Vera finds it at every address that gives something; mallory must
find it at none, and can change nothing of hers.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

import eddyline
from eddyline.catalog import ROLES
from eddyline.server import Service, create_app, live
from eddyline.server.listing import Family
from tests.server.served import FAST, TRADES, client_of, in_process, on_loopback

PAGE = Path(__file__).parents[2] / "docs" / "server.md"
WORD = "xyzzy"  # only vera knows it
TEXT = "SELECT sym FROM trades WHERE price > 7"  # of a query whose name holds the word
NAMES_HERS = {"query", "id", "owner"}  # parameters whose values below are vera's
NEEDS_SPARK = {"/api/v1/results/{id}/prove"}  # tests/server/browser, with Spark


# --------------------------------------------------------------------------------------------- the page


@dataclass(frozen=True)
class Operation:
    """A method of an address, as the page describes it."""

    method: str
    path: str
    document: dict[str, Any] = field(repr=False, compare=False)

    @property
    def role(self) -> str | None:
        """The least it needs; None if anybody may ask."""
        role: str | None = self.document.get("x-eddyline-role")
        return role

    @property
    def is_endless(self) -> bool:
        return "text/event-stream" in self.document["responses"].get("200", {}).get("content", {})

    def parameters(self, place: str) -> list[dict[str, Any]]:
        return [each for each in self.document.get("parameters", ()) if each["in"] == place]

    @property
    def may_show_hers(self) -> bool:
        """Whether it gives something of a query that is named."""
        named = {each["name"] for each in self.document.get("parameters", ())}
        if self.path.endswith("/results/arrow"):  # values alone, without the name or text of the query
            return False
        return self.method == "GET" and bool(named & NAMES_HERS)


def page() -> dict[str, Any]:
    with eddyline.open() as engine:
        found: dict[str, Any] = create_app(Service.of(engine, FAST)).openapi()
        return found


DOCUMENT = page()
OPERATIONS = [
    Operation(method.upper(), path, document)
    for path, methods in DOCUMENT["paths"].items()
    for method, document in methods.items()
]
EVERY = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda o: f"{o.method} {o.path}")


# --------------------------------------------------------------------------------------------- what to send

VALUES: dict[str, list[Any]] = {  # of parameters and of fields of bodies, by name
    "query": ["watched", "q1", "2", "q3", "summed"],
    "id": ["1-1-1", "1-2-2", "1-1-3", "1-2-3", "1"],
    "owner": ["vera"],
    "name": ["trades", "watched"],
    "bound": [True],
    "stream": ["trades"],
    "family": [Family("SELECT sym, cast(note AS INT) AS n FROM trades WHERE sym <> :word", "vera").key],
    "fold": [True],
    "trend": ["5"],
    "version": ["1"],
    "samples": [5],
    "timeout": [1.0],
    "filter": ["sym"],
    "after": ["0"],
    "before": ["1000"],
    "newest": ["1000"],
    "cascade": ["true", "false"],
    "limit": ["1000"],
    "last": ["1000"],
    "page": ["1"],
    "per_page": ["500"],
    "queue": ["10"],
    "last-event-id": ["0"],
    "idempotency-key": ["once"],
    "text": [TEXT, "CREATE OR REPLACE VIEW watched TBLPROPERTIES (owner = 'vera') AS SELECT sym FROM trades"],
    "template": ["SELECT sym FROM trades"],
    "queries": [{"watched": TEXT}],
    "properties": [{"owner": "vera"}, {"OWNER": "vera"}, {"deliver": "ops"}],
    "params": [{}, [{}]],
    "replace": [True],
    "row": [{"price": 100.0}],
    "schema": [TRADES],
    "time": ["sym"],
    "time_unit": ["s"],
    "time_format": ["iso"],
    "marks": [True],
    "lateness": [1],
    "key": ["sym"],
    "window": ["10 rows"],
    "idle": ["1 minute"],
    "delete": ["gone"],
    "files": [{"watched.sql": TEXT}],
    "prune": [True],
    "dry_run": [True],
    "role": ["reader"],
    "note": ["x"],
    "expires": ["1 day"],
    "token": ["edl_0_0"],
    "silenced": [True],
    "acknowledged": [True],
    "alerts": ["500"],
    "for": ["1 hour"],
    "until": ["2020-01-01"],
    "reason": ["x"],
    "where": ['{"n": 1}'],
    "order": ["n DESC"],
    "having": [False],
}


def values_of(operation: Operation, name: str, schema: dict[str, Any]) -> list[Any]:
    enumerated = [value for each in (schema, *schema.get("anyOf", ())) for value in each.get("enum", ())]
    known = enumerated or VALUES.get(name)
    assert known, f"what could be sent as {name} of {operation.method} {operation.path}? VALUES has to say"
    return known


@dataclass(frozen=True)
class Sent:
    method: str
    address: str
    query: dict[str, Any]
    headers: dict[str, str]
    body: Any
    names_hers: bool


def requests_to(operation: Operation) -> Iterator[Sent]:
    """Each thing an address may name, without and with each parameter, with each body."""
    places = operation.parameters("path")
    choices = [values_of(operation, each["name"], each["schema"]) for each in places]
    optional = [
        (each["in"], each["name"], value)
        for each in operation.parameters("query") + operation.parameters("header")
        for value in values_of(operation, each["name"], each["schema"])
    ]
    naming = [given for given in optional if given[1] in NAMES_HERS and given[2] in ("watched", "vera")]
    for named in itertools.product(*choices):
        path_values = dict(zip((each["name"] for each in places), named, strict=True))
        for given in [[], *([each] for each in optional), naming]:
            for body in bodies_of(operation):
                yield Sent(
                    operation.method,
                    operation.path.format(**path_values),
                    {name: value for place, name, value in given if place == "query"},
                    {name: value for place, name, value in given if place == "header"},
                    body,
                    bool(NAMES_HERS & {*path_values, *(name for _, name, _ in given)}),
                )


def bodies_of(operation: Operation) -> list[Any]:
    """What is required alone, and with each field that may be there."""
    content = operation.document.get("requestBody", {}).get("content", {})
    if not content:
        return [None]
    schema = content["application/json"]["schema"]
    if "$ref" not in schema:
        return [[{"sym": "D", "price": 5.0}]]  # rows
    schema = DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    fields = {name: values_of(operation, name, each) for name, each in schema["properties"].items()}
    required = [{}]
    for name in schema.get("required", ()):
        required = [body | {name: value} for body in required for value in fields[name]]
    more = [{name: value} for name, known in fields.items() for value in known]
    return [*required, *(body | each for body in required for each in more if each.keys() - body.keys())]


# --------------------------------------------------------------------------------------------- who asks


class Village:
    """Vera's queries, and one of mallory's, over a stream both see."""

    def __init__(self, engine: eddyline.Engine, ends: ExitStack) -> None:
        self.engine = engine
        self._ends = ends
        self._client = ends.enter_context(in_process(engine))
        self._over_wire: httpx.Client | None = None
        engine.stream("trades", TRADES)
        hers = {"owner": "vera", "resolve": "1 hour", "message": f"{WORD} {{sym}}", "severity": "info"}
        where = f"sym <> '{WORD}' AND NOT sym RLIKE '{WORD}' AND NOT sym RLIKE 'another'"
        engine.query(f"SELECT sym, price FROM trades WHERE {where}", name="watched", **hers)
        engine.query(TEXT, name=f"{WORD} dear", **hers)
        met = f"concat('{WORD}', a.sym) = concat('{WORD}', b.sym)"
        engine.query(
            f"SELECT a.sym FROM trades a JOIN recent(trades, 2) b ON {met}", name=f"{WORD} met", owner="vera"
        )
        engine.query_many(
            "SELECT sym, cast(note AS INT) AS n FROM trades WHERE sym <> :word",
            params=[{"word": WORD}],
            name=f"{WORD}-{{word}}",
            owner="vera",
        )
        engine.query("SELECT sym FROM trades WHERE price < 10", name="mine", owner="mallory")
        called = f"concat('{WORD}', sym)"
        engine.query(f"SELECT count(*) AS n FROM trades GROUP BY {called}", name="summed", owner="vera")
        self._first_ids = {query.id for query in engine.queries(per_page=1_000)}
        rows = [{"sym": "ACME", "price": 9.5, "note": "1"}, {"sym": "BOLT", "price": 95.0, "note": "x"}]
        engine.push("trades", rows)
        engine.silence("watched", owner="vera", for_="1 day", reason=WORD, by=WORD)
        engine.acknowledge("watched", owner="vera", note=WORD, by=WORD)
        tokens = engine.access.tokens
        self.tokens = {
            "vera": tokens.add("author", 0, owner="vera", note=WORD)[1],
            "mallory": tokens.add("author", 0, owner="mallory")[1],
            "mallory, who reads": tokens.add("reader", 0, owner="mallory")[1],
            **{role: tokens.add(role, 0, owner="somebody")[1] for role in ROLES},
        }

    def headers(self, who: str) -> dict[str, str]:
        return {"X-Eddyline": "1"} | (
            {} if who == "nobody" else {"Authorization": f"Bearer {self.tokens[who]}"}
        )

    def hers(self) -> list[Any]:
        """All that can be changed of vera's."""
        catalog = self.engine.rounds.catalog
        records = [catalog.record(query_id) for query_id in catalog.queries.ids()]
        return [
            (r.name, r.text, r.state, r.generation, r.properties)
            for r in records
            if r.properties.owner == "vera"
        ] + [
            *(silence for silence in self.engine.silences(over=None) if silence.owner != "mallory"),
            *(alert.acknowledgement for alert in self.engine.alerts(owner="vera")),
        ]

    def ask(self, operation: Operation, who: str, sent: Sent) -> httpx.Response:
        how: dict[str, Any] = {"params": sent.query, "headers": self.headers(who) | sent.headers}
        if sent.body is not None:
            how["json"] = sent.body
        is_refused = who == "nobody" or operation.role == "admin"
        if operation.is_endless and not is_refused:
            return self.listened(sent, how)
        return self._client.request(sent.method, sent.address, **how)

    def listened(self, sent: Sent, how: dict[str, Any]) -> httpx.Response:
        """What comes of a stream of events until nothing more does."""
        if self._over_wire is None:
            serving = self._ends.enter_context(on_loopback(self.engine))
            self._over_wire = self._ends.enter_context(client_of(serving))
        with self._over_wire.stream(sent.method, sent.address, **how) as answer:
            if answer.status_code != 200:
                return httpx.Response(answer.status_code, content=answer.read())
            lines = itertools.takewhile(lambda line: line != ": still here", answer.iter_lines())
            return httpx.Response(200, text="\n".join(lines))

    def tidy(self) -> None:
        """As it was, as far as mallory may change it."""
        ids = {query.id for query in self.engine.queries(per_page=1_000)}
        self.engine.drop_ids(sorted(ids - self._first_ids))


@contextmanager
def founded(folder: Path) -> Iterator[Village]:
    with (
        pytest.MonkeyPatch.context() as patch,
        eddyline.open(folder / "home") as engine,
        ExitStack() as ends,
    ):
        patch.setattr(live, "KEEP_ALIVE_S", 0.02)
        yield Village(engine, ends)


@pytest.fixture(scope="module")
def old_village(tmp_path_factory) -> Iterator[Village]:
    with founded(tmp_path_factory.mktemp("village")) as found:
        yield found


@pytest.fixture
def village(old_village) -> Iterator[Village]:
    yield old_village
    old_village.tidy()


@pytest.fixture
def her_village(request, tmp_path) -> Iterator[Village]:
    """One in which vera may change something; the same as for all if she only looks."""
    if request.getfixturevalue("operation").method == "GET":
        yield request.getfixturevalue("village")
        return
    with founded(tmp_path) as found:
        yield found


@EVERY
def test_another_owner_finds_and_changes_nothing_of_hers(village, operation):
    before = village.hers()
    for sent in requests_to(operation):
        for who in ("mallory", "mallory, who reads"):
            answer = village.ask(operation, who, sent)
            assert WORD not in answer.text, (who, sent)
            assert WORD not in str(answer.headers), (who, sent)
            assert answer.status_code < 500, (who, sent, answer.text)
            if sent.names_hers:
                assert answer.status_code >= 400, (who, sent, answer.text)
    assert village.hers() == before


@EVERY
def test_what_is_sent_is_what_she_would_send_herself(her_village, operation):
    """Else the test above would show nothing: vera is answered, and finds her word wherever something of hers is given."""
    if operation.role == "admin" or operation.path in NEEDS_SPARK or operation.path == "/api/v1/session":
        return
    found = []
    for sent in requests_to(operation):
        answer = her_village.ask(operation, "vera", sent)
        found.append((answer.status_code, WORD in answer.text))
        if answer.status_code < 300 and (WORD in answer.text or not operation.may_show_hers):
            break
    assert found[-1][0] < 300, found
    assert found[-1][1] or not operation.may_show_hers, found


@EVERY
def test_a_role_that_is_not_enough_is_refused_whatever_is_sent(village, operation):
    if operation.role is None:
        return
    before = village.engine.version
    for who in ("nobody", *ROLES[: ROLES.index(operation.role)]):
        for sent in requests_to(operation):
            answer = village.ask(operation, who, sent)
            assert answer.status_code == (401 if who == "nobody" else 403), (who, sent, answer.text)
    assert village.engine.version == before


def test_every_address_says_who_may_ask_and_the_page_of_the_server_says_the_same():
    open_to_all = {o.path for o in OPERATIONS if o.role is None}
    assert open_to_all == {"/api/v1/session", "/health", "/ready"}
    said: dict[tuple[str, str], str] = {}
    table = PAGE.read_text(encoding="utf-8").partition("| under `/api/v1`")[2].partition("\n\n")[0]
    for line in table.splitlines()[2:]:
        addresses, role = (cell.strip(" |") for cell in line.split(" | ")[:2])
        method, also = "", []
        for words in re.findall(r"`([^`]+)`", addresses):
            named, _, path = words.rpartition(" ")
            if path.isupper():  # the address comes with the next method
                also.append(path)
                continue
            method = named or method
            for each in (*also, method):
                said[each, f"/api/v1{path.replace('…', '/queries/{query}')}"] = role
            also = []
    there = {(o.method, o.path): o.role for o in OPERATIONS if o.role and o.path != "/api/v1/session"}
    assert {key: role for key, role in said.items() if key[1] != "/api/v1/session"} == there
