"""Registering queries: texts and templates into the catalog, all or none, each call one version."""

from __future__ import annotations

import re
import string
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from eddyline.catalog import QueryRecord, ReadableRelations, begins_empty, has_age, is_same_shape
from eddyline.engine import RoundEngine
from eddyline.errors import (
    EddylineError,
    PropertyError,
    QueryStateError,
    SchemaError,
    UnknownNameError,
    did_you_mean,
)
from eddyline.expressions import Context, Frame, cast, evaluate, literal_value
from eddyline.model import Column, Properties, QueryState, Shape
from eddyline.rules.cost import rule_warnings
from eddyline.rules.join_output import output_warnings
from eddyline.rules.view_changes import changed_readers
from eddyline.sources import as_table, infer_schema
from eddyline.sql import (
    AlterView,
    CreateView,
    Streams,
    parse_statements,
    properties,
    refuse_unbuilt,
    slots_of,
)
from eddyline.sql import stated as stated_properties
from eddyline.types import canonical

_DEFAULT = Properties()


class Registrar:
    """Turns what users write into catalog entries, and gives their ids. The caller holds the engine's lock."""

    def __init__(self, rounds: RoundEngine) -> None:
        self._rounds = rounds

    # ----------------------------------------------------------------------------------------- one query

    def one(
        self,
        text: str,
        name: str | None,
        params: Mapping[str, Any] | None,
        property_values: Mapping[str, Any],
    ) -> int:
        if text.lstrip()[:6].lower() == "create":
            return self._create(text, name, params, property_values)
        check_name(name)
        declared = properties(property_values) if property_values else _DEFAULT
        shape, constants = self.bind(text, params, declared)
        self._refuse(shape, declared, text)
        return self._put(text, name, shape, constants, declared, says_enabled=_says_enabled(property_values))

    def _create(
        self,
        text: str,
        name: str | None,
        params: Mapping[str, Any] | None,
        property_values: Mapping[str, Any],
    ) -> int:
        statements = parse_statements(text)
        if len(statements) != 1 or not isinstance(statements[0], CreateView):
            raise PropertyError(
                "query takes one SELECT or CREATE VIEW",
                hint="Run other statements, or several, with engine.sql(…).",
            )
        view = statements[0]
        if name is not None and name != view.name:
            raise PropertyError(f"the view is called {view.name}, name= says {name}", hint="Leave out name=.")
        return self.view(view, params=params, property_values=property_values)

    def view(
        self,
        view: CreateView,
        *,
        params: Mapping[str, Any] | None = None,
        property_values: Mapping[str, Any] | None = None,
    ) -> int:
        """CREATE VIEW: a query with a name."""
        check_name(view.name)
        stated = {**dict(view.properties), **(property_values or {})}
        declared = properties(stated)
        known = self._rounds.catalog.names.find(view.name, declared.owner)
        if known is not None and view.if_not_exists:
            return known
        shape, constants = self.bind(view.text, params, declared)
        self._refuse(shape, declared, view.text)
        if known is not None and not view.replace:
            record = self._rounds.catalog.record(known)
            if record.text != view.text:
                raise QueryStateError(
                    f"query {view.name} already exists, with another text",
                    hint="Write CREATE OR REPLACE VIEW to change it.",
                )
        return self._put(view.text, view.name, shape, constants, declared, says_enabled=_says_enabled(stated))

    def alter(self, alter: AlterView) -> int:
        """ALTER VIEW: another text, or other properties."""
        query_id = find_query(self._rounds, alter.name)
        record = self._rounds.catalog.record(query_id)
        if alter.text is not None:
            self.replace(query_id, alter.text, None)
            return query_id
        stated = {**stated_properties(record.properties), **dict(alter.set_properties)}
        for name in alter.unset_properties:
            stated.pop(name, None)
        declared = properties(stated)
        says_enabled = _says_enabled(
            {**dict(alter.set_properties), **dict.fromkeys(alter.unset_properties, "")}
        )
        is_paused = not declared.is_enabled if says_enabled else None
        if (declared.emit, declared.keep_us) != (record.properties.emit, record.properties.keep_us):
            shape, values = self.bound_again(record, None, declared)
            self._refuse(shape, declared, record.text)
            self.exchange(query_id, record.text, shape, values, declared, is_paused=is_paused)
            return query_id
        self._refuse(record.shape, declared, record.text)
        self.exchange(query_id, record.text, record.shape, _values(record), declared, is_paused=is_paused)
        return query_id

    def resume(self, query_id: int) -> None:
        """Let a query run again. Aggregates of aggregates are registered anew for that, with the queries that read them."""
        catalog = self._rounds.catalog
        record = catalog.record(query_id)
        if record.state is QueryState.RUNNING:
            return
        with catalog.change(f"resume query {record.name}"):
            if has_age(record.shape):
                self.exchange(
                    query_id, record.text, record.shape, _values(record), record.properties, is_paused=False
                )
            else:
                catalog.set_paused(query_id, False, self._rounds.now_us())

    def replace(
        self,
        query_id: int,
        text: str,
        params: Mapping[str, Any] | None,
        property_values: Mapping[str, Any] | None = None,
    ) -> None:
        record = self._rounds.catalog.record(query_id)
        declared = record.properties
        if property_values:
            declared = properties({**stated_properties(declared), **property_values})
        shape, constants = self.bind(text, params, declared)
        self._refuse(shape, declared, text)
        if not self._is_same(record, text, shape, constants, declared):
            is_paused = not declared.is_enabled if _says_enabled(property_values or {}) else None
            self.exchange(query_id, text, shape, constants, declared, is_paused=is_paused)

    def trial(
        self, text: str, params: Mapping[str, Any] | None, property_values: Mapping[str, Any] | None = None
    ) -> tuple[QueryRecord, list[str]]:
        """Bind a text as if it were registered: a SELECT, or a CREATE VIEW."""
        view = stated_view(text)
        if view is not None:
            text, property_values = view.text, {**dict(view.properties), **(property_values or {})}
        declared = properties(property_values) if property_values else _DEFAULT
        shape, constants = self.bind(text, params, declared)
        self._refuse(shape, declared, text)
        scalars = tuple(pa.scalar(v, s.type) for v, s in zip(constants, shape.slots, strict=True))
        version = self._rounds.catalog.version
        return QueryRecord(
            0, "(not registered)", text, shape, declared, QueryState.PAUSED, 0, version, 0, scalars
        ), [
            *rule_warnings(shape, constants, self._rounds.context()),
            *output_warnings(self._rounds, shape, constants),
        ]

    # ----------------------------------------------------------------------------------------- many

    def texts(
        self, queries: Iterable[Any] | Mapping[str, str], property_values: Mapping[str, Any]
    ) -> Sequence[int]:
        declared = properties(property_values) if property_values else _DEFAULT
        ready: list[tuple[str, str | None, Shape, Sequence[Any]]] = []
        entries = queries.items() if isinstance(queries, Mapping) else ((None, text) for text in queries)
        for at, (name, text) in enumerate(entries):
            if not isinstance(text, str):
                raise PropertyError(
                    f"entry {at} of the queries is {type(text).__name__}, not SQL text",
                    hint="Give a list of texts, or a dict from names to texts.",
                )
            try:
                check_name(name)
                shape, constants = self.bind(text, None, declared)
                self._refuse(shape, declared, text)
            except EddylineError as error:
                error.detail = f"In query {name or at}, so none was registered. {error.detail or ''}".rstrip()
                raise
            ready.append((text, name, shape, constants))
        ids = []
        with self._rounds.catalog.change():
            for text, name, shape, constants in ready:
                says_enabled = _says_enabled(property_values)
                ids.append(self._put(text, name, shape, constants, declared, says_enabled=says_enabled))
        return ids

    def template(
        self, text: str, params: Any, name: str | None, property_values: Mapping[str, Any]
    ) -> Sequence[int]:
        declared = properties(property_values) if property_values else _DEFAULT
        table = self._parameter_table(params)
        naming = set(_fields(name)) if name is not None else set()
        types = {
            field.name: canonical(field.type) or field.type
            for field in table.schema
            if field.name not in naming
            or re.search(rf":{field.name}\b", text)  # a column may serve the name alone
        }
        shape, literals = shape_of(self._rounds, text, types, declared)
        self._refuse(shape, declared, text)
        n = table.num_rows
        slots = [
            self._converted(slot.name, _column(table, slot.name), slot.type)
            if slot.name is not None
            else pa.repeat(pa.scalar(value, slot.type), n)
            for slot, value in zip(shape.slots, literals, strict=True)
        ]
        self._check_constants(text, shape, slots, types, declared)
        names = None if name is None else _names(name, table)
        if n == 0:
            return []
        known = self._rounds.catalog
        if names is not None and any(known.names.find(each, declared.owner) is not None for each in names):
            says_enabled = _says_enabled(property_values)
            return self._template_over_known(text, shape, slots, names, declared, says_enabled=says_enabled)
        registered = known.register_many(text, shape, slots, n, names, declared, self._rounds.now_us())
        return range(registered.first_id, registered.first_id + n)

    def _template_over_known(
        self,
        text: str,
        shape: Shape,
        slots: Sequence[pa.Array],
        names: Sequence[str],
        declared: Properties,
        *,
        says_enabled: bool,
    ) -> Sequence[int]:
        """Some names are registered already: those are replaced, one by one, the rest added, in one version."""
        ids = []
        with self._rounds.catalog.change():
            for at, each in enumerate(names):
                constants = [literal_value(column[at]) for column in slots]
                ids.append(self._put(text, each, shape, constants, declared, says_enabled=says_enabled))
        return ids

    # ----------------------------------------------------------------------------------------- inside

    def bind(
        self,
        text: str,
        params: Mapping[str, Any] | None,
        declared: Properties = _DEFAULT,
        relations: Streams | None = None,
    ) -> tuple[Shape, Sequence[Any]]:
        """The shape of a text with these properties, and the values of its slots."""
        if params is not None and not isinstance(params, Mapping):
            raise PropertyError(
                f"params is {type(params).__name__}, not a dict",
                hint="Write params={'limit': 10}; a table goes with query_many.",
            )
        scalars = {name: _scalar(name, value) for name, value in (params or {}).items()}
        types = {name: scalar.type for name, scalar in scalars.items()}
        shape, constants = shape_of(self._rounds, text, types or None, declared, relations)
        values = list(constants)
        for slot in shape.slots:
            if slot.name is not None:
                argument = pa.array([scalars[slot.name].as_py()], scalars[slot.name].type)
                values[slot.index] = _python(slot.name, self._converted(slot.name, argument, slot.type)[0])
        self._check_constants(text, shape, slots_of(shape, values), types, declared)
        return shape, values

    def _check_constants(
        self,
        text: str,
        shape: Shape,
        slots: Sequence[pa.Array],
        types: Mapping[str, pa.DataType],
        declared: Properties,
    ) -> None:
        rounds = self._rounds
        readable = ReadableRelations(rounds.catalog, declared.owner)
        rounds.shapes.check_constants(
            text, shape, slots, readable, rounds.functions, params=types or None, properties=declared
        )

    def _converted(self, name: str, values: pa.Array, t: pa.DataType) -> pa.Array:
        """Values of a parameter in the type its place has, as CAST makes them."""
        source = canonical(values.type)
        if source is None:
            raise PropertyError(f"parameter {name} has type {values.type}, which SQL does not have")
        try:
            values = values.cast(source)
        except pa.ArrowInvalid as error:
            raise SchemaError(f"parameter {name} does not fit", detail=str(error)) from None
        if source == t:
            return values
        frame = Frame(len(values), {("", name): values}, context=Context(0, self._rounds.time_zone))
        result = evaluate(cast(Column(source, name), t), frame)
        if result.errors is not None and result.errors.any():
            failure = frame.failure(int(result.errors[result.errors != 0][0]))
            raise SchemaError(f"parameter {name} does not fit", detail=failure.message)
        return frame.array(result)

    def _put(
        self,
        text: str,
        name: str | None,
        shape: Shape,
        constants: Sequence[Any],
        declared: Properties,
        *,
        says_enabled: bool,
    ) -> int:
        """Register a query, or replace the one of that name, or leave it if nothing changes.

        Replacing changes the text of a query, not whether it runs, unless its properties say so.
        """
        catalog, now = self._rounds.catalog, self._rounds.now_us()
        known = None if name is None else catalog.names.find(name, declared.owner)
        if known is None:
            return catalog.register(text, shape, constants, name, declared, now)
        record = catalog.record(known)
        if not says_enabled:
            declared = replace(declared, is_enabled=record.properties.is_enabled)
        if not self._is_same(record, text, shape, constants, declared):
            is_paused = not declared.is_enabled if says_enabled else None
            self.exchange(known, text, shape, constants, declared, is_paused=is_paused)
        return known

    def exchange(
        self,
        query_id: int,
        text: str,
        shape: Shape,
        constants: Sequence[Any],
        declared: Properties,
        *,
        is_paused: bool | None,
        without: Container[int] = (),
    ) -> None:
        """Replace a query; those that read it as a view begin anew with it, in the same version, but for those in `without`."""
        rounds = self._rounds
        catalog, now = rounds.catalog, rounds.now_us()
        record = catalog.record(query_id)
        is_other = begins_empty(shape) or not self._is_same(record, text, shape, constants, record.properties)
        readers = (
            changed_readers(catalog, query_id, shape, self.bound_again, without=without) if is_other else []
        )
        views = [catalog.views.of_query(each).name for each in (query_id, *(r.record.id for r in readers))]
        with catalog.change(f"replace query {record.name}"):
            catalog.replace(query_id, text, shape, constants, declared, now, is_paused=is_paused)
            for each in readers:
                old = each.record
                catalog.replace(old.id, old.text, each.shape, each.constants, old.properties, now)
        if readers:
            for name in views:
                rounds.shapes.forget(name)
                rounds.flow.forget_stream(name)

    def bound_again(
        self, record: QueryRecord, relations: Streams | None, declared: Properties | None = None
    ) -> tuple[Shape, Sequence[Any]]:
        """The text of a query, with the parameters it has, bound to other relations, or with other properties."""
        params = {
            slot.name: value
            for slot, value in zip(record.shape.slots, record.constants, strict=True)
            if slot.name is not None
        }
        return self.bind(record.text, params or None, declared or record.properties, relations)

    def _refuse(self, shape: Shape, declared: Properties, text: str) -> None:
        table_key = self._rounds.catalog.relations.table_key
        refuse_unbuilt(shape=shape, properties=declared, text=text, table_key=table_key)

    def _is_same(
        self, record: QueryRecord, text: str, shape: Shape, constants: Sequence[Any], declared: Properties
    ) -> bool:
        same_text = record.text == text and record.properties == declared
        return (
            same_text
            and is_same_shape(record.shape, shape)
            and [_value(c) for c in record.constants]
            == [_value(pa.scalar(c, s.type)) for c, s in zip(constants, shape.slots, strict=True)]
        )

    def _parameter_table(self, params: Any) -> pa.Table:
        if params is None:
            raise PropertyError(
                "a template needs params",
                hint="Give a table with a column for each :parameter, or a list of texts.",
            )
        table = as_table(params)
        if table is not None:
            return table
        try:
            if isinstance(params, Mapping):
                return pa.table(
                    {str(k): v if isinstance(v, pa.Array) else list(v) for k, v in params.items()}
                )
            rows = [dict(row) for row in params]
        except (
            TypeError,
            ValueError,
            OverflowError,
            NotImplementedError,
        ) as error:  # Arrow's own are among them
            raise SchemaError(
                "the parameter table cannot be read",
                detail=str(error),
                hint="Give a table, a dict of columns, or a list of dicts, with a column for each :parameter.",
            ) from None
        return pa.Table.from_pylist(rows, schema=infer_schema(rows)) if rows else pa.table({})


def find_query(rounds: RoundEngine, query: str | int, owner: str = "") -> int:
    """The id of a registered query, by name or id; with the lock held. Raises UnknownNameError."""
    catalog = rounds.catalog
    if isinstance(query, int):
        catalog.queries.name_of(query)
        return query
    found = catalog.names.find(query, owner)
    if found is None:
        raise UnknownNameError(
            f"there is no query {query}",
            hint=did_you_mean(query, catalog.names.of(owner), noun="named query"),
        )
    return found


def shape_of(
    rounds: RoundEngine,
    text: str,
    types: Mapping[str, pa.DataType] | None,
    declared: Properties = _DEFAULT,
    relations: Streams | None = None,
) -> tuple[Shape, list[Any]]:
    """The shape of a text with these properties, as the catalog has it, and the values of its literals; with the lock held.

    It reads `relations`, or what queries of the owner may read.
    """
    readable = ReadableRelations(rounds.catalog, declared.owner) if relations is None else relations
    shape, values = rounds.shapes.shape_of(
        text, readable, rounds.functions, params=types, properties=declared
    )
    refuse_unbuilt(shape=shape, text=text)  # what is not built cannot be stored either
    return rounds.catalog.interned_shape(shape), values


def _values(record: QueryRecord) -> list[Any]:
    return [literal_value(each) if isinstance(each, pa.Scalar) else each for each in record.constants]


def _value(constant: Any) -> Any:
    value = literal_value(constant) if isinstance(constant, pa.Scalar) else constant
    return repr(value) if isinstance(value, float) else value  # NaN is the same constant as NaN


def _scalar(name: str, value: Any) -> pa.Scalar:
    if isinstance(value, (set, frozenset, tuple)):
        value = list(value)
    try:
        scalar = value if isinstance(value, pa.Scalar) else pa.scalar(value)
    except (TypeError, ValueError, OverflowError, NotImplementedError) as error:  # Arrow's own are among them
        raise PropertyError(f"parameter {name} has a value SQL cannot have", detail=str(error)) from None
    t = canonical(scalar.type)
    if t is None:
        raise PropertyError(f"parameter {name} has type {scalar.type}, which SQL does not have")
    return scalar.cast(t)


def _python(name: str, scalar: pa.Scalar) -> Any:
    try:
        return scalar.as_py()
    except OverflowError as error:  # a time before year 1 or after 9999
        raise SchemaError(f"parameter {name} does not fit", detail=str(error)) from None


def _column(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name).combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks else pa.array([], column.type)
    return column


def _fields(template: str) -> list[str]:
    """The parameters a name is formatted with."""
    try:
        return [field for _, field, _, _ in string.Formatter().parse(template) if field is not None]
    except ValueError as error:
        raise _bad_name(template, error) from None


def _names(template: str, table: pa.Table) -> list[str]:
    """The template formatted with each row; every name must be its own."""
    used = _fields(template)
    for field in used:
        if field not in table.schema.names:
            raise UnknownNameError(
                f"name {template!r} uses {{{field}}}, which is not a parameter",
                hint=did_you_mean(field, table.schema.names, noun="parameter"),
            )
    rows = table.select(used).to_pylist() if used else [{}] * table.num_rows
    try:
        names = [template.format(**row) for row in rows]
    except (ValueError, TypeError) as error:
        raise _bad_name(template, error) from None
    for name in names:
        check_name(name)
    if len(set(names)) != len(names):
        used_names: set[str] = set()
        twice = next(n for n in names if n in used_names or used_names.add(n))  # type: ignore[func-returns-value]
        raise PropertyError(
            f"name {template!r} gives {twice!r} to more than one query",
            hint="Use the parameters that identify the rows.",
        )
    return names


def stated_view(text: str) -> CreateView | None:
    """The view a text creates, if it is a statement that does so."""
    if text.lstrip()[:6].lower() != "create":
        return None
    statements = parse_statements(text)
    view = statements[0] if len(statements) == 1 else None
    return view if isinstance(view, CreateView) else None


def _says_enabled(stated: Mapping[str, Any]) -> bool:
    """Whether one of these properties, spelt as users do, is `enabled`."""
    return any(
        name.lower().removesuffix("_") == "enabled" and value is not None for name, value in stated.items()
    )


def check_name(name: str | None) -> None:
    if name is not None and (not name.strip() or not name.isprintable()):
        raise PropertyError(f"{name!r} cannot be the name of a query", hint="Give a name that can be read.")


def _bad_name(template: str, error: Exception) -> PropertyError:
    return PropertyError(
        f"name {template!r} cannot be formatted",
        detail=str(error),
        hint='Write a name such as "watch-{sym}".',
    )
