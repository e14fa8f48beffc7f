"""Silences in step 4b: which hold for a round, which messages they withhold, and what is said when they no longer hold.

All of it follows from the round's version and its now() (catalog/silences.py), so a round that is made up for after a crash
withholds and says what it would have before. What is withheld is looked through only when other silences hold than in the round
before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from eddyline.catalog import AlertChanges, AlertLog, Silence
from eddyline.delivery import FIRING, AlertNotice, silenced_messages, unsent_messages
from eddyline.model import AlertKey, Message, Round

Released = dict[AlertKey, Message | None]  # what is said about keys that are silenced no longer


class Silencing:
    """The silences of an engine. The caller holds its lock."""

    def __init__(self, log: Callable[[], AlertLog], *, is_new: bool) -> None:
        self._log = log
        self._silences: list[Silence] | None = [] if is_new else None  # None: the tables know
        self._has_withheld: bool | None = False if is_new else None
        self._looked: list[int] | None = (
            None  # the silences that held when what is withheld was last looked through
        )

    def changed(self) -> None:
        """There are other silences, or this is not known."""
        self._silences = None

    def all(self) -> list[Silence]:
        """The silences that are kept, the oldest first; how much each withheld may have grown since."""
        if self._silences is None:
            self._silences = self._log().silences.all()
        return self._silences

    def holding(self, version: int, now_us: int) -> list[Silence]:
        """Those that hold for a round of this version at this time."""
        return [silence for silence in self.all() if silence.holds(version, now_us)]

    def released(self, round_: Round, holding: Sequence[Silence]) -> Released:
        """Keys with something withheld that no silence is about now, and the message still to be sent about each."""
        ids = [silence.id for silence in holding]
        if self._has_withheld is False or ids == self._looked:
            return {}
        withheld = self._log().withheld()
        self._has_withheld = bool(withheld)
        free = {
            key: unsent_messages(each)
            for key, each in sorted(withheld.items())
            if not any(silence.has_message(each.last) for silence in holding)
        }
        if not free:
            self._looked = ids
        firing = [key for key, message in free.items() if message is not None and message.status == FIRING]
        n_rows = {each.key: each.state.n_rows for each in self._log().states(firing)}
        return {
            key: message
            and replace(
                message,
                round=round_.number,
                at_us=round_.now_us,
                n_rows=n_rows.get(key, message.n_rows),
            )
            for key, message in free.items()
        }

    def withhold(
        self,
        changes: AlertChanges,
        notices: Sequence[AlertNotice],
        holding: Sequence[Silence],
        released: Released,
        is_lasting: Callable[[AlertKey], bool],
    ) -> None:
        """Of the messages of a round, one for each of `notices`: mark those that are withheld, after what is released."""
        changes.withheld.update(dict.fromkeys(released))
        if holding or self._has_withheld:
            before = self._log().withheld(each.key for each in notices if each.key not in released)
            messages = [(each.key, m) for each, m in zip(notices, changes.messages, strict=True)]
            outcome = silenced_messages(messages, holding, before, is_lasting)
            changes.messages = outcome.messages
            changes.withheld.update(outcome.withheld)
            changes.silences.update(outcome.counts)
        released_messages = [message for message in released.values() if message is not None]
        if released_messages:
            first = (
                changes.messages[0].id - len(released_messages)
                if changes.messages
                else self._log().last_id() + 1
            )
            changes.messages[:0] = [replace(m, id=first + k) for k, m in enumerate(released_messages)]

    def written(self, changes: AlertChanges, holding: Sequence[Silence]) -> None:
        """What `released` and `withhold` found is on the disk."""
        self._looked = [silence.id for silence in holding]
        if any(each is not None for each in changes.withheld.values()):
            self._has_withheld = True
        elif changes.withheld:
            self._has_withheld = None  # perhaps: looked at when other silences hold
        if changes.silences:
            self._silences = None
