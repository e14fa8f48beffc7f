"""What a killed process was doing: steps that change a home, each done by the engine and by the model."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import eddyline
from tests.durability.model import MISFIT, NEWS, TRADES, WATCH, Model, Rule

START = datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC)
START_US = 1_714_521_600_000_000


@dataclass(frozen=True)
class Step:
    """One thing a user does. Doing it again after it has happened is only asked of pushes, which have a token."""

    what: str
    do: Callable[[eddyline.Engine], Any]
    expect: Callable[[Model], None]
    token: str | None = None


def declare(name: str, ddl: str, n_columns: int) -> Step:
    return Step(f"declare {name}", lambda e: e.sql(ddl), lambda m: m.declare(name, n_columns))


def drop_stream(name: str) -> Step:
    return Step(f"drop stream {name}", lambda e: e.drop_stream(name), lambda m: m.drop_stream(name))


def register(name: str, rule: Rule) -> Step:
    params = {"sym": rule.sym, "limit": rule.limit} if rule.kind == "watch" else None
    return Step(
        f"register {name}",
        lambda e: e.query(rule.text, name=name, params=params),
        lambda m: m.register({name: rule}),
    )


def template(rules: dict[str, Rule]) -> Step:
    syms, limits = [r.sym for r in rules.values()], [r.limit for r in rules.values()]
    return Step(
        f"template of {len(rules)}",
        lambda e: e.query_many(WATCH, params={"sym": syms, "limit": limits}, name="watch-{sym}"),
        lambda m: m.register(rules),
    )


def replace(name: str, rule: Rule) -> Step:
    params = {"sym": rule.sym, "limit": rule.limit} if rule.kind == "watch" else None
    return Step(
        f"replace {name}",
        lambda e: e.replace(name, rule.text, params=params),
        lambda m: m.replace(name, rule),
    )


def pause(name: str) -> Step:
    return Step(f"pause {name}", lambda e: e.get(name).pause(), lambda m: m.pause(name))


def resume(name: str) -> Step:
    return Step(f"resume {name}", lambda e: e.get(name).resume(), lambda m: m.resume(name))


def drop(*names: str) -> Step:
    return Step(
        f"drop {', '.join(names)}",
        lambda e: e.drop_ids([e.get(name).id for name in names]),
        lambda m: m.drop(list(names)),
    )


def push(token: str, **rows: list[dict[str, Any]]) -> Step:
    return Step(
        f"push {token}", lambda e: e.push(rows, token=token), lambda m: m.push(token, rows), token=token
    )


def tick() -> Step:
    return Step("tick", lambda e: e.tick(), lambda m: m.push(None, {}))


# --------------------------------------------------------------------------------------------- scripts


def trade(sym: str, price: float | None, qty: int | None = 1, second: int = 0) -> dict[str, Any]:
    return {"sym": sym, "price": price, "qty": qty, "ts": START + datetime.timedelta(seconds=second)}


def short_script() -> list[Step]:
    """Every kind of step, once or twice, with literals to check by eye."""
    return [
        declare("trades", TRADES, 4),
        declare("news", NEWS, 2),
        register("cheap", Rule("cheap", 10.0)),
        register("share", Rule("share", 5.0)),
        push("t1", trades=[trade("A", 9.0), trade("B", 11.0), trade("C", 8.5, 0)]),
        template({"watch-A": Rule("watch", 9.5, "A"), "watch-B": Rule("watch", 20.0, "B")}),
        push("t2", trades=[trade("A", 9.0, 50, 10), MISFIT, trade("B", 12.0, 0, 11)], news=[{"sym": "A", "score": 3}]),
        replace("cheap", Rule("cheap", 12.5)),
        pause("watch-A"),
        replace("watch-A", Rule("watch", 7.5, "A")),
        register("good news", Rule("score", 2)),
        push("t3", trades=[trade("A", 1.0, None, 1), trade("B", 12.0, 3, 20)], news=[{"sym": "B", "score": 2}]),
        tick(),
        resume("watch-A"),
        replace("watch-B", Rule("watch", 5.0, "B")),
        push("t4", trades=[trade("A", 2.0, 7, 30), trade("B", 4.0, 0, 31), MISFIT]),
        drop("good news"),
        drop_stream("news"),
        declare("news", NEWS, 2),
        push("t5", news=[{"sym": "C", "score": 9}], trades=[]),
        drop("share", "watch-A"),
        push("t6", trades=[trade("A", 3.0, 0, 40)]),
    ]  # fmt: skip


def random_script(rng: random.Random, n: int) -> list[Step]:
    """n steps that make sense one after the other."""
    steps = [declare("trades", TRADES, 4), declare("news", NEWS, 2)]
    running: dict[str, Rule] = {}
    paused: dict[str, Rule] = {}
    n_named = 0
    while len(steps) < n:
        chosen = rng.random()
        if chosen < 0.55 or not running:
            steps.append(_random_push(rng, f"token {len(steps)}"))
        elif chosen < 0.60:
            steps.append(tick())
        if chosen < 0.60 and (running or rng.random() < 0.5):
            continue
        kind = rng.choice(["register", "template", "replace", "pause", "resume", "drop"])
        if kind == "register" or not running:
            n_named += 1
            rule = _random_rule(rng)
            running[f"q{n_named}"] = rule
            steps.append(register(f"q{n_named}", rule))
        elif kind == "template":
            rules = {}
            for _ in range(rng.randint(1, 4)):
                n_named += 1
                rules[f"watch-{n_named}"] = Rule("watch", float(rng.randint(1, 20)), f"{n_named}")
            running.update(rules)
            steps.append(template(rules))
        elif kind == "replace":
            name = rng.choice([*running, *paused])
            rule = Rule("cheap", rng.randint(1, 20) + len(steps) / 1024)  # a limit no rule has had
            (paused if name in paused else running)[name] = rule
            steps.append(replace(name, rule))
        elif kind == "pause":
            name = rng.choice(list(running))
            paused[name] = running.pop(name)
            steps.append(pause(name))
        elif kind == "resume" and paused:
            name = rng.choice(list(paused))
            running[name] = paused.pop(name)
            steps.append(resume(name))
        elif kind == "drop":
            name = rng.choice(list(running))
            del running[name]
            steps.append(drop(name))
    return steps


def _random_rule(rng: random.Random) -> Rule:
    kind = rng.choice(["cheap", "share", "watch", "score"])
    limit = rng.randint(1, 20) if kind == "score" else rng.randint(1, 20) + 0.5
    return Rule(kind, limit, "A" if kind == "watch" else "")


def _random_push(rng: random.Random, token: str) -> Step:
    second = rng.randint(0, 1000)
    trades = [
        trade(rng.choice("ABC123"), rng.choice([None, float(rng.randint(0, 25))]), rng.choice([None, 0, 3, 40]), second + k)
        for k in range(rng.randint(0, 4))
    ]  # fmt: skip
    if rng.random() < 0.2:
        trades.insert(rng.randint(0, len(trades)), MISFIT)
    news = [{"sym": rng.choice("AB"), "score": rng.randint(0, 20)} for _ in range(rng.randint(0, 2))]
    streams = {"trades": trades, "news": news}
    return push(token, **(streams if rng.random() < 0.5 else {"trades": trades}))
