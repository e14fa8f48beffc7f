"""Types and JSON paths as a text writes them."""

from __future__ import annotations

import re

import pyarrow as pa

from eddyline import types
from eddyline.errors import ParseError, nearest
from eddyline.sql import syntax

_PATH_STEP = re.compile(r"""[:.](?:(\w+)|`((?:[^`]|``)+)`)|\[\s*(?:(\d+)|'([^']*)'|"([^"]*)")\s*\]""")


def json_path(written: str) -> str:
    """The JSON path `:a.b[0]` stands for: $.a.b[0]; keys that are no plain words in brackets."""
    steps = ["$"]
    for plain, backquoted, index, single, double in _PATH_STEP.findall(written):
        key = backquoted.replace("``", "`") or single or double
        steps.append(f"[{index}]" if index else f"['{key}']" if key else f".{plain}")
    return "".join(steps)


def written_type(node: syntax.TypeText) -> pa.DataType:
    """The type a text names."""
    try:
        return types.parse_type(node.text)
    except ValueError as error:
        near = nearest(node.text, _TYPE_NAMES)
        raise ParseError(str(error), span=node.span, hint=near and f"Did you mean {near}?") from None


_TYPE_NAMES = [
    "BOOLEAN",
    "TINYINT",
    "SMALLINT",
    "INT",
    "BIGINT",
    "FLOAT",
    "DOUBLE",
    "DECIMAL",
    "STRING",
    "BINARY",
    "DATE",
    "TIMESTAMP",
    "TIMESTAMP_NTZ",
    "ARRAY",
    "MAP",
    "STRUCT",
]
