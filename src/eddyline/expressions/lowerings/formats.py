"""Datetime patterns such as 'yyyy-MM-dd HH:mm:ss': whole columns of times written and read by them.

    y  year             yy: two digits, of 2000 … 2099 when read; yyyy: four, signed beyond
    M  month            MM: two digits, MMM: Jan, MMMM: January (L the same)
    d  day of month     D: day of year, written only
    E  day of week      E to EEE: Mon, EEEE: Monday, written only
    H  hour 0 … 23      h: hour 1 … 12, with a: AM or PM
    m  minute           s: second, S to SSSSSSSSS: fraction
    X  offset           X: +01 or +0130, XX: +0130, XXX: +01:30, Z for zero; x the same with digits for zero; Z: +0130
    '  quotes text      '' is a quote

Any other letter is refused, and so are [ ] { } #.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.durations import DAY_US, HOUR_US, MINUTE_US, SECOND_US
from eddyline.errors import Span, UnsupportedError
from eddyline.expressions.buffers import numbers
from eddyline.expressions.civil import civil_from_days, days_from_civil, is_date
from eddyline.expressions.lowerings.like import re2_literal
from eddyline.types import STRING

Int64Vector = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
MONTHS = [
    *["January", "February", "March", "April", "May", "June"],
    *["July", "August", "September", "October", "November", "December"],
]

# letter -> how often it may stand in a row
_WRITTEN = {
    "y": 6,
    "M": 4,
    "L": 4,
    "d": 2,
    "D": 3,
    "E": 4,
    "H": 2,
    "h": 2,
    "m": 2,
    "s": 2,
    "S": 9,
    "a": 1,
    "X": 3,
    "x": 3,
    "Z": 3,
}
_READ = {letter: n for letter, n in _WRITTEN.items() if letter not in "DE"}


@dataclass(frozen=True, slots=True)
class PatternField:
    """A letter of a pattern, and how often it is there."""

    letter: str
    count: int


Part = PatternField | str


@lru_cache(maxsize=256)
def pattern_parts(pattern: str) -> tuple[Part, ...]:
    """Fields and literal texts. Raises ValueError with the reason."""
    parts: list[Part] = []
    token = re.compile(r"([A-Za-z])\1*|'((?:[^']|'')*)'|([^A-Za-z'])", re.DOTALL)
    at = 0
    while at < len(pattern):
        match = token.match(pattern, at)
        if match is None:
            raise ValueError("a quote that is not closed")
        letter, quoted, other = match.groups()
        if letter is not None:
            parts.append(PatternField(letter, len(match.group())))
        elif other is not None and other in "[]{}#":
            raise ValueError(f"{other} is not supported")
        else:
            parts.append(other if other is not None else quoted.replace("''", "'") or "'")
        at = match.end()
    return tuple(parts)


def check_pattern(pattern: str, span: Span | None, *, is_read: bool) -> None:
    """Refuse a pattern that is outside the list above."""
    try:
        fields = [part for part in pattern_parts(pattern) if isinstance(part, PatternField)]
        letters = _READ if is_read else _WRITTEN
        for f in fields:
            if f.letter not in letters:
                raise ValueError(
                    f"the letter {f.letter} is not supported{' when reading' if is_read else ''}"
                )
            if f.count > letters[f.letter]:
                raise ValueError(f"{f.letter * f.count} is longer than {f.letter * letters[f.letter]}")
        if is_read:
            _check_readable(pattern_parts(pattern))
    except ValueError as problem:
        raise UnsupportedError(
            f"the datetime pattern {pattern!r} cannot be used: {problem}",
            hint="Letters: y M d H h m s S a X" + ("" if is_read else " D E") + ", and 'text' in quotes.",
            span=span,
        ) from None


def _check_readable(parts: Sequence[Part]) -> None:
    fields = [part for part in parts if isinstance(part, PatternField)]
    kinds = [{"L": "M", "x": "X", "Z": "X"}.get(f.letter, f.letter) for f in fields]
    if len(set(kinds)) < len(kinds):
        raise ValueError("a field is there twice")
    if "H" in kinds and "h" in kinds:
        raise ValueError("H and h exclude each other")
    if "a" in kinds and "h" not in kinds:
        raise ValueError("a goes with h")
    for left, right in itertools.pairwise(parts):
        if (
            isinstance(left, PatternField)
            and isinstance(right, PatternField)
            and _varies(left)
            and _varies(right)
        ):
            raise ValueError(f"{left.letter} and {right.letter} have no fixed width and nothing between them")


def _varies(field: PatternField) -> bool:
    """Whether the number may have more or fewer digits."""
    return (
        field.letter == "S"
        or (field.count == 1 and field.letter not in "aXxZ")
        or (field.letter == "y" and field.count == 3)
    )


# ------------------------------------------------------------------------------------------ writing


@dataclass(frozen=True, slots=True)
class _Clock:
    """Wall-clock times taken apart."""

    local_us: Int64Vector
    offset_us: Int64Vector

    @property
    def days(self) -> Int64Vector:
        return np.floor_divide(self.local_us, DAY_US)

    @property
    def of_day_us(self) -> Int64Vector:
        return self.local_us - self.days * DAY_US


def formatted_times(local_us: Int64Vector, offset_us: Int64Vector, pattern: str) -> pa.Array:
    """Each wall-clock time, with its offset from UTC, as text."""
    clock = _Clock(local_us, offset_us)
    pieces = [
        pa.scalar(p, STRING) if isinstance(p, str) else _WRITERS[p.letter](clock, p.count)
        for p in pattern_parts(pattern)
    ]
    if all(isinstance(p, pa.Scalar) for p in pieces):
        return pa.repeat(pa.scalar("".join(p.as_py() for p in pieces)), len(local_us))
    return pc.binary_join_element_wise(*pieces, pa.scalar("", STRING)) if len(pieces) > 1 else pieces[0]


def _digits(values: Int64Vector, width: int) -> pa.Array:
    return pc.utf8_lpad(pa.array(values).cast(STRING), width=width, padding="0")


def _names(values: Int64Vector, names: Sequence[str]) -> pa.Array:
    return pa.array(names).take(pa.array(values))


def _write_year(clock: _Clock, count: int) -> pa.Array:
    year, _, _ = civil_from_days(clock.days)
    if count == 2:
        return _digits(np.abs(year) % 100, 2)
    size = _digits(np.abs(year), count)
    beyond = "+" if count >= 4 else ""
    sign = np.where(year < 0, 2, np.where(year >= 10**count, 1, 0))
    if not sign.any():
        return size
    return pc.binary_join_element_wise(_names(sign, ["", beyond, "-"]), size, pa.scalar("", STRING))


def _write_month(clock: _Clock, count: int) -> pa.Array:
    _, month, _ = civil_from_days(clock.days)
    if count <= 2:
        return _digits(month, count)
    return _names(month - 1, MONTHS if count == 4 else [name[:3] for name in MONTHS])


def _write_weekday(clock: _Clock, count: int) -> pa.Array:
    return _names((clock.days + 3) % 7, DAYS if count == 4 else [name[:3] for name in DAYS])


def _write_day_of_year(clock: _Clock, count: int) -> pa.Array:
    year, _, _ = civil_from_days(clock.days)
    return _digits(clock.days - days_from_civil(year, 1, 1) + 1, count)


def _write_fraction(clock: _Clock, count: int) -> pa.Array:
    nanoseconds = _digits(clock.of_day_us % SECOND_US * 1000, 9)
    return pc.utf8_slice_codeunits(nanoseconds, start=0, stop=count)


def _write_half(clock: _Clock, count: int) -> pa.Array:
    return _names(clock.of_day_us // (12 * HOUR_US), ["AM", "PM"])


def _write_offset(clock: _Clock, style: str) -> pa.Array:
    """`style` is the letter as often as it is there. Seconds of an offset are not shown."""
    minutes = np.abs(clock.offset_us) // MINUTE_US
    encoded = pa.array(
        np.where(clock.offset_us < 0, -minutes, minutes) + (clock.offset_us < 0) * 10**6
    ).dictionary_encode()
    texts = [_offset_text(value, style) for value in encoded.dictionary.to_pylist()]
    return pa.array(texts, STRING).take(encoded.indices)


def _offset_text(value: int, style: str) -> str:
    is_negative = value > 10**5
    minutes = abs(value - 10**6) if is_negative else value
    if minutes == 0 and style[0] == "X":
        return "Z"
    sign = "-" if is_negative and minutes else "+"
    hour, minute = divmod(minutes, 60)
    if len(style) == 1 and style != "Z":
        return f"{sign}{hour:02}" + (f"{minute:02}" if minute else "")
    return f"{sign}{hour:02}{':' if len(style) == 3 and style[0] != 'Z' else ''}{minute:02}"


_WRITERS: dict[str, Callable[[_Clock, int], pa.Array]] = {
    "y": _write_year,
    "M": _write_month,
    "L": _write_month,
    "d": lambda clock, count: _digits(civil_from_days(clock.days)[2], count),
    "D": _write_day_of_year,
    "E": _write_weekday,
    "H": lambda clock, count: _digits(clock.of_day_us // HOUR_US, count),
    "h": lambda clock, count: _digits((clock.of_day_us // HOUR_US - 1) % 12 + 1, count),
    "m": lambda clock, count: _digits(clock.of_day_us // MINUTE_US % 60, count),
    "s": lambda clock, count: _digits(clock.of_day_us // SECOND_US % 60, count),
    "S": _write_fraction,
    "a": _write_half,
    "X": lambda clock, count: _write_offset(clock, "X" * count),
    "x": lambda clock, count: _write_offset(clock, "x" * count),
    "Z": lambda clock, count: _write_offset(clock, "Z" * count),
}


# ------------------------------------------------------------------------------------------ reading


@dataclass(frozen=True, slots=True)
class ParsedTimes:
    """Wall-clock times read from text, their offsets if the pattern has one, and the rows that could not be read."""

    local_us: Int64Vector
    offset_us: Int64Vector | None
    bad: Mask


def parsed_times(texts: pa.Array, pattern: str) -> ParsedTimes:
    """Each text as a wall-clock time. What the pattern lacks is taken from 1970-01-01 00:00. NULL reads as anything."""
    parts = pattern_parts(pattern)
    groups = pc.extract_regex(texts, _reader(parts))
    bad = ~np.asarray(groups.is_valid().to_numpy(zero_copy_only=False), bool)

    def number(letter: str, default: int) -> Int64Vector:
        if not any(isinstance(p, PatternField) and p.letter == letter for p in parts):
            return np.full(len(texts), default, np.int64)
        digits = pc.fill_null(pc.struct_field(groups, letter), str(default))
        return numbers(pc.utf8_ltrim(digits, characters="+").cast(pa.int64()))

    year = number("y", 1970)
    if PatternField("y", 2) in parts:
        year = year + np.where(bad, 0, 2000)
    month = _read_month(groups, parts, len(texts))
    day = number("d", 1)
    hour, minute, second = number("H", 0), number("m", 0), number("s", 0)
    if any(isinstance(p, PatternField) and p.letter == "h" for p in parts):
        twelve = number("h", 12)
        bad |= (twelve < 1) | (twelve > 12)
        hour = twelve % 12 + _read_half(groups, parts, len(texts))
    bad |= ~is_date(year, month, day)
    for value, high in ((hour, 23), (minute, 59), (second, 59)):
        bad |= value > high
    month, day = np.where(bad, 1, month), np.where(bad, 1, day)
    time_us = (
        hour * HOUR_US + minute * MINUTE_US + second * SECOND_US + _read_fraction(groups, parts, len(texts))
    )
    local_us = days_from_civil(np.where(bad, 1970, year), month, day) * DAY_US + np.where(bad, 0, time_us)
    offset_us, beyond = _read_offset(groups, parts, len(texts))
    return ParsedTimes(local_us, offset_us, bad | beyond)


@lru_cache(maxsize=256)
def _reader(parts: tuple[Part, ...]) -> str:
    """A regular expression of RE2 with a group for each field, named as its letter."""
    written = [_any_case(p) if isinstance(p, str) else f"(?P<{p.letter}>{_field_reader(p)})" for p in parts]
    # an empty pattern reads an empty text; the group is there because extract_regex wants one
    return rf"\A{''.join(written)}(?P<end>)\z"


def _any_case(word: str) -> str:
    return "".join(
        f"[{c.lower()}{c.upper()}]" if c.isascii() and c.isalpha() else re2_literal(c) for c in word
    )


def _field_reader(field: PatternField) -> str:
    letter, count = field.letter, field.count
    if letter == "y":
        if count == 2:
            return "[0-9]{2}"
        # up to four letters a longer year has no sign; from four on it must have one
        most = rf"-[0-9]{{{count},6}}|[0-9]{{{count}}}|\+[0-9]{{{count + 1},6}}"
        return most if count >= 4 and count < 6 else rf"-?[0-9]{{{count},6}}"
    if letter in "ML" and count > 2:
        names = [name if count == 4 else name[:3] for name in MONTHS]
        return "|".join(map(_any_case, names))
    if letter == "a":
        return "[aA][mM]|[pP][mM]"
    if letter == "S":
        return f"[0-9]{{1,{count}}}"
    if letter in "XxZ":
        zero = "|[zZ]" if letter == "X" else ""
        form = (
            "[0-9]{2}(?:[0-9]{2})?"
            if count == 1 and letter != "Z"
            else "[0-9]{2}:[0-9]{2}"
            if count == 3 and letter != "Z"
            else "[0-9]{4}"
        )
        return rf"[+-]{form}{zero}"
    return "[0-9]{1,18}" if count == 1 else "[0-9]{2}"


def _texts(groups: pa.Array, parts: Sequence[Part], letters: str) -> tuple[PatternField, pa.Array] | None:
    found = next((p for p in parts if isinstance(p, PatternField) and p.letter in letters), None)
    return None if found is None else (found, pc.struct_field(groups, found.letter))


def _read_month(groups: pa.Array, parts: Sequence[Part], n_rows: int) -> Int64Vector:
    found = _texts(groups, parts, "ML")
    if found is None:
        return np.ones(n_rows, np.int64)
    field, texts = found
    if field.count <= 2:
        return numbers(pc.fill_null(texts, "1").cast(pa.int64()))
    short = pc.utf8_slice_codeunits(pc.ascii_lower(texts), start=0, stop=3)
    at = pc.index_in(short, value_set=pa.array([name[:3].lower() for name in MONTHS]))
    return numbers(pc.fill_null(at, 0)).astype(np.int64) + 1


def _read_half(groups: pa.Array, parts: Sequence[Part], n_rows: int) -> Int64Vector:
    found = _texts(groups, parts, "a")
    if found is None:
        return np.zeros(n_rows, np.int64)
    is_afternoon = pc.fill_null(pc.starts_with(pc.ascii_lower(found[1]), "p"), False)
    return np.where(is_afternoon.to_numpy(zero_copy_only=False), 12, 0).astype(np.int64)


def _read_fraction(groups: pa.Array, parts: Sequence[Part], n_rows: int) -> Int64Vector:
    found = _texts(groups, parts, "S")
    if found is None:
        return np.zeros(n_rows, np.int64)
    nanoseconds = pc.utf8_rpad(pc.fill_null(found[1], "0"), width=9, padding="0")
    return numbers(nanoseconds.cast(pa.int64())) // 1000


def _read_offset(groups: pa.Array, parts: Sequence[Part], n_rows: int) -> tuple[Int64Vector | None, Mask]:
    found = _texts(groups, parts, "XxZ")
    if found is None:
        return None, np.zeros(n_rows, bool)
    signed = pc.replace_substring(pc.fill_null(found[1], "+00"), pattern=":", replacement="")
    signed = pc.replace_substring_regex(signed, pattern="^[zZ]$", replacement="+0000")
    padded = pc.utf8_rpad(signed, width=5, padding="0")
    value = numbers(pc.utf8_slice_codeunits(padded, start=1, stop=5).cast(pa.int64()))
    minutes = value // 100 * 60 + value % 100
    is_west = pc.starts_with(padded, "-").to_numpy(zero_copy_only=False)
    return np.where(is_west, -minutes, minutes) * MINUTE_US, (value % 100 > 59) | (minutes > 18 * 60)
