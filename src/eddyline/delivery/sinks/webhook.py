"""Messages of alerts, or results, as HTTP requests to another server.

    POST /hooks/eddyline HTTP/1.1
    Content-Type: application/json
    Eddyline-Home: 3f9a1c
    Eddyline-Delivery: 41-57
    Eddyline-Signature: t=1767225600,v1=5257a869e7ecebeda32affa62cdca3fa51cad7e77a0e56ff536d0ce8e108d8bd

A request has up to `batch` messages. `Eddyline-Delivery` names the first and the last of them. A request of which it is not known
whether it arrived is sent again with the same messages under the same name, also by another process after a crash: what one round
has brought is always cut alike; where messages of several rounds share a request, the last of them is noted in the home before
it is sent.

    2xx                          the receiver has them
    4xx but 408, 409, 425, 429   it will never want them: they become dead letters, and the next go
    anything else, or nothing    they are sent again after a pause, which `Retry-After` may prolong
"""

from __future__ import annotations

import email.utils
import hashlib
import hmac
import http
import math
import ssl
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from eddyline.delivery.sinks.addresses import AddressRefused, Resolve, resolve_name
from eddyline.delivery.sinks.batches import Batch, Item
from eddyline.delivery.sinks.bodies import ALERTMANAGER_PATH, alertmanager_body, json_body
from eddyline.delivery.sinks.posting import (
    Connect,
    HttpAnswer,
    Poster,
    PostFailed,
    Target,
    connect_to,
    target_of,
)
from eddyline.delivery.sinks.sink import SinkError
from eddyline.secrets import Secret, SecretError, Text, revealed_text

WEBHOOK_REFUSED = "WEBHOOK_REFUSED"
BATCH = 100
TIMEOUT_S = 10.0
RETRIED = (
    408,
    409,
    425,
    429,
)  # of the answers that say the request is at fault: these may be better another time
LONGEST_RETRY_AFTER_S = 86_400.0
SHOWN_ANSWER = 200  # characters

Refuse = Callable[[Sequence[Item], str], None]


@dataclass(frozen=True, slots=True)
class Webhook:
    """Where to, and how, as the settings say. Secrets are read when they are used."""

    url: Text
    format: str = "json"
    secret: Secret | None = None
    headers: tuple[tuple[str, Text], ...] = ()
    timeout_s: float = TIMEOUT_S
    batch: int = BATCH
    allow_private: bool = False
    public_url: str | None = None

    @property
    def texts(self) -> tuple[Text, ...]:
        """All that may hold secrets."""
        return (
            self.url,
            *([] if self.secret is None else [self.secret]),
            *(text for _, text in self.headers),
        )

    @property
    def is_secretive(self) -> bool:
        """Whether a secret is sent to the receiver, which may then say it back. The key of the signature is not sent."""
        return any(isinstance(text, Secret) for text in (self.url, *(text for _, text in self.headers)))

    def more_headers(self) -> dict[str, str]:
        """The headers of the settings. Raises SecretError."""
        found = {}
        for name, text in self.headers:
            value = revealed_text(text).strip()
            if not is_header_value(value):
                raise SecretError(f"header {name} holds what no header can: a line break, say")
            found[name] = value
        return found

    def target(self) -> Target:
        """Raises SecretError, also if it is no URL that can be used."""
        try:
            target = target_of(revealed_text(self.url))
        except ValueError as error:
            written = f" {self.url}" if isinstance(self.url, Secret) else ""
            raise SecretError(f"url{written} cannot be used: {error}") from None
        if self.format == "alertmanager" and not target.path.partition("?")[0].endswith(ALERTMANAGER_PATH):
            path, mark, query = target.path.partition("?")
            target = Target(
                target.scheme,
                target.host,
                target.port,
                f"{path.rstrip('/')}{ALERTMANAGER_PATH}{mark}{query}",
            )
        return target


@dataclass(slots=True)
class _PendingRound:
    """What of one round waits. Of messages it is never more than fit into a request; of results it may be."""

    number: int
    items: list[Item]


class WebhookSink:
    """Sends what it is given as soon as it is flushed, in requests of up to `batch`."""

    def __init__(
        self,
        webhook: Webhook,
        *,
        name: str,
        home_id: str,
        refuse: Refuse,
        noted_round: int = 0,
        note: Callable[[int], None] | None = None,
        resolve: Resolve = resolve_name,
        connect: Connect = connect_to,
        tls: ssl.SSLContext | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """Opens no connection yet.

        refuse   is given what the receiver will never want, and why
        note     keeps the number of the last round, or message, of a request that has several rounds' messages; `noted` is what
                 was kept last
        """
        self.name = name
        self._webhook = webhook
        self._home_id = home_id
        self._refuse = refuse
        self._note = note or (lambda number: None)
        self._noted_round = noted_round
        self._resolve = resolve
        self._connect = connect
        self._tls = tls
        self._clock = clock
        self._wall_clock = wall_clock
        self._poster: Poster | None = None
        self._posts_to: Target | None = None
        self._is_interrupted = False
        self._pending: list[_PendingRound] = []
        self._partial_round = (0, 0)  # a round of which some results were sent, though not all, and how many
        # whether the next request is of one round only: such a one may have been sent, and it is not known whether it arrived
        self._is_alone = True

    def has_room(self, number: int, n_items: int) -> bool:
        if not self._pending or number <= self._noted_round:
            return True
        is_noted = self._pending[0].number <= self._noted_round  # it goes as it was cut then
        return not (is_noted or self._is_alone or self._n_waiting() + n_items > self._webhook.batch)

    def write(self, number: int, batches: Sequence[Batch]) -> None:
        self._pending.append(_PendingRound(number, [item for batch in batches for item in batch.items()]))

    def is_due(self) -> bool:
        return bool(self._pending)

    def is_full(self) -> bool:
        if not self._pending or self._pending[-1].number < self._noted_round:
            return False
        return self._n_waiting() >= self._webhook.batch

    def wait_s(self) -> float:
        return 0.0 if self._pending else math.inf

    def flush(self) -> bool:
        """One request; several for a round that is larger than that."""
        if not self._pending:
            return True
        last = self._pending[-1].number
        if len(self._pending) > 1 and last > self._noted_round:
            self._note(last)
            self._noted_round = last
        items = [item for each in self._pending for item in each.items]
        n_sent = self._partial_round[1] if self._partial_round[0] == last else 0
        size = len(items) if len(self._pending) > 1 else self._webhook.batch
        for at in range(n_sent, len(items), size):
            self._send(items[at : at + size])
            self._partial_round = last, at + size
        self._pending = []
        self._is_alone = False
        return True

    def forget(self, cursor: int) -> None:
        self._pending = []
        self._is_alone = True

    def interrupt(self) -> None:
        self._is_interrupted = True
        if self._poster is not None:
            self._poster.interrupt()

    def close(self) -> None:
        if self._poster is not None:
            self._poster.close()

    # ----------------------------------------------------------------------------------------- requests

    def _n_waiting(self) -> int:
        return sum(len(each.items) for each in self._pending)

    def _send(self, items: Sequence[Item]) -> None:
        """Send a request. Raises SinkError if it has to be sent again later."""
        try:
            answer = self._answer(items)
        except AddressRefused as error:
            where = "an address" if isinstance(self._webhook.url, Secret) else f"{error}, an address"
            raise self._sink_error(
                f"goes to {where} that is not on the public internet",
                detail="If it is meant to stay inside, say allow_private = true in its settings.",
            ) from None
        except PostFailed as error:
            raise self._sink_error(f"did not take what was sent: {error}") from None
        except SecretError as error:
            raise self._sink_error(f"cannot be used: {error.problem}", detail=error.hint) from None
        if 400 <= answer.status < 500 and answer.status not in RETRIED:
            self._refuse(items, f"sink {self.name}: the receiver answered {self._answer_text(answer)}")
        elif not 200 <= answer.status < 300:
            failed = self._sink_error(f"answered {self._answer_text(answer)}")
            failed.retry_after_s = _seconds(answer.retry_after, self._wall_clock())
            raise failed

    def _answer(self, items: Sequence[Item]) -> HttpAnswer:
        webhook, delivery = self._webhook, delivery_of(items)
        if webhook.format == "alertmanager":
            body = alertmanager_body(items, public_url=webhook.public_url)
        else:
            body = json_body(items, sink=self.name, home_id=self._home_id, delivery=delivery)
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "eddyline",
            "Eddyline-Home": self._home_id,
            "Eddyline-Delivery": delivery,
        }
        if webhook.secret is not None:
            headers["Eddyline-Signature"] = signature(
                revealed_text(webhook.secret).encode(), body, int(self._wall_clock())
            )
        headers |= webhook.more_headers()
        return self._current_poster().post(body, headers)

    def _current_poster(self) -> Poster:
        """The connection; another one if the URL, which may be a secret, is another now."""
        target = self._webhook.target()
        if self._poster is None or target != self._posts_to:
            if self._poster is not None:
                self._poster.close()
            self._posts_to = target
            self._poster = Poster(
                target,
                timeout_s=self._webhook.timeout_s,
                allow_private=self._webhook.allow_private,
                resolve=self._resolve,
                connect=self._connect,
                tls=self._tls,
                clock=self._clock,
            )
            if self._is_interrupted:
                self._poster.interrupt()
        return self._poster

    def _sink_error(self, what: str, *, detail: str | None = None) -> SinkError:
        url = self._webhook.url
        where = str(url) if isinstance(url, Secret) else self._webhook.target().public_url
        return SinkError(f"sink {self.name} at {where} {what}", detail=detail)

    def _answer_text(self, answer: HttpAnswer) -> str:
        """The status, and the receiver's text if it was sent no secret that it could repeat."""
        try:
            status = f"{answer.status} {http.HTTPStatus(answer.status).phrase}"
        except ValueError:
            status = str(answer.status)
        if 300 <= answer.status < 400:
            return f"{status}; redirects are not followed"
        body = "".join(c if c.isprintable() else " " for c in answer.text[:SHOWN_ANSWER]).strip()
        return status if self._webhook.is_secretive or not body else f"{status}: {body}"


def delivery_of(items: Sequence[Item]) -> str:
    """The name of a request: of messages their first and last id, of results theirs, which have dashes themselves."""
    return f"{items[0].id}{':' if items[0].message is None else '-'}{items[-1].id}"


def is_header_value(value: str) -> bool:
    return all(c == "\t" or " " <= c <= "~" or "\xa0" <= c <= "\xff" for c in value)


def signature(secret: bytes, body: bytes, at: int) -> str:
    """What a receiver can check: that a sender with the secret sent this body, and when."""
    digest = hmac.new(secret, f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={at},v1={digest}"


def _seconds(retry_after: str | None, now: float) -> float:
    """How long a receiver asks to be left alone: a number of seconds, or a time; 0 if it says nothing that can be read."""
    text = (retry_after or "").strip()
    if text.isascii() and text.isdigit():
        return min(float(text), LONGEST_RETRY_AFTER_S)
    try:
        at = email.utils.parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError):
        return 0.0
    return min(max(0.0, at - now), LONGEST_RETRY_AFTER_S)
