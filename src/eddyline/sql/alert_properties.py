"""What the properties of an alert query must be, beside each other and beside the columns of its result."""

from __future__ import annotations

from collections.abc import Callable

from eddyline.errors import NotBuiltError, PropertyError, UnknownNameError, did_you_mean
from eddyline.model import Column, Input, Properties, Shape, Signature, joined_name
from eddyline.sql.message_templates import message_template
from eddyline.sql.view_properties import FIELDS

# the key of a relation that is a table, () if it is a view and has none; None: its rows never leave
TableKey = Callable[[str], tuple[str, ...] | None]

_DURATIONS = ("cooldown_us", "for_us", "resolve_us")


def check_alert_properties(properties: Properties, shape: Shape | None, table_key: TableKey) -> None:
    """Refuse what no alert can be made of; without a shape, as far as that can be said without its columns."""
    for field in _DURATIONS:
        if getattr(properties, field) == 0:
            raise PropertyError(
                f"property {FIELDS[field]} is zero",
                hint="Leave it out, or write a duration such as '5 minutes'.",
            )
    is_over_tables = shape is not None and table_keys(shape, table_key) is not None
    if is_over_tables and properties.resolve_us is not None:
        raise PropertyError(
            "property resolve does not go with a query over tables",
            detail="Rows of a table leave as well as appear: an alert over it resolves when the last row of its key leaves.",
            hint="Leave resolve out.",
        )
    if not is_over_tables and properties.for_us is not None and properties.resolve_us is None:
        raise PropertyError(
            "property for needs the property resolve",
            detail="An alert fires once its rows have gone on for that long; resolve says after how long without one they have"
            " stopped.",
            hint="Add resolve, such as resolve='5 minutes'.",
        )
    if shape is None:
        return
    per_columns(properties, shape, table_key)
    if properties.message is not None:
        message_template(properties.message, shape.output)


def table_keys(shape: Shape, table_key: TableKey) -> tuple[tuple[str, ...], ...] | None:
    """The keys of the tables that a query is over, one for each of its inputs; None if some of its rows never leave."""
    found: list[tuple[str, ...]] = []
    for branch in shape.all_branches:
        keys = _keys_of_branch(branch, table_key)
        if keys is None:
            return None
        found += keys
    return tuple(found)


def _keys_of_branch(shape: Shape, table_key: TableKey) -> tuple[tuple[str, ...], ...] | None:
    if shape.aggregating is not None:
        aggregation = shape.aggregating.aggregation
        return (aggregation.keys,) if aggregation.is_table else None
    if shape.join is not None and not shape.join.signature.is_of_tables:
        return None
    keys = [_key_of(entry, table_key) for entry in shape.inputs]
    found = tuple(key for key in keys if key is not None)
    return found if found and len(found) == len(keys) else None


def _key_of(entry: Input, table_key: TableKey) -> tuple[str, ...] | None:
    if entry.view is None:
        return table_key(entry.stream)
    return None if table_keys(entry.view.shape, table_key) is None else ()


def refuse_mixed(shape: Shape, table_key: TableKey) -> None:
    """Refuse a union of tables and of streams: rows of some of its parts leave, those of others never do."""
    if not shape.branches:
        return
    branches = shape.all_branches
    is_table = [_keys_of_branch(each, table_key) is not None for each in branches]
    if any(is_table) and not all(is_table):
        table, stream = (branches[is_table.index(kind)] for kind in (True, False))
        raise NotBuiltError(
            "UNION ALL of tables and streams is not built in this version",
            span=branches[is_table.index(not is_table[0])].inputs[0].span,
            detail=f"Rows of {_read_by(table)} appear and leave, those of {_read_by(stream)} only appear.",
            hint="Register one query for each kind.",
        )


def _read_by(branch: Shape) -> str:
    return ", ".join(dict.fromkeys(entry.label for entry in branch.inputs))


def per_columns(properties: Properties, shape: Shape, table_key: TableKey) -> tuple[str, ...]:
    """The columns of the result that `per` names, whatever its case, as the result spells them.

    Without `per`, those of the keys of the tables that the query is over, if the result has all of them; of SELECT DISTINCT all.
    Parts of a union may have rows of the same key.
    """
    if not properties.per and shape.branches and not shape.is_one_set:
        return ()
    if not properties.per:
        keys = table_keys(shape, table_key) or ()
        if shape.is_distinct:
            return tuple(shape.output.names)
        return _key_columns(shape, keys) if all(keys) else ()
    names = shape.output.names
    exact, folded = set(names), {name.lower(): name for name in names}
    found: list[str] = []
    for word in properties.per:
        name = word if word in exact else folded.get(word.lower())
        if name is None:
            raise UnknownNameError(
                f"property per names {word}, which is not a column of the result",
                hint=did_you_mean(word, names, noun="column"),
            )
        if name in found:
            raise PropertyError(f"property per names {name} twice", hint="Name each column once.")
        found.append(name)
    return tuple(found)


def _key_columns(shape: Shape, keys: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
    """The columns of the result with the keys of its tables, or with what a join equates them with; none if one is missing."""
    equal = {} if shape.join is None else _equal_columns(shape.join.signature)
    shown = {
        each.expression.name: each.name for each in shape.projection if isinstance(each.expression, Column)
    }
    found: dict[str, None] = {}
    absent = () if shape.join is None else shape.join.signature.absent_places
    for place, key_columns in enumerate(keys):
        for column in () if place in absent else key_columns:
            name = column if shape.join is None else joined_name(place, column)
            candidates = [shown[each] for each in sorted(equal.get(name, {name})) if each in shown]
            if not candidates:
                return ()
            found[candidates[0]] = None
    return tuple(found)


def _equal_columns(signature: Signature) -> dict[str, set[str]]:
    """By column of joined rows, those that tell rows apart as it does: they are the same in every row.

    Of LEFT JOIN, a column of input 0 stands for one of input 1, which is NULL where nothing matches, but not the other way round.
    """
    equal: dict[str, set[str]] = {}
    for key in signature.keys:
        if isinstance(key.left_key, Column) and isinstance(key.right_key, Column):
            sides = joined_name(key.left, key.left_key.name), joined_name(key.right, key.right_key.name)
            if signature.outer:
                equal.setdefault(sides[1], {sides[1]}).add(sides[0])
                continue
            merged = set[str]().union(*(equal.get(side, {side}) for side in sides))
            equal.update(dict.fromkeys(merged, merged))
    return equal
