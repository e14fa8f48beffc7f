"""Every mistake of a query that is being written, each with the field it is in, so that a form can mark it there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from eddyline.engine import OpenEngine
from eddyline.errors import EddylineError, QueryStateError
from eddyline.model import Shape
from eddyline.rules.register import Registrar, check_name, stated_view
from eddyline.sql import properties, refuse_unbuilt

_PROPERTY = re.compile(r"property (\w+)")
_PARAMETER = re.compile(r"(?:parameter|does not use parameter) (\w+)")


class FieldMistake(NamedTuple):
    """A mistake, in `text`, `name`, `properties.NAME` or `params.NAME`."""

    field: str
    error: EddylineError


def query_mistakes(
    engine: OpenEngine,
    text: str,
    *,
    name: str | None = None,
    params: Mapping[str, Any] | None = None,
    property_values: Mapping[str, Any] | None = None,
) -> list[FieldMistake]:
    """All that registering this as a new query would refuse: in the text, then the parameters, the properties, the name."""
    with engine.rounds.lock:
        engine.rounds.check_open()
        shape, found = _of_text(engine, text, params)
        found += _of_properties(engine, property_values or {}, shape)
        if shape is not None and not found:
            found += _of_emission(engine, text, params, property_values or {})
        if name is not None:
            found += _of_name(engine, name, text, str((property_values or {}).get("owner") or ""))
    return found


def _of_text(
    engine: OpenEngine, text: str, params: Mapping[str, Any] | None
) -> tuple[Shape | None, list[FieldMistake]]:
    try:
        view = stated_view(text)
        if view is not None:
            text = view.text
            properties(dict(view.properties))
        shape, _ = Registrar(engine.rounds).bind(text, params)
        refuse_unbuilt(shape=shape, text=text)
        return shape, []
    except EddylineError as error:
        about = None if error.span is not None else _PARAMETER.search(error.problem)
        return None, [FieldMistake("text" if about is None else f"params.{about[1]}", error)]


def _of_properties(
    engine: OpenEngine, property_values: Mapping[str, Any], shape: Shape | None
) -> list[FieldMistake]:
    """Values that cannot be read, one by one; then what does not go together, or not with the columns of the result."""
    found: list[FieldMistake] = []
    readable = {}
    for word, value in property_values.items():
        try:
            properties({word: value})
            readable[word] = value
        except EddylineError as error:
            found.append(FieldMistake(f"properties.{word}", error))
    while True:
        try:
            declared = properties(readable)
            refuse_unbuilt(
                shape=shape, properties=declared, table_key=engine.rounds.catalog.relations.table_key
            )
            return found
        except EddylineError as error:
            about = _PROPERTY.search(error.problem)
            word = "" if about is None else next((w for w in readable if w.removesuffix("_") == about[1]), "")
            found.append(FieldMistake(f"properties.{word}" if word else "properties", error))
            if not word:
                return found
            del readable[word]


def _of_emission(
    engine: OpenEngine, text: str, params: Mapping[str, Any] | None, property_values: Mapping[str, Any]
) -> list[FieldMistake]:
    """Properties of groups that do not go with the text."""
    view = stated_view(text)
    stated_values = property_values if view is None else {**dict(view.properties), **property_values}
    try:
        Registrar(engine.rounds).bind(text if view is None else view.text, params, properties(stated_values))
        return []
    except EddylineError as error:
        about = _PROPERTY.search(error.problem)
        return [FieldMistake("text" if about is None else f"properties.{about[1]}", error)]


def _of_name(engine: OpenEngine, name: str, text: str, owner: str) -> list[FieldMistake]:
    try:
        check_name(name)
    except EddylineError as error:
        return [FieldMistake("name", error)]
    known = engine.rounds.catalog.names.find(name, owner)
    if known is None or engine.rounds.catalog.queries.registration(known).text == text:
        return []
    name_error = QueryStateError(
        f"query {name} already exists, with another text",
        hint="Give this one another name, or change that one.",
    )
    return [FieldMistake("name", name_error)]
