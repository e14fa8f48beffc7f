from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from eddyline.durations import duration_us
from eddyline.errors import PropertyError, UnknownNameError
from eddyline.model import Properties
from eddyline.sql import properties, size_bytes


@pytest.mark.parametrize(
    ("value", "us"),
    [
        ("5 minutes", 300_000_000),
        ("1 hour 30 seconds", 3_630_000_000),
        ("500 ms", 500_000),
        ("1.5s", 1_500_000),
        ("2 days, 1 hour", 176_400_000_000),
        ("1 week", 604_800_000_000),
        ("10 us", 10),
        ("INTERVAL 5 MINUTES", 300_000_000),
        (timedelta(seconds=2), 2_000_000),
        (0, 0),
        (0.25, 250_000),
    ],
)
def test_durations_have_many_spellings(value: Any, us: int) -> None:
    assert duration_us(value) == us


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("soon", "'soon' is not a duration"),
        ("5", "'5' is not a duration"),
        ("5 parsecs", "'5 parsecs' is not a duration"),
        ("5 minutes later", "'5 minutes later' is not a duration"),
        ("", "'' is not a duration"),
        (True, "True is not a duration"),
        (None, "None is not a duration"),
        (-1, "-1 is negative"),
    ],
)
def test_what_is_no_duration_is_refused(value: Any, problem: str) -> None:
    with pytest.raises(PropertyError) as refused:
        duration_us(value)
    assert (refused.value.problem, refused.value.hint) == (problem, "Write a duration such as '5 minutes'.")


def test_sizes_are_read_in_bytes() -> None:
    assert [size_bytes(v) for v in ("64 MB", "1.5 KiB", 100, "2gb")] == [64 << 20, 1536, 100, 2 << 30]
    with pytest.raises(PropertyError) as refused:
        size_bytes("64 horses")
    assert (refused.value.problem, refused.value.hint) == (
        "'64 horses' is not a size",
        "Write a size such as '64 MB'.",
    )
    with pytest.raises(PropertyError, match=r"1\.5 is not a size"):
        size_bytes(1.5)


def test_all_properties_are_read_from_text() -> None:
    assert properties(
        {
            "owner": "ops",
            "enabled": "false",
            "per": "sym, sector",
            "cooldown": "5 minutes",
            "for": "1 s",
            "resolve": "2 s",
            "emit": "FINAL",
            "within": "3 s",
            "deliver": "ops,mail",
            "message": "{sym} is cheap",
            "severity": "Critical",
            "since": "2024-01-01",
            "memory": "64 MB",
        }
    ) == Properties(
        owner="ops",
        is_enabled=False,
        per=("sym", "sector"),
        cooldown_us=300_000_000,
        for_us=1_000_000,
        resolve_us=2_000_000,
        emit="final",
        within_us=3_000_000,
        deliver=("ops", "mail"),
        message="{sym} is cheap",
        severity="critical",
        since="2024-01-01",
        memory_bytes=64 << 20,
    )


def test_python_may_give_values_and_spell_for_with_an_underscore() -> None:
    found = properties({"for_": timedelta(seconds=1), "per": ["a", "b"], "enabled": True, "cooldown": None})
    assert found == Properties(for_us=1_000_000, per=("a", "b"))


@pytest.mark.parametrize(
    ("given", "problem", "hint"),
    [
        ({"enabled": "maybe"}, "property enabled: 'maybe' is neither true nor false", None),
        (
            {"emit": "chnges"},
            "property emit: 'chnges' is not one of changes, final, request",
            "Did you mean changes?",
        ),
        ({"owner": 5}, "property owner: 5 is not a text", None),
        (
            {"per": 5},
            "property per: 5 is not a list of names",
            "Write names separated by commas, such as 'a, b'.",
        ),
        (
            {"per": "a,,b"},
            "property per: 'a,,b' is not a list of names",
            "Write names separated by commas, such as 'a, b'.",
        ),
        (
            {"cooldown": "x"},
            "property cooldown: 'x' is not a duration",
            "Write a duration such as '5 minutes'.",
        ),
    ],
)
def test_a_value_that_cannot_be_used_is_refused(
    given: dict[str, Any], problem: str, hint: str | None
) -> None:
    with pytest.raises(PropertyError) as refused:
        properties(given)
    assert (refused.value.problem, refused.value.hint) == (problem, hint)


def test_an_unknown_property_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError) as refused:
        properties({"cooldwn": "5 minutes"})
    assert (refused.value.problem, refused.value.hint) == (
        "there is no property cooldwn",
        "Did you mean cooldown?",
    )
