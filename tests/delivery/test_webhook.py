"""The webhook: what is sent, what the answers mean, and that a receiver that knows a delivery again has each message once."""

from __future__ import annotations

import email.utils
import hashlib
import hmac
import json
import socket
import ssl
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyline.delivery.sinks import (
    MessageBatch,
    MessageFeed,
    QueryFacts,
    SinkError,
    SinkSelection,
    Webhook,
    WebhookSink,
)
from eddyline.delivery.sinks.addresses import Address
from eddyline.delivery.sinks.posting import HttpAnswer, connect_to, target_of
from eddyline.delivery.sinks.webhook import delivery_of, signature
from eddyline.model import Message
from eddyline.secrets import text_with_secrets
from tests.delivery.test_sinks import Clock, batch
from tests.strategies import examples
from tests.webhook_receiver import Receiver, Reply, receiver

START_US = 1_767_225_600_000_000  # 2026-01-01


def message(number: int, *, round_number: int = 1, status: str = "firing", **given) -> Message:
    stated = {
        "query": "cheap",
        "query_id": 1,
        "generation": 1,
        "owner": "ops",
        "key": {"sym": "A"},
        "severity": "critical",
        "message": f"A fell for the {number}. time",
        "row": {"sym": "A", "price": 9.5},
        "result": f"{round_number}-{number}-1",
        "at_us": START_US + 60_000_000,
        "since_us": START_US,
        "n_rows": 1,
        "n_suppressed": 0,
    }
    return Message(id=number, status=status, round=round_number, **(stated | given))


@pytest.fixture
def hook():
    with receiver() as made:
        yield made


class Sending:
    """A sink to a receiver, with what it refused and what was noted."""

    def __init__(self, hook: Receiver, *, sink: dict | None = None, **given) -> None:
        self.refused: list[tuple[list[str], str]] = []
        self.notes: list[int] = []
        self.clock = Clock()
        self.webhook = Webhook(**({"url": hook.url, "allow_private": True} | given))
        self.sink = WebhookSink(
            self.webhook,
            name="ops",
            home_id="3f9a1c",
            refuse=lambda items, why: self.refused.append(([item.id for item in items], why)),
            note=self.notes.append,
            wall_clock=lambda: 1_767_225_600.7,
            **(sink or {}),
        )

    def send(self, *messages: Message) -> None:
        for each in messages:
            self.write(MessageBatch([each]))
        self.sink.flush()

    def write(self, given: MessageBatch) -> None:
        if not self.sink.has_room(given.number, len(given)):
            self.sink.flush()
        self.sink.write(given.number, [given])


@pytest.fixture
def sending(hook):
    made: list[Sending] = []

    def send(**given) -> Sending:
        made.append(Sending(hook, **given))
        return made[-1]

    yield send
    for each in made:
        each.sink.close()


# --------------------------------------------------------------------------------------------- what is sent


def test_a_request_has_the_messages_and_says_which(hook, sending):
    sending().send(message(41), message(42))
    first, second = hook.requests
    assert first.path == "/hook"
    assert first.headers["Content-Type"] == "application/json"
    assert (first.headers["Eddyline-Home"], first.delivery) == ("3f9a1c", "41-41")
    assert first.document == {
        "sink": "ops",
        "home": "3f9a1c",
        "delivery": "41-41",
        "messages": [
            {
                "id": 41,
                "status": "firing",
                "query": "cheap",
                "query_id": 1,
                "generation": 1,
                "owner": "ops",
                "key": {"sym": "A"},
                "severity": "critical",
                "message": "A fell for the 41. time",
                "row": {"sym": "A", "price": 9.5},
                "result": "1-41-1",
                "round": 1,
                "at": "2026-01-01T00:01:00Z",
                "since": "2026-01-01T00:00:00Z",
                "n_rows": 1,
                "n_suppressed": 0,
                "reason": None,
                "silence": None,
                "n_withheld": 0,
            }
        ],
    }
    assert second.delivery == "42-42"
    assert second.port == first.port, "the connection is kept"
    assert "Eddyline-Signature" not in first.headers


def test_a_signed_request_can_be_checked_by_whoever_knows_the_secret(hook, sending, monkeypatch):
    monkeypatch.setenv("HOOK_SECRET", "rosebud")
    secret = text_with_secrets("${env:HOOK_SECRET}", Path())
    sending(secret=secret).send(message(1))
    stamp, _, given = hook.requests[0].headers["Eddyline-Signature"].partition(",v1=")
    assert stamp == "t=1767225600"
    signed = b"1767225600." + hook.requests[0].body
    assert given == hmac.new(b"rosebud", signed, hashlib.sha256).hexdigest()
    assert signature(b"k", b"{}", 7).startswith("t=7,v1=")


def test_headers_of_the_settings_are_sent_with_their_secrets(hook, sending, monkeypatch):
    monkeypatch.setenv("TOKEN", "s3cr3t")
    bearer = text_with_secrets("Bearer ${env:TOKEN}", Path())
    sending(headers=(("Authorization", bearer), ("X-Team", "ops"))).send(message(1))
    assert hook.requests[0].headers["Authorization"] == "Bearer s3cr3t"
    assert hook.requests[0].headers["X-Team"] == "ops"


def test_results_are_sent_as_they_are_read_elsewhere(hook, sending):
    made = sending()
    made.sink.write(7, [batch(7, [2, 1], sym=["A", "B"], price=[1.5, None])])
    made.sink.flush()
    [request] = hook.requests
    assert request.delivery == "7-10-2:7-20-1"
    assert request.document["results"] == [
        {"query": "watch-ann", "query_id": 2, "generation": 1, "round": 7, "arrival": 10, "change": "insert",
         "is_late": False, "cursor": "7-10-2", "row": {"sym": "A", "price": 1.5}},
        {"query": "cheap", "query_id": 1, "generation": 1, "round": 7, "arrival": 20, "change": "insert",
         "is_late": False, "cursor": "7-20-1", "row": {"sym": "B", "price": None}},
    ]  # fmt: skip


def test_alertmanager_gets_labels_annotations_and_times(hook, sending):
    made = sending(
        url=f"http://127.0.0.1:{hook.port}/am/", format="alertmanager", public_url="https://e.example/"
    )
    awkward = {"sym": "A", "2nd": 7, "severity": "odd", "a b": None, "ok": True, "tag": ""}
    lasting = message(1, key=awkward, row={"summary": "s", "price": 9.5, "gone": None})
    made.write(MessageBatch([lasting], frozenset([1])))
    made.write(MessageBatch([message(2, status="resolved")]))
    made.write(MessageBatch([message(3, query_id=0, severity="", owner="")]))
    made.sink.flush()
    assert hook.requests[0].path == "/am/api/v2/alerts"
    fired, resolved, instant = [alert for request in hook.requests for alert in request.document]
    assert fired == {
        "labels": {
            "alertname": "cheap", "severity": "critical", "owner": "ops", "sym": "A", "key_2nd": "7",
            "key_severity": "odd", "ok": "true",
        },
        "annotations": {"summary": "A fell for the 1. time", "row_summary": "s", "price": "9.5"},
        "startsAt": "2026-01-01T00:00:00Z",
        "endsAt": "2027-01-01T00:01:00Z",
        "generatorURL": "https://e.example/#/rules/q1",
    }  # fmt: skip
    assert resolved["endsAt"] == "2026-01-01T00:01:00Z"
    assert "endsAt" not in instant, "an instant is over when Alertmanager says so"
    assert instant["labels"] == {"alertname": "cheap", "sym": "A"}
    assert instant["generatorURL"] == "https://e.example"


def test_the_path_of_alertmanager_may_be_written_out():
    written = Webhook("https://am.example/x/api/v2/alerts?a=1", "alertmanager").target()
    assert written.path == "/x/api/v2/alerts?a=1"
    assert Webhook("https://am.example?a=1", "alertmanager").target().path == "/api/v2/alerts?a=1"


# --------------------------------------------------------------------------------------------- what answers mean


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_any_2xx_means_the_receiver_has_it(hook, sending, status):
    hook.answer(status)
    sending().send(message(1))
    assert len(hook.requests) == 1


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 413, 422])
def test_what_the_receiver_will_never_want_is_set_aside_and_the_next_goes(hook, sending, status):
    hook.answer(Reply(status, body=b"no \x00thanks"), 200)
    made = sending()
    made.send(message(1), message(2))
    assert hook.deliveries == ["1-1", "2-2"]
    [(ids, why)] = made.refused
    assert ids == ["1"]
    assert why.startswith(f"sink ops: the receiver answered {status} ")
    assert why.endswith(": no  thanks")


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 599])
def test_what_may_be_better_another_time_is_sent_again(hook, sending, status):
    hook.answer(status, 200)
    made = sending()
    with pytest.raises(SinkError, match=f"sink ops at http://127.0.0.1:{hook.port} answered {status}"):
        made.send(message(1))
    made.sink.forget(0)
    made.send(message(1))
    assert hook.deliveries == ["1-1", "1-1"]
    assert made.refused == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(hook, sending, status):
    with receiver() as elsewhere:
        hook.answer(Reply(status, (("Location", elsewhere.url),)))
        with pytest.raises(SinkError, match="redirects are not followed"):
            sending().send(message(1))
        assert (len(hook.requests), elsewhere.requests) == (1, [])


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120.0),
        (" 3 ", 3.0),
        (email.utils.formatdate(1_767_225_660, usegmt=True), 59.3),
        (email.utils.formatdate(1_767_225_000, usegmt=True), 0.0),
        ("99999999999", 86_400.0),
        ("-5", 0.0),
        ("soon", 0.0),
        ("", 0.0),
    ],
)
def test_retry_after_is_heard(hook, sending, value, seconds):
    hook.answer(Reply(429, (("Retry-After", value),)))
    with pytest.raises(SinkError) as failed:
        sending().send(message(1))
    assert failed.value.retry_after_s == pytest.approx(seconds, abs=0.001)


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Reply(do="close"), "it closed the connection without an answer"),
        (Reply(do="cut"), "it closed the connection without an answer"),
        (Reply(do="hang"), "it did not answer in time"),
    ],
)
def test_a_receiver_that_gives_no_answer_is_tried_again_under_the_same_name(hook, sending, reply, words):
    hook.answer(reply, 200)
    made = sending(timeout_s=0.2)
    with pytest.raises(SinkError, match=words):
        made.send(message(1))
    made.sink.forget(0)
    made.send(message(1))
    assert hook.deliveries == ["1-1", "1-1"]


def test_an_answer_that_never_ends_does_not_hold_anybody_for_ever(hook, sending):
    hook.answer(Reply(200, do="drip"), 200)
    made = sending(timeout_s=0.2)
    made.send(message(1))  # it has decided
    hook.answer(Reply(503, do="drip"), 200)
    with pytest.raises(SinkError, match="503"):
        made.send(message(2))
    made.sink.forget(1)
    made.send(message(2))
    assert hook.deliveries == ["1-1", "2-2", "2-2"]


def test_a_connection_that_was_closed_while_it_was_idle_is_made_again(hook, sending):
    hook.answer(Reply(200), Reply(do="close"), Reply(200))
    made = sending()
    made.send(message(1))
    made.send(message(2))
    assert hook.deliveries == ["1-1", "2-2", "2-2"]


def test_a_receiver_that_is_not_there_is_told(sending, hook):
    hook.close()
    with pytest.raises(SinkError, match="it refuses connections"):
        sending().send(message(1))


def test_an_interrupted_request_ends_at_once(hook, sending):
    import threading

    hook.answer(Reply(do="hang"))
    made = sending(timeout_s=60)
    failures: list[SinkError] = []

    def send() -> None:
        try:
            made.send(message(1))
        except SinkError as error:
            failures.append(error)

    thread = threading.Thread(target=send)
    thread.start()
    hook.wait_for(1)
    made.sink.interrupt()
    thread.join(30)
    assert not thread.is_alive()
    assert len(failures) == 1


# --------------------------------------------------------------------------------------------- where it may go


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "localhost",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
    ],
)
def test_nothing_is_sent_to_an_address_that_is_not_public_unless_it_is_allowed(hook, sending, host):
    made = sending(url=f"http://{host}:{hook.port}/hook", allow_private=False)
    with pytest.raises(SinkError, match="not on the public internet") as refused:
        made.send(message(1))
    assert "allow_private = true" in str(refused.value)
    assert hook.requests == []


def test_the_connection_goes_to_the_address_that_was_judged_though_the_name_changes(hook, sending):
    answers = ["8.8.8.8", "127.0.0.1"]  # the second one is never asked for while the first connection stands
    asked: list[str] = []
    connected: list[str] = []

    def resolve(host: str, port: int):
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (answers[min(len(asked), 2) - 1], port))]

    def connect(address: Address, timeout_s: float) -> socket.socket:
        connected.append(address.ip)
        return connect_to(Address(socket.AF_INET, ("127.0.0.1", hook.port)), timeout_s)

    made = sending(
        url="http://rebind.example/hook",
        allow_private=False,
        sink={"resolve": resolve, "connect": connect},
    )
    hook.answer(Reply(200), Reply(200), Reply(do="close"))
    made.send(message(1))
    made.send(message(2))
    assert (asked, connected) == (["rebind.example"], ["8.8.8.8"])
    assert hook.requests[0].headers["Host"] == "rebind.example"
    with pytest.raises(SinkError, match=r"127\.0\.0\.1, an address that is not on the public internet"):
        made.send(message(3))  # the connection has ended, the name is looked up and judged again
    assert connected == ["8.8.8.8"]


def test_a_name_that_cannot_be_resolved_is_tried_again(sending):
    def resolve(host: str, port: int):
        raise socket.gaierror(-2, "Name or service not known")

    with pytest.raises(SinkError, match="the name of the host cannot be resolved"):
        sending(url="http://nowhere.example/", sink={"resolve": resolve}).send(message(1))


def test_a_certificate_nobody_trusts_ends_the_connection(hook, sending, tmp_path):
    made = sending(url=f"https://127.0.0.1:{hook.port}/hook")
    with pytest.raises(SinkError, match="no secure connection"):
        made.send(message(1))  # the receiver speaks no TLS
    assert hook.requests == []
    assert ssl.create_default_context().verify_mode is ssl.CERT_REQUIRED


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("ftp://example.com", "does not begin with https:// or http://"),
        ("example.com/hook", "does not begin with"),
        ("https://", "names no host"),
        ("https://user:hush@example.com", "a user or a password"),
        ("https://example.com/#part", "after #"),
        ("https://example.com/a b", "blanks or control characters"),
        ("https://example.com/\r\nHost: other", "blanks or control characters"),
        ("https://example.com:99999/", "cannot be read"),
        ("https://[::1/", "cannot be read"),
        ("https://example.com/ü", "escaped with %"),
    ],
)
def test_a_url_that_cannot_be_used_says_why_and_is_not_shown(url, words):
    with pytest.raises(ValueError, match=words) as refused:
        target_of(url)
    assert "hush" not in str(refused.value)


# --------------------------------------------------------------------------------------------- secrets


HUSH = "correct-horse-battery"


@pytest.mark.parametrize(
    "reply",
    [Reply(400, body=HUSH.encode()), Reply(500, body=HUSH.encode()), Reply(302), Reply(do="close")],
)
def test_no_secret_is_told_whatever_happens(hook, sending, monkeypatch, reply):
    monkeypatch.setenv("HUSH", HUSH)
    monkeypatch.setenv("HOOK_URL", f"http://127.0.0.1:{hook.port}/{HUSH}")
    hook.answer(reply)
    url, key, token = (
        text_with_secrets(text, Path()) for text in ("${env:HOOK_URL}", "${env:HUSH}", "Bearer ${env:HUSH}")
    )
    made = sending(url=url, secret=key, headers=(("Authorization", token),))
    said = ""
    try:
        made.send(message(1))
    except SinkError as error:
        said = f"{error!r} {error} {error.detail} {error.hint}"
        assert "${env:HOOK_URL}" in said
    said += str(made.refused) + repr(made.webhook)
    assert hook.requests[0].path == f"/{HUSH}"
    assert HUSH not in said
    assert str(hook.port) not in said, "the address is a secret, too"


def test_a_secret_that_no_header_can_hold_is_told_without_it(hook, sending, monkeypatch):
    monkeypatch.setenv("HUSH", f"{HUSH}\r\nX-More: yes")
    made = sending(headers=(("Authorization", text_with_secrets("${env:HUSH}", Path())),))
    with pytest.raises(SinkError, match="header Authorization holds what no header can") as failed:
        made.send(message(1))
    assert HUSH not in str(failed.value)
    assert hook.requests == []


def test_a_secret_that_is_gone_is_waited_for(hook, sending, monkeypatch):
    monkeypatch.delenv("HUSH", raising=False)
    made = sending(secret=text_with_secrets("${env:HUSH}", Path()))
    with pytest.raises(SinkError, match="the environment variable HUSH is not set"):
        made.send(message(1))
    made.sink.forget(0)
    monkeypatch.setenv("HUSH", HUSH)
    made.send(message(1))
    assert hook.deliveries == ["1-1"]


# --------------------------------------------------------------------------------------------- each message once


class Home:
    """What of a home a sink needs: messages, its cursor, and what it noted."""

    def __init__(self, url: str, size: int) -> None:
        self.messages: list[Message] = []
        self.cursor = self.noted = 0
        self.webhook = Webhook(url, batch=size, allow_private=True)
        self.feed = self.opened()

    def opened(self) -> MessageFeed:
        """As another process would open it."""
        sink = WebhookSink(
            self.webhook,
            name="ops",
            home_id="3f9a1c",
            refuse=lambda items, why: None,
            noted_round=self.noted,
            note=lambda number: setattr(self, "noted", number),
        )
        return MessageFeed(
            sink,
            SinkSelection(sink="ops"),
            cursor=self.cursor,
            facts_of=lambda query_id, generation: QueryFacts("cheap", "trades"),
            acknowledge=lambda number: setattr(self, "cursor", number),
            at_once=self.webhook.batch,
            clock=Clock(),
        )

    def round(self, n: int) -> None:
        """A round that says so much."""
        number = len(self.messages) and self.messages[-1].round
        first = len(self.messages) + 1
        self.messages += [message(k, round_number=number + 1) for k in range(first, first + n)]

    def deliver(self) -> None:
        waiting = [m for m in self.messages if m.id > self.feed.read_to]
        self.feed.offer_messages(waiting, len(self.messages))
        self.feed.flush(only_if_due=True)

    def crash(self) -> None:
        self.feed.sink.close()
        self.feed = self.opened()


def test_messages_that_lie_ready_share_requests_and_a_round_is_never_torn_apart(hook):
    home = Home(hook.url, size=5)
    for n in (1, 2, 2, 4, 7, 1):
        home.round(n)
    home.deliver()
    # the first goes alone: nobody knows whether it went before
    assert hook.deliveries == ["1-1", "2-5", "6-9", "10-14", "15-17"]
    assert home.cursor == 17
    home.feed.sink.close()


def test_after_a_crash_between_the_answer_and_the_cursor_the_same_delivery_comes_again(hook):
    home = Home(hook.url, size=10)
    home.round(1)
    home.deliver()
    home.round(2)
    home.round(3)
    home.feed._acknowledge = lambda number: (_ for _ in ()).throw(KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        home.deliver()
    home.round(4)  # others have come meanwhile
    home.crash()
    home.deliver()
    assert hook.deliveries == ["1-1", "2-6", "2-6", "7-10"]
    assert hook.once_each() == list(range(1, 11))
    home.feed.sink.close()


ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("round"), st.integers(1, 7)),
        st.tuples(st.just("deliver"), st.sampled_from(["fine", "failing", "killed before", "killed after"])),
    ),
    max_size=25,
)


@given(ACTS, st.integers(1, 6))
@examples(1.5)
def test_whatever_fails_a_receiver_that_knows_deliveries_again_has_each_message_once_and_in_order(acts, size):
    received: list[tuple[str, list[int]]] = []
    home = Home("http://127.0.0.1/hook", size)
    how = "fine"

    def answer(items) -> HttpAnswer:
        if how == "killed before":
            raise KeyboardInterrupt
        received.append((delivery_of(items), [int(item.id) for item in items]))
        if how == "killed after":
            raise KeyboardInterrupt
        return HttpAnswer(503 if how == "failing" else 200, None, "")

    def deliver() -> None:
        home.feed.sink._answer = answer
        try:
            home.deliver()
        except SinkError:
            return
        except KeyboardInterrupt:
            home.crash()

    for what, given_ in acts:
        if what == "round":
            home.round(given_)
        else:
            how = given_
            deliver()
    how = "fine"
    deliver()
    once: dict[str, list[int]] = {}
    for name, ids in received:
        assert once.setdefault(name, ids) == ids, "the same name means the same messages"
        assert len(ids) <= size
    assert [k for ids in once.values() for k in ids] == [m.id for m in home.messages]
    assert home.cursor == len(home.messages)


def test_a_round_with_more_results_than_fit_goes_on_where_it_failed(hook, sending):
    made = sending(batch=2)
    given_ = batch(3, [1, 2, 3, 1, 2])
    hook.answer(200, 503, 200)
    made.sink.write(3, [given_])
    with pytest.raises(SinkError):
        made.sink.flush()
    made.sink.forget(2)
    made.sink.write(3, [given_])
    made.sink.flush()
    assert [json.loads(r.body)["results"][0]["arrival"] for r in hook.requests] == [10, 30, 30, 50]
    assert hook.deliveries[1] == hook.deliveries[2] == "3-30-3:3-40-1"
