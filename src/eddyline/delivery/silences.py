"""What silences do to messages: some are withheld, and when no silence holds any more, one message makes up for them.

    during     a message of an alert a silence is about is kept with the silence's id, and sent nowhere
    afterwards one message brings the receiver to the alert's present state, if that differs from the last one sent:
                   fires since, nothing was sent         -> firing
                   resolved since, firing was sent       -> resolved
                   came and went, or went and came again -> nothing

The messages of an alert that lasts take turns, firing and resolved, so the first one that was withheld says what had been sent
before, and the last one which state the alert is in. An alert without duration has no such state: no message follows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from eddyline.catalog import Silence, Withheld
from eddyline.model import AlertKey, Message


@dataclass(slots=True)
class SilencedMessages:
    """Messages of a round after silences: all of them, what is withheld of each key now, and how many each silence withheld."""

    messages: list[Message]
    withheld: dict[AlertKey, Withheld | None] = field(default_factory=dict)  # None: nothing any more
    counts: Counter[int] = field(default_factory=Counter)  # by silence


def silenced_messages(
    messages: Sequence[tuple[AlertKey, Message]],
    silences: Sequence[Silence],
    withheld: Mapping[AlertKey, Withheld],
    is_lasting: Callable[[AlertKey], bool],
) -> SilencedMessages:
    """A round's messages, in order, while these silences hold; `withheld` is what was kept of their keys before."""
    outcome = SilencedMessages([])
    for key, message in messages:
        silence = next((each for each in silences if each.has_message(message)), None)
        before = outcome.withheld[key] if key in outcome.withheld else withheld.get(key)
        if silence is None:
            outcome.messages.append(message)
            if before is not None:  # this message reports the state of the alert
                outcome.withheld[key] = None
            continue
        message = replace(message, silence=silence.id)
        outcome.messages.append(message)
        outcome.counts[silence.id] += 1
        if is_lasting(key):
            outcome.withheld[key] = (
                Withheld(message.status, 1, message) if before is None else before.then(message)
            )
    return outcome


def unsent_messages(withheld: Withheld) -> Message | None:
    """The message when a key is no longer silenced; None if the receiver has the present state."""
    last = withheld.last
    if last.status != withheld.first_status:
        return None
    return replace(last, silence=None, n_withheld=withheld.n_messages)
