"""Tables of HTML, as notebooks show values that have `_repr_html_`."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

SHOWN_ROWS = 50  # of a long list; the caption says how many there are


def html_table(caption: str, columns: Sequence[str], rows: Sequence[Iterable[Any]], more: int = 0) -> str:
    """A caption and a table of the first rows; `more` rows are there and not given."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(_shown(value))}</td>" for value in row) + "</tr>"
        for row in rows[:SHOWN_ROWS]
    )
    more += max(0, len(rows) - SHOWN_ROWS)
    rest = f"<p>and {more:,} more</p>" if more else ""
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if columns else ""
    return f"<div><b>{html.escape(caption)}</b>{table}{rest}</div>"


def html_rows(caption: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """The same of dicts, which may differ in their keys."""
    columns = list(dict.fromkeys(name for row in rows[:SHOWN_ROWS] for name in row))
    cells = [[row.get(name) for name in columns] for row in rows[:SHOWN_ROWS]]
    return html_table(caption, columns, cells, more=max(0, len(rows) - SHOWN_ROWS))


def _shown(value: Any) -> str:
    return "NULL" if value is None else str(value)
