"""Where expensive conditions on an input of a join are asked: before its rows look for partners, or of those that found some.

Paper: Madden, Shah, Hellerstein, Raman, "Continuously Adaptive Continuous Queries over Streams", SIGMOD 2002, compares both for
shared joins, as PushDown and PullUp. Here the cheaper one is chosen, for each input of a join, while rows flow.

    symbol       here              meaning, for one row of the input that its cheap conditions leave
    c_udf        udf_s             seconds to ask it the expensive conditions
    c_filter     filter_s          seconds of the filters before the probe, where these are there only for expensive conditions
    c_probe      probe_s           seconds to look for its partners
    c_row        combination_s     seconds to make a combination and to hand it to the filters above
    sel          pass_rate         share of rows that the conditions let through
    hit          match_rate        share of rows that are asked if that is done after the probe
    f            fanout            combinations of a row; `passed_fanout` of one that the conditions let through

    before  =  c_filter  +  c_udf  +  sel * (c_probe + f * c_row)
    after   =  c_probe  +  f * c_row  +  hit * c_udf        a row is asked once, however many partners it has
                                         f * c_udf          where what a condition said is not remembered

The other side takes over if it is cheaper by `MARGIN`, on at least `judged_by` rows since the last move. Figures are decayed by
rows. What the present side cannot show, the hit rate of rows that the conditions drop, or the selectivity on rows without
partners, is found out by *looks*: now and then some rounds go the other way. A look comes after many times its rows, or at once
where the hit rate of rows that pass has moved, and only if a small share of the seconds spent so far pays for what it costs more.

There is no clock and no chance here: the same observations give the same sides.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

BEFORE, AFTER = "before", "after"
JUDGED_BY = 500  # rows
MARGIN = 1.05
HALF_LIFE_ROWS = 1_000  # after which an observation counts half
LOOK_ROWS = 256  # of a look, or those of one round if these are more
LOOK_EVERY = 32  # times the rows of a look come between two of them
LOOK_SHARE = 0.02  # of all seconds, that looks may cost more
MOVED = 0.1  # of a hit rate, from which on it is another one,
DEVIATIONS = 3  # unless that is within so many deviations of what was counted


@dataclass(frozen=True, slots=True)
class InputWork:
    """What one round did for an input."""

    n_rows: int  # that cheap conditions left
    n_probed: int  # that looked for partners
    n_matched: int  # of those, that found some at once
    n_combinations: int  # of rows of the input, whichever row was the latest
    n_asked: int  # rows that were asked only as part of a combination
    udf_s: float = 0.0  # seconds of asking before the probe
    filter_s: float = 0.0  # and of what comes with it


@dataclass(frozen=True, slots=True)
class PlacementFigures:
    """What a side is chosen by."""

    udf_s: float
    probe_s: float
    combination_s: float
    pass_rate: float
    match_rate: float
    fanout: float
    passed_fanout: float
    is_remembered: bool = True  # a row is asked once, however many combinations it is in
    filter_s: float = 0.0

    @property
    def before_s(self) -> float:
        """Seconds of a row that is asked before the probe."""
        return self.filter_s + self.udf_s + self.pass_rate * self._joining_s(self.passed_fanout)

    @property
    def after_s(self) -> float:
        """Seconds of a row that is asked after it."""
        n_asked = self.match_rate if self.is_remembered else self.fanout
        return self._joining_s(self.fanout) + n_asked * self.udf_s

    def _joining_s(self, fanout: float) -> float:
        return self.probe_s + fanout * self.combination_s

    def cost_s(self, side: str) -> float:
        return self.before_s if side == BEFORE else self.after_s


@dataclass(frozen=True, slots=True)
class PlacementMove:
    """Another side took over, and why."""

    side: str
    figures: PlacementFigures


@dataclass(slots=True)
class _Evidence:
    """Decayed sums over the rounds of one side."""

    rows: float = 0.0
    probed: float = 0.0
    matched: float = 0.0
    combinations: float = 0.0
    asked: float = 0.0
    udf_s: float = 0.0
    filter_s: float = 0.0

    def fade(self, share: float) -> None:
        """Count less. What is left weighs a row, so that a rate lasts until there is a newer one."""
        if self.rows:
            share = max(share, min(1.0, 1 / self.rows))
        for name in self.__slots__:
            setattr(self, name, share * getattr(self, name))

    def add(self, work: InputWork) -> None:
        self.rows += work.n_rows
        self.probed += work.n_probed
        self.matched += work.n_matched
        self.combinations += work.n_combinations
        self.asked += work.n_asked
        self.udf_s += work.udf_s
        self.filter_s += work.filter_s


class PredicatePlacement:
    """The side of one input. It begins with `before`, which keeps fewer rows.

    `asks_every_row`: a row without a partner is asked too, as on the left of an outer join.
    """

    def __init__(self, *, is_remembered: bool = True, asks_every_row: bool = False) -> None:
        self.is_remembered = is_remembered
        self.asks_every_row = asks_every_row
        self.incumbent = BEFORE
        self.n_moves = 0
        self.n_looks = 0
        self._sides = {BEFORE: _Evidence(), AFTER: _Evidence()}
        self._probe_s = self._combination_s = 0.0
        self._n_judged = 0  # rows since the last move
        self._n_since_look = 0
        self._n_to_look = 0  # rows that are still to go the other way
        self._saved_s = 0.0  # that a look may cost
        self._known_rate: float | None = None  # hit rate of rows that passed, at the last look

    @property
    def side(self) -> str:
        """Where the next round asks."""
        return _other(self.incumbent) if self._n_to_look > 0 else self.incumbent

    def observe(
        self, work: InputWork, *, probe_s: float, combination_s: float, judged_by: int = JUDGED_BY
    ) -> PlacementMove | None:
        """Take in a round that asked where `side` said, and what a probe and a combination cost now."""
        self._probe_s, self._combination_s = probe_s, combination_s
        for evidence in self._sides.values():
            evidence.fade(0.5 ** (work.n_rows / HALF_LIFE_ROWS))
        if self.side == BEFORE:  # rows of earlier rounds that were not asked before
            self._sides[AFTER].asked += work.n_asked
            work = replace(work, n_asked=0)
        self._sides[self.side].add(work)
        self._n_judged += work.n_rows
        if self._n_to_look > 0:
            self._n_to_look -= work.n_rows
            if self._n_to_look > 0:
                return None
            self._known_rate = self._passed_rate
        if not work.n_rows or self._n_judged < judged_by:
            return None
        move = self._move()
        if move is None:
            self._plan_look(work.n_rows)
        return move

    def _move(self) -> PlacementMove | None:
        figures, other = self.figures(), _other(self.incumbent)
        if figures.cost_s(other) * MARGIN >= figures.cost_s(self.incumbent):
            return None
        self.incumbent = other
        self.n_moves += 1
        self._n_judged = self._n_since_look = 0
        self._saved_s, self._known_rate = 0.0, None
        return PlacementMove(other, figures)

    def _plan_look(self, n_rows: int) -> None:
        """Let the next rounds go the other way, if it is time and what is saved pays for it."""
        figures, n_looked = self.figures(), max(LOOK_ROWS, n_rows)
        mine_s = figures.cost_s(self.incumbent)
        price_s = n_looked * max(0.0, figures.cost_s(_other(self.incumbent)) - mine_s)
        self._saved_s = min(self._saved_s + LOOK_SHARE * n_rows * mine_s, 2 * price_s)
        self._n_since_look += n_rows
        is_moved = self._is_moved()
        if (is_moved or self._n_since_look >= LOOK_EVERY * n_looked) and self._saved_s >= price_s:
            self._saved_s -= price_s
            self._n_to_look, self._n_since_look = LOOK_ROWS, 0
            self.n_looks += 1
            if is_moved:
                self._sides[AFTER] = _Evidence()

    @property
    def _passed_rate(self) -> float | None:
        """The share of rows that passed which found partners at once."""
        before = self._sides[BEFORE]
        return before.matched / before.probed if before.probed else None

    def _is_moved(self) -> bool:
        rate = self._passed_rate
        if self.incumbent == AFTER or rate is None:
            return False  # hit rates are counted on all rows
        if self._known_rate is None:
            self._known_rate = rate
        deviation = math.sqrt(
            self._known_rate * (1 - self._known_rate) / max(1.0, self._sides[BEFORE].probed)
        )
        return abs(rate - self._known_rate) > max(MOVED, DEVIATIONS * deviation)

    def figures(self) -> PlacementFigures:
        """What is known now. What was never observed of rows that are asked after the probe is taken from those that passed."""
        before, after = self._sides[BEFORE], self._sides[AFTER]
        passed_fanout = before.combinations / before.probed if before.probed else 1.0
        rate, fanout = self._passed_rate, passed_fanout
        match_rate = 1.0 if rate is None or self.asks_every_row else rate
        if after.rows:
            match_rate, fanout = min(1.0, after.asked / after.rows), after.combinations / after.rows
        if self.incumbent == AFTER:
            passed_fanout = fanout
        return PlacementFigures(
            udf_s=before.udf_s / before.rows if before.rows else 0.0,
            probe_s=self._probe_s,
            combination_s=self._combination_s,
            pass_rate=min(1.0, before.probed / before.rows) if before.rows else 1.0,
            match_rate=match_rate,
            fanout=fanout,
            passed_fanout=passed_fanout,
            is_remembered=self.is_remembered,
            filter_s=before.filter_s / before.rows if before.rows else 0.0,
        )

    def snapshot(self) -> dict[str, Any]:
        """The side and the figures, ready for JSON."""
        figures = self.figures()
        return {
            "side": self.incumbent,
            "is_looking": self._n_to_look > 0,
            "n_moves": self.n_moves,
            "n_looks": self.n_looks,
            "udf_s": figures.udf_s,
            "filter_s": figures.filter_s,
            "probe_s": figures.probe_s,
            "combination_s": figures.combination_s,
            "pass_rate": figures.pass_rate,
            "match_rate": figures.match_rate,
            "fanout": figures.fanout,
            "before_s": figures.before_s,
            "after_s": figures.after_s,
        }

    def check(self) -> None:
        figures = self.figures()
        assert 0 <= figures.pass_rate <= 1, figures
        assert 0 <= figures.match_rate <= 1, figures
        assert self._saved_s >= 0, self._saved_s


def _other(side: str) -> str:
    return AFTER if side == BEFORE else BEFORE
