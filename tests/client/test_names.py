"""The client has the words of the engine: the same names, with the same parameters in the same order."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from eddyline.api import Engine, Query, QueryPage, StreamHandle
from eddyline.client import RemoteEngine, RemoteQuery, RemoteQueryPage, RemoteStream

PAIRS = [
    (RemoteEngine, Engine),
    (RemoteQuery, Query),
    (RemoteStream, StreamHandle),
    (RemoteQueryPage, QueryPage),
]
NOT_FROM_AFAR: dict[type, dict[str, str]] = {
    Engine: {
        **dict.fromkeys(("start", "warm_up", "tick"), "rounds run where the server is"),
        **dict.fromkeys(("results_frame", "append_results"), "Spark runs there, too"),
        **dict.fromkeys(("on_message", "on_event"), "follow_messages; events"),
        **dict.fromkeys(("serve", "listen", "access"), "what a server does with it"),
        **dict.fromkeys(("backup", "counters", "watch_pipeline"), "who runs it: docs/operations.md"),
        **dict.fromkeys(("audited", "finish_audit", "start_audit", "stop_audit"), "who runs it"),
        **dict.fromkeys(("table", "reload"), "their files lie where the server is: declare them there"),
        "functions": "Python of that process",
        "sql": "streams are declared and queries registered each by its own word",
        "drop_ids": "drop, one by one",
    },
    Query: {
        "on_result": "follow",
        "schema": 'facts()["columns"]: types as text',
        "n_dropped": "of the rings in the memory of that process",
    },
    StreamHandle: {
        **dict.fromkeys(
            ("n_rows", "n_late", "n_queries", "partitions"), "attributes: as it was when it was asked for"
        ),
        "watermark_us": "watermark, as text",
    },
    QueryPage: {},
}
NOT_TAKEN = {
    "prove": {"spark", "on_wait"},  # that of the server
    **{name: {"by"} for name in ("acknowledge", "silence", "end_silence")},  # the holder of the token
}


def public(which: type) -> set[str]:
    return {name for name in dir(which) if not name.startswith("_")}


@pytest.mark.parametrize(("remote", "local"), PAIRS, ids=lambda which: which.__name__)
def test_the_client_has_every_word_that_makes_sense_from_afar(remote, local):
    missing = public(local) - public(remote)
    assert missing == set(NOT_FROM_AFAR[local])


@pytest.mark.parametrize(("remote", "local"), PAIRS, ids=lambda which: which.__name__)
def test_a_word_takes_what_it_takes_of_the_engine(remote, local):
    for name in sorted(public(remote) & public(local) - public(list)):
        here, there = inspect.getattr_static(remote, name), inspect.getattr_static(local, name)
        assert type(here) is type(there), name
        if not inspect.isfunction(here):
            continue
        ours, theirs = parameters(here), parameters(there)
        left_out = set(theirs) - set(ours)
        assert left_out == NOT_TAKEN.get(name, set()), name
        known = [parameter for parameter in ours if parameter in theirs]
        assert known == [parameter for parameter in theirs if parameter in ours], name
        for parameter in known:
            assert ours[parameter].kind == theirs[parameter].kind, f"{parameter} of {name}"
        for parameter in set(ours) - set(theirs):
            assert ours[parameter].kind is inspect.Parameter.KEYWORD_ONLY, f"{parameter} of {name}"


def parameters(function: Any) -> dict[str, inspect.Parameter]:
    return dict(list(inspect.signature(function).parameters.items())[1:])
