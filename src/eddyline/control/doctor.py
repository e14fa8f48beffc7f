"""What is wrong with a home, or will be soon: each finding with what to do about it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from eddyline.catalog import FORMAT, RetainedRange
from eddyline.durations import duration_text
from eddyline.engine import Durable, RoundEngine, size_text
from eddyline.model import iso_time
from eddyline.storage import AGGREGATES, CLOSED_ROWS, KIND_WORDS, TABLES, WINDOWS

OK, WARNING, ERROR = "ok", "warning", "error"
LOW_SPACE_BYTES = 1 << 30
ALMOST_FULL = 0.9  # of what retention allows


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    level: str  # ok, warning or error
    subject: str
    message: str
    hint: str | None = None


def check_home(
    durable: Durable, *, forget_damaged: bool = False, tell: Callable[[str, int, int], None]
) -> list[Finding]:
    """Look at a home that this process holds. With `forget_damaged`, files that cannot be read are left out from now on."""
    found = [
        Finding(
            OK,
            "catalog",
            f"format {FORMAT}, version {durable.catalog.version}, {durable.catalog.queries.n_queries} queries, "
            f"time zone {durable.time_zone}, opened {durable.epoch} times",
        )
    ]
    tell("reading the catalog", 0, 0)
    hint = "Restore it from a backup with eddyline restore."
    found += [
        Finding(ERROR, "catalog", f"catalog.db is damaged: {problem}", hint)
        for problem in durable.database.problems(all_rows=True)
    ]
    found += _retained_findings(durable)
    found += _removed(durable)
    found += _past(durable)
    found += _damaged(durable, forget_damaged, tell)
    found += folder_findings(durable.home.folder)
    return found


def folder_findings(folder: Path) -> list[Finding]:
    """What can be seen of a home from outside."""
    found = []
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        hint = "Give the user who runs the engine the right to read and write there."
        found.append(Finding(ERROR, "home", f"{folder} cannot be written to", hint))
    free = shutil.disk_usage(folder).free
    if free < LOW_SPACE_BYTES:
        hint = "Make room: a round that cannot be written does not happen."
        found.append(Finding(WARNING, "disk", f"{size_text(free)} free at {folder}", hint))
    else:
        found.append(Finding(OK, "disk", f"{size_text(free)} free"))
    return found


def group_findings(rounds: RoundEngine) -> list[Finding]:
    """How the groups of aggregates are within their limit, if there is one; of an engine that runs."""
    most = rounds.limits.groups
    if most is None:
        return []
    sizes = rounds.flow.aggregate_sizes().values()
    n_refused = sum(each.n_refused for each in sizes)
    message = f"{max((each.groups for each in sizes), default=0):,} of at most {most:,} in the largest class of aggregates"
    if not n_refused:
        return [Finding(OK, "groups", message)]
    message += f"; {n_refused:,} rows of further ones were refused since the engine was opened"
    hint = "Raise groups under [limits], or let groups end, with keep or a window: see eddyline explain --aggregates."
    return [Finding(WARNING, "groups", message, hint)]


def _retained_findings(durable: Durable) -> list[Finding]:
    found = []
    for kind, (n_files, n_bytes) in durable.file_counts().items():
        if kind in (AGGREGATES, CLOSED_ROWS, TABLES, WINDOWS):  # which is stored as long as it is needed
            continue
        age_us, max_bytes = durable.retention.of(kind)
        message = (
            f"{n_files} file{'s' if n_files != 1 else ''}, {size_text(n_bytes)}; retained for {duration_text(age_us)} "
            f"and up to {size_text(max_bytes)}"
        )
        found.append(_within(KIND_WORDS.get(kind, kind), message, n_bytes, max_bytes))
    return found


def _removed(durable: Durable) -> list[Finding]:
    """What went because it was past its limits."""
    removed_texts = [
        f"{n:,} {what}{f' of rounds up to {iso_time(until_us)}' if until_us else ''}"
        for what, (n, until_us) in durable.removals.totals.items()
    ]
    return [Finding(OK, "retention", f"removed so far: {'; '.join(removed_texts) or 'nothing'}")]


def _past(durable: Durable) -> list[Finding]:
    """Versions that can be gone back to, and rounds whose tokens are known."""
    keep, now = durable.retention, durable.retention_clock.now_us()
    versions, rounds = durable.versions.retained_versions(), durable.rounds.retained_rounds()
    return [
        _within(
            "versions",
            f"{_oldest(versions, 'version', now)}; retained for {duration_text(keep.versions_us)} after they were replaced "
            f"and up to {keep.version_count:,}",
            versions.n - 1,
            keep.version_count,
        ),
        _within(
            "rounds",
            f"{_oldest(rounds, 'round', now)}; retained for {duration_text(keep.rounds_us)} and up to {keep.round_count:,}",
            rounds.n,
            keep.round_count,
        ),
    ]


def _oldest(retained: RetainedRange, noun: str, now_us: int) -> str:
    if not retained.n:
        return "none yet"
    age = _ago_text(now_us - retained.oldest_us)
    return f"{retained.n:,} {noun}{'s' if retained.n != 1 else ''}, the oldest is {noun} {retained.oldest}, made {age}"


def _within(subject: str, message: str, size: int, limit: int) -> Finding:
    if size > ALMOST_FULL * limit:
        hint = "The oldest are removed as new ones arrive. Raise the limit to retain them longer."
        return Finding(WARNING, subject, message, hint)
    return Finding(OK, subject, message)


def _damaged(durable: Durable, forget_damaged: bool, tell: Callable[[str, int, int], None]) -> list[Finding]:
    files = durable.rounds.files.all()
    tell("reading the store", 0, len(files))
    rounds = {file.name: (file.kind, file.round_number) for file in files}
    found_damaged = durable.find_damaged()
    damaged = [name for name in found_damaged if name in rounds]  # others were removed while they were read
    if not damaged:
        return [Finding(OK, "store", f"{len(files)} files, no damage found")]
    found = []
    for name in sorted(damaged):
        kind, number = rounds.get(name, ("file", 0))
        lost = f"the {KIND_WORDS.get(kind, kind)} of round {number}"
        if forget_damaged:
            found.append(Finding(WARNING, "store", f"{name} was removed from the catalog: {lost} are lost"))
        else:
            hint = f"Restore it from a backup, or run eddyline doctor --forget-damaged: {lost} are then lost."
            found.append(Finding(ERROR, "store", f"{name} is damaged or missing", hint))
    if forget_damaged:
        durable.forget_damaged()
    return found


def _ago_text(microseconds: int) -> str:
    """3 days ago, not 273 906 s."""
    for unit, size in (("day", 86_400_000_000), ("hour", 3_600_000_000), ("minute", 60_000_000)):
        if microseconds >= size:
            n = microseconds // size
            return f"{n} {unit}{'s' if n != 1 else ''} ago"
    return "just now"
