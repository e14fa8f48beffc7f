"""What the routes share: the engine, who may ask, and what the server knows beside it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

from eddyline.api import Commands, Engine
from eddyline.catalog import Access
from eddyline.runtime import KeptResults
from eddyline.server.directory import Directory
from eddyline.server.limits import MOST_PROOFS, MOST_TRIALS, Buckets
from eddyline.server.live import Hub
from eddyline.server.rates import Rates
from eddyline.server.trends import Trends


@dataclass(frozen=True, slots=True)
class Settings:
    """How a server is run."""

    host: str = "127.0.0.1"
    port: int = 8321
    public_url: str | None = None  # under which people reach it, if not this machine and port
    open_metrics: bool = False  # /metrics without a token; a server on loopback alone shows them anyway
    requests_per_s: float = 50.0  # of each token
    burst: int = 100
    streams_per_token: int = 100  # of events, open at once; admins may have all there are
    hosts: frozenset[str] | None = None  # names by which it may be addressed; None: any

    @property
    def is_loopback(self) -> bool:
        return self.host in ("127.0.0.1", "::1", "localhost")

    @property
    def url(self) -> str:
        if self.public_url is not None:
            return self.public_url.rstrip("/")
        host = "127.0.0.1" if self.host in ("0.0.0.0", "") else self.host
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    def at_port(self, port: int) -> Settings:
        """The same at the port it got. A server on loopback answers to the names of this machine, and to its public one."""
        settings = replace(self, port=port)
        if not settings.is_loopback or settings.hosts is not None:
            return settings
        public = urlsplit(settings.public_url or "").hostname
        return replace(
            settings, hosts=frozenset({"127.0.0.1", "localhost", "[::1]", *([public] if public else [])})
        )

    @property
    def cookie(self) -> str:
        """Cookies know no ports: two servers of one machine must not take each other's."""
        return f"eddyline-{self.port}"


@dataclass(slots=True)
class Service:
    """One engine being served."""

    engine: Engine
    settings: Settings
    commands: Commands
    access: Access
    stored_results: KeptResults
    hub: Hub
    directory: Directory
    rates: Rates
    trends: Trends
    by_token: Buckets
    by_address: Buckets
    proofs: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(MOST_PROOFS))
    trials: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(MOST_TRIALS))
    began: float = field(default_factory=time.monotonic)
    is_draining: bool = False
    # why the rounds of a pipeline run no more, or None; asked by /ready
    trouble: Callable[[], str | None] = lambda: None

    @classmethod
    def of(cls, engine: Engine, settings: Settings) -> Service:
        stored_results = KeptResults(engine.rounds)
        rates = Rates()
        trends = Trends(engine.rounds)
        engine.on_event(rates.observe)
        engine.on_event(trends.observe)
        return cls(
            engine=engine,
            settings=settings,
            commands=Commands(engine),
            access=engine.access,
            stored_results=stored_results,
            hub=Hub(engine, stored_results),
            directory=Directory(engine.rounds),
            rates=rates,
            trends=trends,
            by_token=Buckets(settings.requests_per_s, settings.burst),
            by_address=Buckets(settings.requests_per_s, settings.burst),
        )

    def now_us(self) -> int:
        """The clock of tokens and of the audit log, which is not that of the rounds."""
        return time.time_ns() // 1000

    def open_alerts(self) -> dict[int, dict[str, int]]:
        """How many alerts of each query are open, by state."""
        rounds = self.engine.rounds
        with rounds.lock:
            rounds.check_open()
            return rounds.alerting.log.n_open() if rounds.catalog.alerts.any else {}

    def audit(self, who: str, owner: str, what: str, detail: Mapping[str, Any]) -> None:
        """Note a change that was made."""
        self.access.audit.add(self.now_us(), who, owner, what, detail)

    def close(self) -> None:
        """End streams of events and listen to the engine no more."""
        self.is_draining = True
        self.hub.close()
        with self.engine.rounds.lock:
            for heard in (self.rates.observe, self.trends.observe):
                self.engine.rounds.unlisten(heard)
