"""What batches told, written down."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from eddyline.routing.walk_records import WalkRecord
from eddyline.statistics.change_detection import places_of


def told(
    keys: Sequence[str],
    classes: Sequence[Sequence[int]],
    *,
    cost_s: Sequence[float],
    dropped: Sequence[Sequence[Any]] = (),
    n_rows: int = 1000,
    asked: Sequence[int] | None = None,
    passed: Sequence[int] | None = None,
    order: Sequence[int] | None = None,
    cores: Sequence[str] | None = None,
    n_pairs: Sequence[int] | None = None,
    places: Sequence[Hashable] | None = None,
    overhead_s: float = 0.0,
    extra_s: float = 0.0,
) -> WalkRecord:
    """A batch of which some rows were sampled, all filters being known on those and all classes open."""
    n, m = len(keys), len(classes)
    rows = np.array(dropped, bool).reshape(-1, n)
    ran = np.full(n, n_rows) if asked is None else np.array(asked)
    let_through = ran // 2 if passed is None else np.array(passed)
    return WalkRecord(
        keys=tuple(keys),
        cores=tuple(keys if cores is None else cores),
        declared_s=tuple(cost_s),
        classes=tuple(frozenset(filters) for filters in classes),
        n_rows=n_rows,
        n_pairs=np.array([n_rows] * m if n_pairs is None else n_pairs),
        n_open=np.full(m, float(n_rows)),
        asked_rows=ran,
        passed_rows=let_through,
        compared_rows=ran,
        compared_passed_rows=let_through,
        n_calls=np.ones(n, np.int64),
        seconds=ran * np.array(cost_s),
        follow_rows=np.zeros(n, np.int64),
        follow_seconds=np.zeros(n),
        extra=np.zeros(n, np.int64),
        extra_s=extra_s,
        overhead_s=overhead_s,
        is_tree=False,
        places=tuple(places_of(range(n) if order is None else order) if places is None else places),
        dropped_mask=rows,
        known_mask=np.ones_like(rows),
        open_classes=((1 << m) - 1,) * len(rows),
    )
