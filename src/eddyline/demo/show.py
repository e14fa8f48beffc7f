"""The order of events: start, rules, rounds, change, a killed worker, proof, comparison, questions."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

import eddyline
from eddyline.api import Engine, Query, QuerySet
from eddyline.delivery import Result
from eddyline.demo.comparison import BroadcastJoin
from eddyline.demo.feeder import PATIENCE_S, Feeder
from eddyline.demo.market import STREAM, Market
from eddyline.demo.proof import (
    FIRST_ARRIVAL,
    ActiveRule,
    Pairs,
    compared,
    expected_pairs,
    n_within,
    stored_pairs,
)
from eddyline.demo.rules import ADDED, CLIENT_NAME, DROPPED, HAND_WRITTEN, TEMPLATE, client_bands
from eddyline.demo.screen import Screen
from eddyline.demo.tally import DemoTally
from eddyline.demo.workers import FailedTasks, kill_one_at_work, warm_workers
from eddyline.errors import EddylineError
from eddyline.kernels import compile_if_cold
from eddyline.spark import local_session, stop_session

PORTION, EVERY_S = 200_000, 0.4  # trades while rounds are watched
KILLS = 3  # a worker may end its task just before the signal comes
CLIENTS_HEARD = 40  # client rules whose alerts are shown
NEXT = (
    ('make demo ARGS="--rules 20000"', "more rules"),
    (". .venv/bin/activate", "for what follows"),
    ("eddyline init shop && cd shop && eddyline run --once", "a pipeline of your own"),
    ("eddyline run --once --spark", "the same on Spark"),
)


@dataclass(frozen=True, slots=True)
class Size:
    """How large a demo is."""

    n_rules: int
    watch_s: float
    burst: int  # trades at once, when a worker is killed and when throughput is measured
    join_s: float  # for the join of Spark


FULL = Size(n_rules=5_000, watch_s=4.0, burst=3_000_000, join_s=8.0)
QUICK = Size(n_rules=500, watch_s=0.5, burst=600_000, join_s=1.0)


def play(screen: Screen, size: Size, seed: int) -> bool:
    """Run the demo; False if a check did not hold. Leaves no files and no processes, also if it is interrupted."""
    screen.title(f"eddyline: {size.n_rules:,} rules over a stream of trades, on Spark on this machine")
    with ExitStack() as ends:
        home = ends.enter_context(tempfile.TemporaryDirectory(prefix="eddyline-demo-"))
        session, pids = _spark(screen, ends)
        engine = ends.enter_context(eddyline.open(home))
        show = Show(screen, size, seed, session, pids, engine)
        return show.run()


def _spark(screen: Screen, ends: ExitStack) -> tuple[Any, list[int]]:
    """A session and its workers, ready."""
    screen.step("Spark")
    began = time.perf_counter()
    with screen.waiting("loading") as tell:
        compile_if_cold(lambda far: tell(str(far)))
        session = local_session(on_wait=tell)
        ends.callback(stop_session, session)
        tell("starting Python workers")
        pids = warm_workers(session)
    names = ", ".join(map(str, pids))
    screen.say(
        f"Spark {session.version} on {session.sparkContext.master} is up after {time.perf_counter() - began:.1f} s; "
        f"workers: processes {names}"
    )
    return session, pids


class Show:
    def __init__(
        self, screen: Screen, size: Size, seed: int, session: Any, pids: list[int], engine: Engine
    ) -> None:
        self.screen = screen
        self.size = size
        self.session = session
        self.pids = pids
        self.engine = engine
        self.market = Market(seed)
        self.bands = client_bands(size.n_rules - len(HAND_WRITTEN), seed)
        self.tally = DemoTally()
        self.clients: QuerySet
        self.by_hand: dict[str, Query]
        self.versions: dict[str, int] = {}  # at which rules came and went
        self.sprint_first = 0
        self.sprint_s = 0.0

    def run(self) -> bool:
        self.register()
        with self.rounds() as feeder:
            with feeder.trading(PORTION, EVERY_S):
                self.watch(feeder)
                self.change()
            is_whole = self.kill(feeder)
            self.sprint(feeder)
        stored = stored_pairs(self.engine)
        is_proven = self.prove(stored)
        is_equal = self.compare(stored)
        self.ask()
        return is_whole and is_proven and is_equal

    # ----------------------------------------------------------------------------------------- rules and rounds

    def register(self) -> None:
        engine, say = self.engine, self.screen.say
        self.screen.step("rules")
        with self.screen.waiting("registering"):
            engine.warm_up()
            began = time.perf_counter()
            engine.stream(STREAM, self.market.stream.schema, time=self.market.stream.time)
            self.clients = engine.query_many(TEMPLATE, params=self.bands.table(), name=CLIENT_NAME)
            texts = {rule.name: rule.text for rule in HAND_WRITTEN}
            self.by_hand = dict(zip(texts, engine.query_many(texts), strict=True))
            seconds = time.perf_counter() - began
        say(
            f"{engine.n_queries:,} rules are deployed after {seconds:.2f} s: {len(self.clients):,} clients share one text,"
        )
        say(TEMPLATE, indent=5)
        say(f"and {len(HAND_WRITTEN)} are written by hand, such as {HAND_WRITTEN[2].name}:")
        say(HAND_WRITTEN[2].text, indent=5)
        subscribed = [*self.by_hand.values(), *list(self.clients)[:CLIENTS_HEARD]]
        for query in subscribed:
            query.on_result(self.tally.alerts.append)

    @contextmanager
    def rounds(self) -> Iterator[Feeder]:
        """Rounds, watched, and who feeds them; a failure is reported when they have ended."""
        self.screen.step("rounds on the workers")
        with (
            self.engine.start(self.session, on_event=self.tally.hear) as running,
            self.screen.watching(self._panel, self._line),
        ):
            try:
                yield Feeder(running, self.market, self.tally)
            except KeyboardInterrupt:
                self.screen.say("stopping after the round in flight …")
                raise
        for message in self.tally.failures:
            self.screen.say(f"a round was tried again: {message}")

    def watch(self, feeder: Feeder) -> None:
        """Nothing but rounds."""
        feeder.wait_for(1)
        time.sleep(self.size.watch_s)
        tally = self.tally
        self.screen.say(
            f"{_counted(len(tally.rounds), 'round')} so far: {tally.n_trades:,} trades read and matched by the workers, "
            f"{tally.n_alerts:,} alerts, each stored on disk"
        )

    def change(self) -> None:
        """A rule comes and one goes while rounds run."""
        engine, say = self.engine, self.screen.say
        self.screen.step("rules are added and dropped while rounds run")
        began = time.perf_counter()
        rule = self.by_hand[ADDED.name] = engine.query(ADDED.text, name=ADDED.name)
        self.versions[ADDED.name] = engine.version
        alerts = rule.results(timeout=PATIENCE_S)
        seconds = time.perf_counter() - began
        rule.on_result(self.tally.alerts.append)
        say(f"added {ADDED.name}:")
        say(ADDED.text, indent=5)
        if not alerts:
            raise EddylineError(f"rule {ADDED.name} had no alert within {PATIENCE_S:.0f} s")
        say(f"first alert {seconds:.2f} s later, in round {alerts[0].round_number}: {_row(alerts[0])}")
        time.sleep(self.size.watch_s / 2)
        whale = self.by_hand[DROPPED]
        n_alerts = whale.n_results
        whale.drop()
        self.versions[DROPPED] = engine.version
        say(f"dropped {DROPPED} after {n_alerts:,} alerts; rounds from now on do not know it")
        time.sleep(self.size.watch_s / 2)

    # ----------------------------------------------------------------------------------------- kill and sprint

    def kill(self, feeder: Feeder) -> bool:
        """Kill a worker in the middle of a round."""
        self.screen.step("a worker is killed in the middle of a round")
        context = self.session.sparkContext
        context.setLogLevel("OFF")  # Spark would print where a task failed, which is on purpose here
        try:
            for _ in range(KILLS):
                if self._killed_in_burst(feeder):
                    return True
                self.pids = warm_workers(self.session)
        finally:
            context.setLogLevel("ERROR")
        return self.screen.check(False, f"no task was hit by {KILLS} kills")

    def _killed_in_burst(self, feeder: Feeder) -> bool:
        failed, first = FailedTasks(self.session), self.tally.n_trades
        target = feeder.offer(self.size.burst)
        pid = kill_one_at_work(self.pids, lambda: self.tally.n_trades >= target, PATIENCE_S)
        feeder.wait_for(target)
        n_failed = failed.count()
        if pid is None or not n_failed:
            return False
        burst = next(measured.round for measured in self.tally.rounds if measured.n_trades > first)
        self.screen.say(
            f"Round {burst.round_number} got {burst.n_rows:,} trades at once. Process {pid}, which worked on "
            f"some of them, was ended with SIGKILL. Spark gave {_counted(n_failed, 'task')} to another worker; "
            f"the round ended after {burst.seconds:.1f} s."
        )
        return True

    def sprint(self, feeder: Feeder) -> None:
        """As fast as it goes."""
        self.screen.step("as fast as it goes")
        self.sprint_first = self.tally.n_trades
        began = time.perf_counter()
        feeder.wait_for(feeder.offer(self.size.burst))
        self.sprint_s = self.tally.rounds[-1].at_s - began
        rate = self.size.burst / self.sprint_s
        self.screen.say(
            f"{self.size.burst:,} trades generated, matched with {self.engine.n_queries:,} rules, their alerts stored: "
            f"{self.sprint_s:.2f} s, {rate:,.0f} trades/s"
        )

    # ----------------------------------------------------------------------------------------- judgement

    def prove(self, stored: Pairs) -> bool:
        tally, versions = self.tally, self.versions
        self.screen.step("nothing lost, nothing twice")
        first = {ADDED.name: tally.first_of_version(versions[ADDED.name])}
        end = {DROPPED: tally.first_of_version(versions[DROPPED])}
        deployed_rules = [
            ActiveRule(
                self.by_hand[rule.name].id, rule, first.get(rule.name, 0), end.get(rule.name, tally.n_trades)
            )
            for rule in (*HAND_WRITTEN, ADDED)
        ]
        with self.screen.waiting(
            f"making the same {tally.n_trades:,} trades again and judging them with NumPy"
        ):
            began = time.perf_counter()
            expected = expected_pairs(
                self.market, tally.n_trades, self.bands, self.clients.ids, deployed_rules
            )
            proof = compared(stored, expected)
            seconds = time.perf_counter() - began
        self.screen.say(
            f"The home keeps {proof.n_alerts:,} alerts of {tally.n_trades:,} trades in {len(tally.rounds)} rounds. NumPy, which "
            f"knows only the trades and the rules, says {proof.n_expected:,} ({seconds:.1f} s). Rule by rule, trade by trade:"
        )
        return self.screen.check(
            proof.holds,
            f"{proof.n_lost:,} lost, {proof.n_twice:,} twice, {proof.n_wrong:,} that should not be",
        )

    def compare(self, stored: Pairs) -> bool:
        screen, burst = self.screen, self.size.burst
        screen.step("the same rules as a Spark broadcast join")
        rules = [rule for rule in (*HAND_WRITTEN, ADDED) if rule.name != DROPPED]
        with screen.waiting(f"joining, about {self.size.join_s:.0f} s after a short warm-up"):
            join = BroadcastJoin(self.session, self.bands, rules)
            joined = join.run(self.market, self.sprint_first, burst, self.size.join_s)
        n_alerts = n_within(stored, self.sprint_first, joined.n_trades)
        rate = burst / self.sprint_s
        screen.say(f"eddyline   {rate:>12,.0f} trades/s: {burst:,} generated, matched, alerts stored")
        screen.say(
            f"Spark join {joined.rate:>12,.0f} trades/s: {joined.n_trades:,} of them, in memory, alerts only counted"
        )
        screen.say(
            f"{rate / joined.rate:,.0f} times as many trades a second, measured on this machine just now",
            "bold",
        )
        screen.say(
            "No client rule has an equality, so Spark compares every trade with every rule. "
            "Where each rule has one, its join is much faster."
        )
        return screen.check(
            joined.n_alerts == n_alerts,
            f"alerts of these {joined.n_trades:,} trades: {joined.n_alerts:,} by Spark, {n_alerts:,} by eddyline",
        )

    def ask(self) -> None:
        say = self.screen.say
        rule = self.by_hand[ADDED.name]
        (alert,) = rule.latest(1)
        (trade,) = self.market.trades(alert.arrival - FIRST_ARRIVAL, 1).to_pylist()
        self.screen.step(f"why did {rule.name} fire, and how is {self.clients[0].name} answered?")
        for line in str(rule.why(trade)).splitlines():
            say(line)
        for line in str(self.clients[0].explain()).splitlines():
            if line.split()[0] in (f"{self.clients[0].name}:", "shape", "served"):
                say(line)
        self.screen.title("\nNext:")
        for command, words in NEXT:
            say(f"{command:54} {words}")

    # ----------------------------------------------------------------------------------------- what is seen

    def _line(self) -> str:
        tally = self.tally
        trades, alerts = tally.rates()
        return (
            f"round {len(tally.rounds)}: {tally.n_trades:,} trades ({trades:,.0f}/s), "
            f"{tally.n_alerts:,} alerts ({alerts:,.0f}/s)"
        )

    def _panel(self) -> Panel:
        tally = self.tally
        trades, alerts = tally.rates()
        figures = Table.grid(padding=(0, 2))
        for _ in range(4):
            figures.add_column(justify="right")
        figures.add_row("rounds", f"{len(tally.rounds):,}", "rules", f"{self.engine.n_queries:,}")
        figures.add_row("trades", f"{tally.n_trades:,}", "a second", f"{trades:,.0f}")
        figures.add_row("alerts", f"{tally.n_alerts:,}", "a second", f"{alerts:,.0f}")
        recent_alerts = Text(
            "\n".join(f"{a.query:12} {_row(a)}" for a in tuple(tally.alerts)), style="dim", no_wrap=True
        )
        return Panel(Group(figures, Text(), recent_alerts), title="now", border_style="cyan")


def _row(result: Result) -> str:
    values = (f"{k}={v:,.2f}" if isinstance(v, float) else f"{k}={v}" for k, v in result.items())
    return "  ".join(values)


def _counted(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
