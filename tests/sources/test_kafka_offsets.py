"""Where a topic is read on: decided without a broker."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyline.events import MessagesLost, SourceStarted
from eddyline.kafka import MessageRange, TopicState
from eddyline.sources.kafka_offsets import (
    TopicPosition,
    TopicSettings,
    found_place,
    n_waiting,
    range_pieces,
    shared_out,
)
from eddyline.sources.positions import SourceError

REFUSE = TopicSettings("trades", "trades")
GO_ON = TopicSettings("trades", "trades", on_gone="earliest")


def state(
    ends: dict[int, int], starts: dict[int, int] | None = None, topic_id: str | None = "id1"
) -> TopicState:
    return TopicState(topic_id, starts or dict.fromkeys(ends, 0), ends)


def place(
    position: TopicPosition | None, now: TopicState, settings: TopicSettings
) -> tuple[dict[int, int], list[object]]:
    found, events = found_place(position, now, settings)
    assert found.topic_id == now.topic_id
    return dict(found.offsets), list(events)


# --------------------------------------------------------------------------------------------- where to read on


def test_a_position_is_plain_json():
    position = TopicPosition("id1", {1: 7, 0: 5, 10: 0})
    assert position.to_json() == {"topic_id": "id1", "offsets": {"0": 5, "1": 7, "10": 0}}
    assert TopicPosition.from_json(position.to_json()) == position
    assert TopicPosition.from_json(None) is None


def test_the_first_read_begins_at_what_is_there_or_at_the_end():
    now = state({0: 9, 1: 4}, {0: 2, 1: 0})
    assert place(None, now, TopicSettings("trades", "trades")) == ({0: 2, 1: 0}, [])
    message = "topic trades is read from its end: partition 0 from offset 9; partition 1 from offset 4"
    started = SourceStarted(0, "t", message)
    assert place(None, now, TopicSettings("trades", "t", start="latest")) == ({0: 9, 1: 4}, [started])


def test_reading_goes_on_where_it_ended_and_new_partitions_from_their_start():
    now = state({0: 9, 1: 4, 2: 6}, {0: 2, 1: 0, 2: 1})
    latest = TopicSettings("trades", "trades", start="latest")
    for settings in (REFUSE, GO_ON, latest):
        assert place(TopicPosition("id1", {0: 5, 1: 4}), now, settings) == ({0: 5, 1: 4, 2: 1}, [])


def test_messages_that_are_gone_before_they_were_read_are_an_error_or_counted():
    read, now = TopicPosition("id1", {0: 5, 1: 4}), state({0: 30, 1: 20}, {0: 17, 1: 4})
    with pytest.raises(SourceError) as refused:
        place(read, now, REFUSE)
    assert str(refused.value) == (
        "messages of topic trades are gone before they were read\n"
        "detail: partition 0: to be read next was offset 5, the first there is 17.\n"
        "hint: Let the topic keep messages for longer. To go on with what is there, say"
        ' on_gone = "earliest" in the source of stream trades.'
    )
    offsets, [lost] = place(read, now, GO_ON)
    assert offsets == {0: 17, 1: 4}
    assert isinstance(lost, MessagesLost)
    assert lost.n_offsets == 12


def test_a_topic_made_anew_is_an_error_or_read_from_its_start():
    read, now = TopicPosition("id1", {0: 5}), state({0: 30, 1: 20}, {0: 1, 1: 0}, topic_id="id2")
    with pytest.raises(SourceError) as refused:
        place(read, now, REFUSE)
    assert str(refused.value) == (
        "topic trades is not the one that was read so far\n"
        "detail: its id was id1 and is id2.\n"
        "hint: It was deleted and made anew. To go on with what is there, say"
        ' on_gone = "earliest" in the source of stream trades.'
    )
    offsets, [lost] = place(read, now, GO_ON)
    assert offsets == {0: 1, 1: 0}
    assert isinstance(lost, MessagesLost)
    assert lost.n_offsets is None


@pytest.mark.parametrize(
    ("ends", "told"),
    [
        ({0: 3, 1: 50}, "partition 0 was read up to offset 5, and now ends at 3"),
        ({0: 50}, "partition 1 was read up to offset 7, and is not there any more"),
    ],
)
def test_without_ids_a_topic_with_fewer_offsets_or_partitions_is_another_one(ends, told):
    read, now = TopicPosition(None, {0: 5, 1: 7}), state(ends, topic_id=None)
    with pytest.raises(SourceError, match="is not the one that was read so far") as refused:
        place(read, now, REFUSE)
    assert refused.value.detail == f"{told}."
    assert place(read, now, GO_ON)[0] == dict.fromkeys(ends, 0)


def test_where_the_cluster_lost_what_was_read_only_what_comes_there_now_is_new():
    read, now = TopicPosition("id1", {0: 5, 1: 7}), state({0: 5, 1: 6})
    with pytest.raises(SourceError, match="topic trades has lost messages that were read already") as refused:
        place(read, now, REFUSE)
    assert refused.value.detail == "partition 1: read up to offset 7, now it ends at 6."
    assert place(read, now, GO_ON)[0] == {0: 5, 1: 6}


# --------------------------------------------------------------------------------------------- shares


def test_partitions_share_a_round_and_leave_the_others_what_they_do_not_need():
    position, now = TopicPosition(None, {0: 0, 1: 10, 2: 5, 3: 8}), state({0: 100, 1: 12, 2: 105, 3: 8})
    assert shared_out(position, now, 22) == [
        MessageRange(0, 0, 10),
        MessageRange(1, 10, 12),
        MessageRange(2, 5, 15),
    ]
    assert n_waiting(position, now) == 202


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=8), st.integers(1, 200))
def test_shares_are_fair_and_use_all_there_is(partitions, n_messages):
    position = TopicPosition(None, {p: start for p, (start, _) in enumerate(partitions)})
    now = state({p: start + waiting for p, (start, waiting) in enumerate(partitions)})
    shares = shared_out(position, now, n_messages)
    got = {each.partition: len(each) for each in shares}
    assert [each.partition for each in shares] == sorted(got)
    assert all(each.start == position.offsets[each.partition] and len(each) > 0 for each in shares)
    assert sum(got.values()) == min(n_messages, n_waiting(position, now))
    short = [p for p, (_, waiting) in enumerate(partitions) if got.get(p, 0) < waiting]
    for p in short:  # nobody who wants more got less than another, but for the one message that is left over
        assert got.get(p, 0) <= partitions[p][1]
        assert all(got.get(p, 0) >= other - 1 for other in got.values())


@given(st.integers(0, 100), st.integers(1, 100), st.integers(1, 30))
def test_a_range_is_cut_into_pieces_that_are_all_of_it(start, length, n_messages):
    pieces = range_pieces(MessageRange(3, start, start + length), n_messages)
    assert [o for piece in pieces for o in range(piece.start, piece.end)] == list(
        range(start, start + length)
    )
    assert all(1 <= len(piece) <= n_messages and piece.partition == 3 for piece in pieces)
