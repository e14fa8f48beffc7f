"""Names that moved stay where they were for one release, and say where they are now."""

from __future__ import annotations

import importlib

import pytest

import eddyline.api
import eddyline.pipeline
import eddyline.rules


@pytest.mark.parametrize(
    ("old", "room", "names"),
    [
        ("eddyline.api.rules", eddyline.rules, ["apply", "apply_rules", "desired", "plan", "rollback"]),
        ("eddyline.api.pipeline", eddyline.pipeline, ["find_pipeline", "load_pipeline", "read_pipeline"]),
        ("eddyline.api.runner", eddyline.api, ["run"]),
    ],
)
def test_a_documented_name_is_found_in_both_places_and_warns_in_the_old_one(old, room, names):
    module = importlib.import_module(old)
    for name in names:
        with pytest.warns(DeprecationWarning, match=f"{old}.{name} moved to {room.__name__}.{name}"):
            assert getattr(module, name) is getattr(room, name)


def test_a_name_that_never_was_there_is_refused():
    module = importlib.import_module("eddyline.api.rules")
    with pytest.raises(AttributeError, match=r"module 'eddyline\.api\.rules' has no attribute 'aply'"):
        getattr(module, "aply")  # noqa: B009
