"""Time zones: instants to wall-clock times and back, for whole columns, by the rules of java.time.

A zone is a table of moments at which its offset from UTC changes, read from the TZif files (RFC 8536) of the `tzdata`
package or, without it, of the system, and continued to the year 9999 by the rule in the file's last line. (Arrow's own
conversion is not used: it stops changing offsets after 2037, and resolves gaps and overlaps differently.)

    local time              happens          taken as
    in an overlap           twice            the earlier instant: the offset before the change
    in a gap                never            moved forward by the gap: the offset before the change
"""

from __future__ import annotations

import contextlib
import re
import struct
import zoneinfo
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

import numpy as np
import numpy.typing as npt

from eddyline.durations import SECOND_US
from eddyline.errors import Span, UnsupportedError, nearest
from eddyline.expressions.civil import days_from_civil, days_in_month

Int64Vector = npt.NDArray[np.int64]

DAY_S = 86_400
_EVER = np.iinfo(np.int64).min
_LAST_YEAR = 10_000  # rules are continued to here: SQL years end at 9999, plus a day for the offset
_MAX_OFFSET_S = 18 * 3600

# java.time.ZoneId.SHORT_IDS, which Spark accepts besides region names
_SHORT_NAMES = {
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "EST": "-05:00",
    "HST": "-10:00",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "MST": "-07:00",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
}
_NOT_IN_JAVA = {"Factory", "ROC", "localtime"}


@dataclass(frozen=True, slots=True)
class Zone:
    """Offsets of a zone: `offset_us[i]` holds from instant `starts_us[i]`, on the wall clock `local_starts_us[i]`."""

    starts_us: Int64Vector
    local_starts_us: Int64Vector
    offset_us: Int64Vector

    @classmethod
    def of(cls, starts_s: Int64Vector, offsets_s: Int64Vector) -> Zone:
        """From the moments of change and the offsets around them: one offset more than there are moments."""
        offset, start = offsets_s * SECOND_US, starts_s * SECOND_US
        # a local time in a gap or in an overlap still belongs to the offset before the change
        local = start + np.maximum(offset[:-1], offset[1:])
        return cls(np.concatenate(([_EVER], start)), np.concatenate(([_EVER], local)), offset)


def to_local(utc_us: Int64Vector, zone: str) -> Int64Vector:
    """Wall-clock times in the zone, as microseconds since 1970-01-01 00:00 there."""
    table = zone_table(zone)
    if len(table.offset_us) == 1:
        return utc_us + table.offset_us[0]
    return utc_us + table.offset_us[np.searchsorted(table.starts_us, utc_us, side="right") - 1]


def to_utc(local_us: Int64Vector, zone: str) -> Int64Vector:
    """The instants of wall-clock times in the zone; gaps and overlaps as the table above says."""
    table = zone_table(zone)
    if len(table.offset_us) == 1:
        return local_us - table.offset_us[0]
    return local_us - table.offset_us[np.searchsorted(table.local_starts_us, local_us, side="right") - 1]


def require_zone(name: str, span: Span | None = None) -> None:
    """Refuse a name that is no zone."""
    try:
        zone_table(name)
    except LookupError:
        near = nearest(name, zoneinfo.available_timezones() - _NOT_IN_JAVA)
        raise UnsupportedError(
            f"there is no time zone {name!r}",
            detail="A zone is a region such as 'Europe/Berlin', or an offset such as '+02:00'.",
            hint=None if near is None else f"Did you mean {near}?",
            span=span,
        ) from None


@cache
def zone_table(name: str) -> Zone:
    """The offsets of a zone by any name Spark accepts. Raises LookupError."""
    name = _SHORT_NAMES.get(name, name)
    offset_s = fixed_offset_s(name)
    if offset_s is not None:
        return Zone.of(np.zeros(0, np.int64), np.array([offset_s]))
    if name in _NOT_IN_JAVA or not re.fullmatch(r"(?!posix/|right/)[A-Za-z][A-Za-z0-9/_+-]*", name):
        raise LookupError(name)
    return _read_table(_zone_file(name))


_FIXED = re.compile(
    r"(?:UTC|GMT|UT)?([+-])(?:(\d{1,2})|(\d{1,2}):(\d{1,2})|(\d\d)(\d\d)|(\d{1,2}):(\d\d):(\d\d)|(\d\d)(\d\d)(\d\d))",
    re.ASCII,
)


def fixed_offset_s(name: str) -> int | None:
    """Seconds east of UTC where the name is an offset (+02:00, -8, UTC+1, Z), else None."""
    if name in ("Z", "UTC", "GMT", "UT"):
        return 0
    match = _FIXED.fullmatch(name)
    if match is None:
        return None
    sign, *parts = [group for group in match.groups() if group is not None]
    hours, minutes, seconds = (*map(int, parts), 0, 0)[:3]
    offset_s = hours * 3600 + minutes * 60 + seconds
    if minutes > 59 or seconds > 59 or offset_s > _MAX_OFFSET_S:
        raise LookupError(name)
    return -offset_s if sign == "-" else offset_s


def _zone_file(name: str) -> bytes:
    # The package first: it is the same on every machine and, like Java's data, merges regions that agree since 1970.
    folder_name, _, file_name = name.rpartition("/")
    package = ".".join(["tzdata.zoneinfo", *filter(None, folder_name.split("/"))])
    with contextlib.suppress(ModuleNotFoundError, OSError, ValueError):
        return resources.files(package).joinpath(file_name).read_bytes()
    for folder in zoneinfo.TZPATH:
        path = Path(folder, name)
        with contextlib.suppress(OSError, ValueError):  # no file has such a name
            if path.is_file():
                return path.read_bytes()
    raise LookupError(name)


def _read_table(data: bytes) -> Zone:
    """The 64-bit table of a TZif file, continued by the rule in its footer."""
    if data[:4] != b"TZif" or data[4:5] < b"2":
        raise LookupError("not a TZif file of version 2 or later")
    start = _block_size(data)
    isut, isstd, leap, n_times, n_types, n_chars = struct.unpack_from(">6l", data, start + 20)
    at = start + _HEADER
    times = np.frombuffer(data, ">i8", n_times, at).astype(np.int64)
    kinds = np.frombuffer(data, np.uint8, n_times, at + 8 * n_times)
    types_at = at + 9 * n_times
    offsets = np.array(
        [struct.unpack_from(">l", data, types_at + 6 * k)[0] for k in range(n_types)], np.int64
    )
    footer_at = types_at + 6 * n_types + n_chars + 12 * leap + isstd + isut
    footer = data[footer_at:].strip(b"\n").decode("ascii")
    later, later_offsets = _future(footer, int(times[-1]) if n_times else _EVER)
    starts = np.concatenate((times, later))
    in_force = np.concatenate((offsets[:1], offsets[kinds], later_offsets))
    is_change = np.diff(in_force) != 0  # some only change the zone's abbreviation
    return Zone.of(starts[is_change], np.concatenate((in_force[:1], in_force[1:][is_change])))


_HEADER = 44


def _block_size(data: bytes) -> int:
    """Bytes of the 32-bit table that comes first."""
    isut, isstd, leap, n_times, n_types, n_chars = struct.unpack_from(">6l", data, 20)
    return int(_HEADER + 5 * n_times + 6 * n_types + n_chars + 8 * leap + isstd + isut)


_NAME = r"(?:[A-Za-z]{3,}|<[A-Za-z0-9+-]+>)"
_CLOCK = r"([+-]?\d+(?::\d+)*)"
_RULE = re.compile(rf"{_NAME}{_CLOCK}(?:{_NAME}{_CLOCK}?,([^,]+),([^,]+))?")


def _future(footer: str, after_s: int) -> tuple[Int64Vector, Int64Vector]:
    """Changes later than `after_s`, with the offset after each, by a POSIX rule such as CET-1CEST,M3.5.0,M10.5.0/3."""
    match = _RULE.fullmatch(footer)
    if match is None or match.group(3) is None:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    standard = -_clock_s(match.group(1))
    summer = -_clock_s(match.group(2)) if match.group(2) else standard + 3600
    years = np.arange(1970, _LAST_YEAR + 1)
    times = np.concatenate(
        (_rule_s(match.group(3), years) - standard, _rule_s(match.group(4), years) - summer)
    )
    offsets = np.repeat(np.array([summer, standard]), len(years))
    order = np.argsort(times)
    order = order[times[order] > after_s]
    return times[order], offsets[order]


def _clock_s(text: str) -> int:
    sign = -1 if text.startswith("-") else 1
    parts = [int(part) for part in text.lstrip("+-").split(":")]
    return sign * sum(part * unit for part, unit in zip(parts, (3600, 60, 1), strict=False))


def _rule_s(rule: str, years: Int64Vector) -> Int64Vector:
    """The wall-clock second a rule names in each year: Mm.w.d (week w of the month, 5 the last), Jn, or n."""
    day, _, clock = rule.partition("/")
    clock_s = _clock_s(clock) if clock else 7200
    new_year = days_from_civil(years, 1, 1)
    if day.startswith("J"):  # 1 … 365, 29 February not counted
        n = int(day[1:])
        is_after_leap_day = (days_in_month(years, 2) == 29) & (n >= 60)
        return (new_year + n - 1 + is_after_leap_day) * DAY_S + clock_s
    if not day.startswith("M"):
        return (new_year + int(day)) * DAY_S + clock_s
    month, week, weekday = map(int, day[1:].split("."))
    first = days_from_civil(years, month, 1)
    place = (weekday - (first + 4)) % 7 + 7 * (week - 1)  # 1970-01-01 was a Thursday, day 4
    place = np.where(place >= days_in_month(years, month), place - 7, place)
    return (first + place) * DAY_S + clock_s
