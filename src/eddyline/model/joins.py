"""What join queries have in common: their inputs, the equalities between these, and the names of joined columns."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from eddyline.model.conditions import Condition
from eddyline.model.expressions import Expression

# columns that rows of a join have besides those of their inputs, each behind the place of the input it is about: 0.#behind
BEHIND = "#behind"  # how many rows of its stream came after it, up to the row that made the result
AGE = "#age"  # microseconds between the round it came in and that of the row that made the result
OLDER = "#older"  # microseconds by which its event time is below the latest of all rows of the result
ROW = "#row"  # with a number: the arrival number of a row that a row of a view is made of
IDENTITY = "#identity"  # what tells rows of a view over tables apart

_ALWAYS = Condition()


class Role(enum.Enum):
    """What becomes of the rows of an input of a join."""

    WINDOW = "window"  # they are kept, and later rows of other inputs meet them
    CURRENT = "current"  # they meet what came before them and are not kept
    TABLE = "table"  # the latest row of each key, as the row that meets it finds it
    AS_OF = "as of"  # the row of each key that was the latest at the event time of the row that meets it
    VIEW = (
        "view"  # the rows of a view over tables, as rows of other inputs find it: as it was before the round
    )

    @property
    def is_table(self) -> bool:
        return self in (Role.TABLE, Role.AS_OF, Role.VIEW)


@dataclass(frozen=True, slots=True)
class JoinInput:
    """An input of a signature."""

    stream: str
    role: Role = Role.WINDOW
    n_components: int = 1  # how many rows of declared streams each of its rows is made of
    is_shown: bool = True  # False: only whether there is a match counts (LEFT SEMI JOIN)

    @property
    def lineage_columns(self) -> tuple[str, ...]:
        """What rows of a view have besides its columns: the arrival numbers of the rows each is made of."""
        is_counted = self.n_components > 1 or self.role is Role.VIEW
        return tuple(f"{ROW}{k}" for k in range(self.n_components)) if is_counted else ()


@dataclass(frozen=True, slots=True)
class JoinKey:
    """An equality between two inputs, each side over the columns of its own stream, by their own names; both of one type."""

    left: int
    right: int
    left_key: Expression
    right_key: Expression

    def side(self, place: int) -> Expression:
        """What the input at this place brings."""
        assert place in (self.left, self.right), f"{place} is neither {self.left} nor {self.right}"
        return self.left_key if place == self.left else self.right_key


@dataclass(frozen=True, slots=True)
class Signature:
    """What join queries have in common that are executed as one: the inputs and the equalities between them.

    Its rows are a stream of their own, which has its name. A column of input k is called `k.name` there.
    """

    name: str
    inputs: tuple[JoinInput, ...]
    keys: tuple[JoinKey, ...] = ()
    # "": only matches; left, left anti: input 0 also, or only, where nothing of input 1 matches
    outer: str = ""

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def streams(self) -> tuple[str, ...]:
        """The names of its streams, each once."""
        return tuple(dict.fromkeys(entry.stream for entry in self.inputs))

    def component_columns(self, place: int) -> range:
        """Where the rows that an input brings stand among the components of joined rows."""
        first = sum(entry.n_components for entry in self.inputs[:place])
        return range(first, first + self.inputs[place].n_components)

    @property
    def hidden_places(self) -> frozenset[int]:
        """The inputs that are only asked for a match."""
        return frozenset(place for place, entry in enumerate(self.inputs) if not entry.is_shown)

    @property
    def absent_places(self) -> frozenset[int]:
        """The inputs of which results have no row."""
        return self.hidden_places | ({1} if self.outer == "left anti" else set())

    @property
    def shown_columns(self) -> tuple[int, ...] | None:
        """Which components tell results apart; None: all of them."""
        if all(entry.is_shown for entry in self.inputs):
            return None
        shown = (place for place, entry in enumerate(self.inputs) if entry.is_shown)
        return tuple(at for place in shown for at in self.component_columns(place))

    @property
    def is_of_tables(self) -> bool:
        """Whether all inputs are tables, so that changes of each make results."""
        return all(entry.role.is_table for entry in self.inputs)

    @property
    def is_counted(self) -> bool:
        """Whether it is a semi join of tables: a row is a result as long as it has a match."""
        return self.is_of_tables and not self.outer and self.shown_columns is not None

    def places(self, stream: str) -> tuple[int, ...]:
        """The inputs that are this stream."""
        return tuple(at for at, entry in enumerate(self.inputs) if entry.stream.lower() == stream.lower())


def joined_name(place: int, column: str) -> str:
    """What a column of an input is called in the rows of a join."""
    return f"{place}.{column}"


@dataclass(frozen=True, slots=True)
class Join:
    """What a join shape says besides its condition, which is about rows of the signature."""

    signature: Signature
    # reach_us[i][j]: the event time of input j exceeds that of input i by at most this; None: by any amount
    reach_us: tuple[tuple[int | None, ...], ...]
    # per input, what the condition says of it alone, over its stream's own columns
    local: tuple[Condition, ...]
    # outer joins: what makes a match, besides the keys; it is not in the shape's condition
    on: Condition = _ALWAYS
