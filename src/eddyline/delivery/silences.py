"""What silences do to messages: some are withheld, and when no silence holds any more, what is left to say is said once.

    during     a message of an alert a silence is about is kept with the silence's id, and sent nowhere
    afterwards one message brings the receiver to the alert's present state, if that differs from the last one sent:
                   fires since, nothing was sent         -> firing
                   resolved since, firing was sent       -> resolved
                   came and went, or went and came again -> nothing

The messages of an alert that lasts take turns, firing and resolved, so the first one that was withheld says what had been sent
before, and the last one where the alert stands. An alert without duration stands nowhere: nothing is said afterwards.
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
    kept = SilencedMessages([])
    for key, message in messages:
        silence = next((each for each in silences if each.has_message(message)), None)
        before = kept.withheld[key] if key in kept.withheld else withheld.get(key)
        if silence is None:
            kept.messages.append(message)
            if before is not None:  # this says where the alert stands
                kept.withheld[key] = None
            continue
        message = replace(message, silence=silence.id)
        kept.messages.append(message)
        kept.counts[silence.id] += 1
        if is_lasting(key):
            kept.withheld[key] = (
                Withheld(message.status, 1, message) if before is None else before.then(message)
            )
    return kept


def unsent_messages(withheld: Withheld) -> Message | None:
    """The message when a key is no longer silenced; None if the receiver has the present state."""
    last = withheld.last
    if last.status != withheld.first_status:
        return None
    return replace(last, silence=None, n_withheld=withheld.n_messages)
