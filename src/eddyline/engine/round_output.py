"""What a round made in one place: counts, dead letters, records, observations. Tasks return it, and the commit merges it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from eddyline.engine.letters import pair_letter
from eddyline.events import Event
from eddyline.filters import FilterOutput
from eddyline.functions import FunctionActivity, FunctionKey
from eddyline.joins import ProbeCounters
from eddyline.model import DeadLetter, Round
from eddyline.operators import OperatorInput
from eddyline.routing import WalkRecord, combined_record
from eddyline.statistics import StageRecord

MOST_LETTERS = 10_000  # of a round in one place; older ones are counted


@dataclass(slots=True)
class RoundOutput:
    """The rows of a task, and its letters, are numbered from 0; `merge` gives them the numbers of the round."""

    most_letters: int = MOST_LETTERS
    n_results: int = 0
    n_dead: int = 0
    n_derived: int = 0  # rows that operators made
    letters: list[DeadLetter] = field(default_factory=list)  # the newest
    n_older_letters: int = 0  # that were there before them, and were only counted in the end
    more_dead: Counter[tuple[str, int | None]] = field(
        default_factory=Counter
    )  # by error and query: the others
    records: dict[str, StageRecord] = field(default_factory=dict)  # by relation
    walked: dict[str, WalkRecord] = field(default_factory=dict)  # by relation: what was observed of filters
    functions: list[dict[FunctionKey, FunctionActivity]] = field(default_factory=list)  # in other processes
    probes: dict[OperatorInput, ProbeCounters] = field(default_factory=dict)  # of joins, in other processes
    asked: Counter[OperatorInput] = field(
        default_factory=Counter
    )  # rows that functions were first shown as part of a combination
    asking_s: defaultdict[OperatorInput, float] = field(
        default_factory=lambda: defaultdict(float)
    )  # processor seconds in which it was found out which rows an input wants
    events: list[Event] = field(default_factory=list)

    def add_output(self, relation: str, output: FilterOutput, record: StageRecord, round_number: int) -> None:
        """Take in what the queries of a relation made of a batch."""
        self.n_results += output.n_matches
        self._add_record(relation, record)
        dead = output.dead_pairs
        n_dead = len(dead.rows)
        if not n_dead:
            return
        n_older = max(0, n_dead - self.most_letters)
        self.n_dead += n_older
        older = output.plan.queries_of(dead.query_ids[:n_older]).tolist()
        for failure, query_id in zip(dead.failures[:n_older], older, strict=True):
            self.more_dead[failure.error, query_id] += 1
        self.add_letters([pair_letter(output, at, round_number) for at in range(n_older, n_dead)])

    def add_letters(self, letters: Sequence[DeadLetter]) -> None:
        """Take in letters that are newer than those there are."""
        self.n_dead += len(letters)
        self.letters += letters
        n_older = max(0, len(self.letters) - self.most_letters)
        for letter in self.letters[:n_older]:
            self.more_dead[letter.error, letter.query_id] += 1
        del self.letters[:n_older]
        self.n_older_letters += n_older

    def name_letters(self, find_name: Callable[[int], str | None]) -> None:
        """Name the queries of letters that have none yet."""
        self.letters = [
            letter
            if letter.query_id is None or letter.query is not None
            else replace(letter, query=find_name(letter.query_id))
            for letter in self.letters
        ]

    def _add_record(self, relation: str, record: StageRecord) -> None:
        known = self.records.get(relation)
        self.records[relation] = record if known is None else merged_record(known, record)

    def merge(self, other: RoundOutput, round_: Round, first_arrival: int) -> None:
        """Take in what another place made of a part of the round, whose rows are numbered from `first_arrival` on."""
        self.n_results += other.n_results
        self.n_dead += other.n_dead - len(other.letters)
        self.n_derived += other.n_derived
        numbered = [
            replace(
                letter,
                round_number=round_.number,
                arrival=None if letter.arrival is None else first_arrival + letter.arrival,
            )
            for letter in other.letters
        ]
        self.add_letters(numbered)
        self.more_dead.update(other.more_dead)
        for relation, record in other.records.items():
            self._add_record(relation, record)
        for relation, walked in other.walked.items():
            known = self.walked.get(relation)
            self.walked[relation] = walked if known is None else combined_record([known, walked])
        self.functions += other.functions
        for origin, counters in other.probes.items():
            self.probes.setdefault(origin, ProbeCounters()).add(counters)
        self.asked.update(other.asked)
        for who, took_s in other.asking_s.items():
            self.asking_s[who] += took_s
        self.events += other.events


def merged_record(one: StageRecord, other: StageRecord) -> StageRecord:
    """What one stage did for a relation in two places or for two batches."""
    return replace(
        one,
        n_rows=one.n_rows + other.n_rows,
        n_candidates=one.n_candidates + other.n_candidates,
        n_looked_at=one.n_looked_at + other.n_looked_at,
        n_matches=one.n_matches + other.n_matches,
        nbytes=one.nbytes + other.nbytes,
        cpu_s=one.cpu_s + other.cpu_s,
    )
