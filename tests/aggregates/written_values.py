"""Values of tests of aggregates between JSON and Python."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any


def python_row(values: Sequence[Any], types: Mapping[str, tuple[Any, ...]]) -> list[Any]:
    return [_python(value, type_[0]) for value, type_ in zip(values, types.values(), strict=True)]


def _python(value: Any, type_: str) -> Any:
    if value is None:
        return None
    if type_ == "timestamp":
        return datetime.datetime.fromisoformat(value)
    return {"double": float, "decimal": Decimal}.get(type_, lambda v: v)(value)


def written_row(values: Iterable[Any]) -> list[Any]:
    return [written(value) for value in values]


def written(value: Any) -> Any:
    """A Python value as the vectors write it."""
    if isinstance(value, tuple):
        return {"start": written_instant(value[0]), "end": written_instant(value[1])}
    if isinstance(value, dict):
        return {name: written(part) for name, part in value.items()}
    if isinstance(value, datetime.datetime):
        return written_instant(value)
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def written_instant(time: datetime.datetime) -> str:
    return time.astimezone(datetime.UTC).isoformat().replace("+00:00", "Z")


# --------------------------------------------------------------------------------------------- comparing

Changes = Sequence[Sequence[Any]]  # [change, row]


def is_equal(one: Any, other: Any) -> bool:
    """Whether two written values are the same: fractions to 1e-9 relative, all else exactly."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_equal, one, other))
    if type(one) is float and type(other) is float:
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)
    return type(one) is type(other) and one == other


def units(changes: Changes) -> list[list[Any]]:
    """Changes without their order: both images of an update belong together."""
    found: list[list[Any]] = []
    for change, row in changes:
        if change == "update_postimage":
            assert found, "a postimage without a preimage"
            assert found[-1][0] == "update_preimage", f"{found[-1]} is before a postimage"
            found[-1] = ["update", *found[-1][1:], row]
        else:
            found.append([change, row])
    return found


def without_equals(left: Sequence[Any], right: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """What two bags do not have in common."""
    missing, rest = [], list(right)
    for value in left:
        at = next((i for i, other in enumerate(rest) if is_equal(value, other)), None)
        if at is None:
            missing.append(value)
        else:
            del rest[at]
    return missing, rest


def folded(told: Iterable[Changes]) -> list[Any]:
    """The bag of rows that changes leave; a row that leaves without having come is an error."""
    bag: list[Any] = []
    for changes in told:
        added = [row for change, row in changes if change in ("insert", "update_postimage")]
        removed = [row for change, row in changes if change in ("delete", "update_preimage")]
        unknown, bag = without_equals(removed, [*bag, *added])
        assert not unknown, f"{unknown} left and never came"
    return bag


def differences(case: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    """Where what was found is not what a case expects, in words."""
    lines = []
    for part, unit in (("expected", units), ("dead", list)):
        wanted = case.get(part) or [{}] * len(case["steps"])
        for number, (want, got) in enumerate(zip(wanted, found.get(part) or [{}] * len(wanted), strict=True)):
            for query in sorted({*want, *got}):
                missing, extra = without_equals(unit(want.get(query, [])), unit(got.get(query, [])))
                lines += [f"step {number}, {query}: {part} has no {value}" for value in missing]
                lines += [f"step {number}, {query}: {part} has also {value}" for value in extra]
    if case.get("late", {}) != found.get("late", {}):
        lines.append(f"late rows: {found.get('late')}, not {case.get('late')}")
    return lines
