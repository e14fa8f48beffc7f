"""Every refusal, of every address, says what is wrong and what to do, in one form; none is a fault of the server."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from tests.server.served import AppClient, House, house, in_process
from tests.server.test_owners import OPERATIONS, Operation

NAMES = ("nothing", "cheap", "99-1-1", "0")
BODIES = (b"{", b"[]", b"{}", b'{"x": 1}', b'"x"')
NEEDS_SPARK = "/api/v1/results/{id}/prove"


def wrong_requests(operation: Operation) -> Iterator[dict[str, Any]]:
    """Names that are not there, parameters and bodies that do not fit."""
    places = [each["name"] for each in operation.parameters("path")]
    paths = dict.fromkeys(operation.path.format(**dict.fromkeys(places, name)) for name in NAMES)
    queries = [{}, *({each["name"]: "\x00bad"} for each in operation.parameters("query"))]
    bodies = [None] if operation.method in ("GET", "DELETE") else BODIES
    for url, params, content in itertools.product(paths, queries, bodies):
        is_stream = operation.is_endless and not params.keys() - {"owner"}  # it would be opened
        if not is_stream and operation.path != NEEDS_SPARK:
            yield {"path": url, "params": params, "content": content}


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[House, AppClient]]:
    with house(None) as home, in_process(home.engine) as client:
        yield home, client


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda o: f"{o.method} {o.path}")
def test_a_refusal_has_a_problem_and_a_hint(served, operation):
    home, client = served
    for request, who in itertools.product(wrong_requests(operation), ("admin", "reader", "nobody")):
        headers = {"content-type": "application/json"} | (home.headers(who) if who in home.tokens else {})
        answer = client.request(operation.method, headers=headers, **request)
        assert answer.status_code < 500, (request, answer.text)
        if answer.status_code >= 400:
            error = answer.json()["error"]
            assert error.keys() >= {"kind", "problem", "detail", "hint", "span"}
            assert error["problem"], request
            assert error["hint"], (request, error)
