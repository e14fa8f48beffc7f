"""Numbers for people: counts with their noun, shares, durations, sizes."""

from __future__ import annotations


def plural(n: int, noun: str) -> str:
    """1 row, 2 rows, 3 queries."""
    if n == 1:
        return f"1 {noun}"
    return f"{n:,} {noun[:-1]}ies" if noun.endswith("y") else f"{n:,} {noun}s"


def rounded(n: int) -> str:
    """To three digits: no more is known."""
    digits = max(0, len(str(abs(n))) - 3)
    return f"{round(n, -digits):,}"


def percent(share: float) -> str:
    """12 %, 0.4 %."""
    n = 100 * share
    return f"{n:.0f} %" if n >= 9.5 or n == 0 else f"{n:.2g} %"


def duration(seconds: float) -> str:
    """3.98 µs, 120 ms."""
    for least, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= least * 0.9995:
            return f"{seconds / least:.3g} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def size_text(n_bytes: int) -> str:
    """1.5 GB, not 1610612736 bytes."""
    size, unit = float(n_bytes), "bytes"
    for larger in ("kB", "MB", "GB", "TB"):
        if size < 1000:
            break
        size, unit = size / 1024, larger
    return f"{int(size)} {unit}" if unit == "bytes" or size >= 100 else f"{size:.1f} {unit}"
