"""Times that cannot be meant: before 1990, or more than a year from now. Most often a number counts in another unit."""

from __future__ import annotations

from dataclasses import dataclass

from eddyline.model import Stream, iso_time
from eddyline.time_properties import UNIT_US, UNIT_WORDS, time_format, time_unit
from eddyline.types import is_numeric

_1990_US = 631_152_000_000_000
_YEAR_US = 366 * 86_400_000_000


@dataclass(frozen=True, slots=True)
class Implausible:
    """What there is to say of a time that cannot be meant, and the unit that is likely meant, if one is."""

    message: str
    likely_unit: str | None


def implausible(
    stream: Stream, oldest_us: int | None, newest_us: int | None, now_us: int
) -> Implausible | None:
    """What is wrong with the times of a round, if something is."""
    if stream.time is None or oldest_us is None or newest_us is None:
        return None
    bad = next((t for t in (oldest_us, newest_us) if not _is_plausible(t, now_us)), None)
    if bad is None:
        return None
    column, unit = stream.schema.field(stream.time), time_unit(stream) or "us"
    shown = f"{iso_time(bad)}, {'before 1990' if bad < _1990_US else 'more than a year from now'}"
    if time_format(stream) is not None or not is_numeric(column.type):
        return Implausible(f"a row of stream {stream.name} has {column.name} {shown}", None)
    value = bad / UNIT_US[unit]
    number = f"{column.name} {int(value)} of stream {stream.name}, taken as {UNIT_WORDS[unit]} since 1970, is {shown}"
    likely = next((each for each in UNIT_US if _is_plausible(int(value * UNIT_US[each]), now_us)), None)
    if likely is None:  # a number without a unit may be a clock of the user's own
        return None if time_unit(stream) is None else Implausible(number, None)
    return Implausible(
        f"{number}; it looks like {UNIT_WORDS[likely]}: declare time_unit = '{likely}'", likely
    )


def _is_plausible(time_us: int, now_us: int) -> bool:
    """A clock that stands before 1990 itself says nothing of what is ahead."""
    return time_us >= _1990_US and (now_us < _1990_US or time_us <= now_us + _YEAR_US)
