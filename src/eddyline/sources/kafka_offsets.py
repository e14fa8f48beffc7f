"""How far a topic was read, whether it is still the same topic, and how a round's share of it is cut.

Nothing here talks to Kafka: what a topic holds now comes in, where to read comes out.

    the topic was made anew              other id; without ids: fewer partitions, or fewer offsets than were read
    messages went before they were read  the first offset there is above the next to be read
    messages that were read went away    same id, but the partition ends before what was read: the cluster lost them

Each is an error, or, with on_gone = "earliest", an event, and reading goes on at the first offset there is (where messages that
had been read went away: at the end, as only what comes there now is new). A partition that is new is read from its start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from eddyline.events import Event, MessagesLost, SourceStarted
from eddyline.kafka import MessageRange, TopicState
from eddyline.sources.positions import SourceError

STARTS = ("earliest", "latest")
ON_GONE = ("refuse", "earliest")
_SHOWN = 5  # partitions in a message


@dataclass(frozen=True, slots=True)
class TopicPosition:
    """How far a topic was read: the next offset of every partition."""

    topic_id: str | None
    offsets: Mapping[int, int]

    def behind(self, ranges: Mapping[int, int]) -> TopicPosition:
        """The position once partitions were read up to these offsets."""
        return TopicPosition(self.topic_id, {**self.offsets, **ranges})

    def to_json(self) -> dict[str, Any]:
        offsets = {str(partition): self.offsets[partition] for partition in sorted(self.offsets)}
        return {"topic_id": self.topic_id, "offsets": offsets}

    @classmethod
    def from_json(cls, stored: dict[str, Any] | None) -> TopicPosition | None:
        if stored is None:
            return None
        return cls(stored["topic_id"], {int(p): offset for p, offset in stored["offsets"].items()})


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """What decides where reading goes on."""

    topic: str
    stream: str
    start: str = "earliest"  # of STARTS, where the first read begins
    on_gone: str = "refuse"  # of ON_GONE, what if there is no going on where reading ended


def found_place(
    position: TopicPosition | None, state: TopicState, settings: TopicSettings
) -> tuple[TopicPosition, list[Event]]:
    """Where to read on, and the events to report about it. Raises SourceError."""
    if position is None:
        return _beginning(state, settings)
    if _is_other(position, state):
        return _anew(position, state, settings)
    offsets, events = dict(position.offsets), []
    expired_offsets = {p: offset for p, offset in offsets.items() if offset < state.starts[p]}
    rewound_offsets = {p: offset for p, offset in offsets.items() if offset > state.ends[p]}
    if rewound_offsets and position.topic_id is None:
        return _anew(position, state, settings)
    if expired_offsets:
        n_offsets = sum(state.starts[p] - offset for p, offset in expired_offsets.items())
        details = [
            f"partition {p}: to be read next was offset {expired_offsets[p]}, the first there is {state.starts[p]}"
            for p in expired_offsets
        ]
        problem = f"messages of topic {settings.topic} are gone before they were read"
        _refuse(settings, problem, details, "Let the topic keep messages for longer. ")
        offsets |= {p: state.starts[p] for p in expired_offsets}
        events.append(MessagesLost(0, settings.stream, n_offsets, _sentence(problem, details)))
    if rewound_offsets:
        details = [
            f"partition {p}: read up to offset {rewound_offsets[p]}, now it ends at {state.ends[p]}"
            for p in rewound_offsets
        ]
        problem = f"topic {settings.topic} has lost messages that were read already"
        _refuse(settings, problem, details, "The cluster may have elected a leader that did not have them. ")
        offsets |= {p: state.ends[p] for p in rewound_offsets}
        events.append(MessagesLost(0, settings.stream, None, _sentence(problem, details)))
    offsets |= {p: start for p, start in state.starts.items() if p not in offsets}
    return TopicPosition(state.topic_id, offsets), list(events)


def _beginning(state: TopicState, settings: TopicSettings) -> tuple[TopicPosition, list[Event]]:
    if settings.start == "earliest":
        return TopicPosition(state.topic_id, state.starts), []
    details = [f"partition {p} from offset {end}" for p, end in sorted(state.ends.items())]
    message = _sentence(f"topic {settings.topic} is read from its end", details)
    # an event makes a round, and the round remembers where the end was
    return TopicPosition(state.topic_id, state.ends), [SourceStarted(0, settings.stream, message)]


def _is_other(position: TopicPosition, state: TopicState) -> bool:
    if position.topic_id is not None and state.topic_id is not None:
        return position.topic_id != state.topic_id
    return not position.offsets.keys() <= state.ends.keys()


def _anew(
    position: TopicPosition, state: TopicState, settings: TopicSettings
) -> tuple[TopicPosition, list[Event]]:
    problem = f"topic {settings.topic} is not the one that was read so far"
    if position.topic_id is not None and position.topic_id != state.topic_id:
        details = [f"its id was {position.topic_id} and is {state.topic_id}"]
    else:
        details = [
            f"partition {p} was read up to offset {offset}, and "
            + (f"now ends at {state.ends[p]}" if p in state.ends else "is not there any more")
            for p, offset in position.offsets.items()
            if offset > state.ends.get(p, -1)
        ]
    _refuse(settings, problem, details, "It was deleted and made anew. ")
    message = _sentence(problem, details)
    return TopicPosition(state.topic_id, state.starts), [MessagesLost(0, settings.stream, None, message)]


def _refuse(settings: TopicSettings, problem: str, sentences: list[str], hint: str) -> None:
    if settings.on_gone == "earliest":
        return
    raise SourceError(
        problem,
        detail=_list(sentences) + ".",
        hint=f'{hint}To go on with what is there, say on_gone = "earliest" in the source of stream {settings.stream}.',
    )


def _sentence(problem: str, sentences: list[str]) -> str:
    return f"{problem}: {_list(sentences)}"


def _list(sentences: list[str]) -> str:
    more = f" and {len(sentences) - _SHOWN} more" if len(sentences) > _SHOWN else ""
    return "; ".join(sentences[:_SHOWN]) + more


# --------------------------------------------------------------------------------------------- shares


def n_waiting(position: TopicPosition, state: TopicState) -> int:
    """How many offsets lie ready."""
    return sum(max(0, end - position.offsets.get(p, end)) for p, end in state.ends.items())


def shared_out(position: TopicPosition, state: TopicState, n_messages: int) -> list[MessageRange]:
    """Ranges with at most so many offsets in all, by partition: the same for each, and what one does not need for the others."""
    waiting = {p: state.ends[p] - position.offsets[p] for p in sorted(state.ends)}
    n_remaining = n_messages
    shares: dict[int, int] = {}
    by_need = sorted((p for p in waiting if waiting[p] > 0), key=lambda p: (waiting[p], p))
    for at, p in enumerate(by_need):
        shares[p] = min(waiting[p], -(-n_remaining // (len(by_need) - at)))
        n_remaining -= shares[p]
    return [
        MessageRange(p, position.offsets[p], position.offsets[p] + shares[p])
        for p in waiting
        if shares.get(p)
    ]


def range_pieces(each: MessageRange, n_messages: int) -> list[MessageRange]:
    """A range in pieces of so many offsets."""
    return [
        MessageRange(each.partition, start, min(start + n_messages, each.end))
        for start in range(each.start, each.end, n_messages)
    ]
