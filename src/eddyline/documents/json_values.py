"""Values in what JSON has: for messages, for `--json` and for the socket."""

from __future__ import annotations

import base64
import datetime
import decimal
import math
from collections.abc import Mapping
from typing import Any

from eddyline.documents.times import iso_text


def jsonable(value: Any) -> Any:
    """The value in what JSON has: times and decimals as text, NaN as the word."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return (
            value
            if math.isfinite(value)
            else {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
        )
    if isinstance(value, Mapping):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [jsonable(item) for item in value]
    if isinstance(value, datetime.datetime):
        return iso_text(value)
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    import numpy as np  # loaded only for a value that is nothing of the above

    if isinstance(value, np.generic):
        return jsonable(value.item())
    return str(value)
