"""Arrival numbers of the rows of a round: the data's own `_arrival`, or one after the other in the order of the streams."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from eddyline.errors import SchemaError
from eddyline.model import END_OF_ARRIVALS
from eddyline.sources import IngestedRows


def arrival_numbers(inputs: Mapping[str, IngestedRows], first: int) -> dict[str, npt.NDArray[np.int64]]:
    """The data's own numbers where it has them, else one after the other in the order the streams were given."""
    given = [i.arrival for i in inputs.values() if i.arrival is not None and len(i.arrival)]
    unnumbered = [name for name, i in inputs.items() if i.arrival is None and i.rows.num_rows]
    if given and unnumbered:
        raise SchemaError(
            "some streams of this push have an _arrival column and some do not",
            detail=f"Without: {', '.join(unnumbered)}.",
            hint="Number the rows of all of them, or of none.",
        )
    if given:
        together = np.sort(np.concatenate(given))
        if together[0] < first:
            raise SchemaError(
                f"_arrival {int(together[0])} is not after the rows already seen",
                detail=f"The last row had {first - 1}.",
                hint="Arrival numbers only grow; leave the column out to have rows numbered as they come.",
            )
        if together[-1] >= END_OF_ARRIVALS:
            raise SchemaError(
                f"_arrival {int(together[-1])} is too large",
                detail=f"Numbers from {END_OF_ARRIVALS} on are those of rows that joins make.",
                hint="Number rows from 1, or leave the column out to have them numbered as they come.",
            )
        if (np.diff(together) == 0).any():
            twice = int(together[np.flatnonzero(np.diff(together) == 0)[0]])
            raise SchemaError(f"_arrival {twice} is there in two streams", hint="Every row needs its own.")
    numbers: dict[str, npt.NDArray[np.int64]] = {}
    for name, ingested in inputs.items():
        n = ingested.rows.num_rows
        if given:
            numbers[name] = ingested.arrival if ingested.arrival is not None else np.empty(0, np.int64)
        else:
            numbers[name] = np.arange(first, first + n, dtype=np.int64)
            first += n
    return numbers
