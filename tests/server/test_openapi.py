"""Random requests made from /openapi.json: none makes the server fail, and every answer is as the page says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis
import schemathesis
from hypothesis import HealthCheck, Phase
from schemathesis.checks import CHECKS

from tests.conftest import SEED
from tests.server.served import house, in_process

EXAMPLES = 5  # of each route
ENDLESS = {"/api/v1/results/stream", "/api/v1/alerts/stream"}  # tests/server/test_live.py
NEEDS_SPARK = {"/api/v1/results/{id}/prove"}
WANTED = {
    "not_a_server_error",
    "response_schema_conformance",
    "status_code_conformance",
    "content_type_conformance",
}


def test_no_request_made_from_the_page_breaks_what_the_page_says(tmp_path):
    with house(tmp_path / "home") as home, in_process(home.engine) as client:
        schema = schemathesis.openapi.from_dict(client.get("/openapi.json").json())
        checks = [check for check in CHECKS.get_all() if check.__name__ in WANTED]
        assert {check.__name__ for check in checks} == WANTED
        asked: list[str] = []

        def ask(case: Any) -> None:
            request = case.as_transport_kwargs(base_url="http://127.0.0.1")
            headers = dict(request.get("headers") or {}) | home.headers("admin") | {"X-Eddyline": "1"}
            given = {name: request[name] for name in ("json", "params") if request.get(name) is not None}
            if "data" in request:
                given["content"] = request["data"]
            answer = client.request(request["method"], request["url"], headers=headers, **given)
            asked.append(f"{request['method']} {case.operation.path} {answer.status_code}")
            case.validate_response(answer, checks=checks)

        for found in schema.get_all_operations():
            operation = found.ok()
            if operation.path not in ENDLESS | NEEDS_SPARK:
                limited(hypothesis.given(case=operation.as_strategy())(ask))()
        assert len(asked) > 150, asked


def limited(test: Callable[..., None]) -> Callable[..., None]:
    """A property with few examples, the same on every run."""
    settings = hypothesis.settings(
        max_examples=EXAMPLES,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
        deadline=None,
        database=None,
    )
    limited_test: Callable[..., None] = hypothesis.seed(SEED)(settings(test))
    return limited_test
