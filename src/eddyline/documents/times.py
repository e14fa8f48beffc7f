"""Times as ISO 8601 text: one form, wherever people or programs read them."""

from __future__ import annotations

import datetime


def iso_time(microseconds: int, *, timespec: str = "auto") -> str:
    """ISO 8601 in UTC, of a time since 1970; as microseconds if no calendar has it, since a row may carry any number.

    `timespec` as in Python's isoformat: "auto" has microseconds where there are any, "seconds" is enough for people.
    """
    try:
        at = datetime.datetime.fromtimestamp(0, datetime.UTC) + datetime.timedelta(microseconds=microseconds)
    except OverflowError:
        return f"{microseconds} microseconds since 1970"
    return iso_text(at, timespec=timespec)


def iso_text(at: datetime.datetime, *, timespec: str = "auto") -> str:
    """ISO 8601 of a time as Python has it: in UTC, with Z; one without a zone (TIMESTAMP_NTZ) has no Z either."""
    if at.tzinfo is None:
        return at.isoformat(timespec=timespec)
    try:
        utc = at if at.tzinfo is datetime.UTC else at.astimezone(datetime.UTC)
    except OverflowError:  # in UTC it is before year 1 or after 9999
        return at.isoformat(timespec=timespec)
    return f"{utc.replace(tzinfo=None).isoformat(timespec=timespec)}Z"
