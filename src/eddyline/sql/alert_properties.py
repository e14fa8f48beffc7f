"""What the properties of an alert query must be, beside each other and beside the columns of its result."""

from __future__ import annotations

from eddyline.errors import PropertyError, UnknownNameError, did_you_mean
from eddyline.model import Properties, Shape
from eddyline.sql.message_templates import message_template
from eddyline.sql.view_properties import FIELDS

_DURATIONS = ("cooldown_us", "for_us", "resolve_us")


def check_alert_properties(properties: Properties, shape: Shape | None) -> None:
    """Refuse what no alert can be made of; without a shape, as far as that can be said without its columns."""
    for field in _DURATIONS:
        if getattr(properties, field) == 0:
            raise PropertyError(
                f"property {FIELDS[field]} is zero",
                hint="Leave it out, or write a duration such as '5 minutes'.",
            )
    if properties.for_us is not None and properties.resolve_us is None:
        raise PropertyError(
            "property for needs the property resolve",
            detail="An alert fires once its rows have gone on for that long; resolve says after how long without one they have"
            " stopped.",
            hint="Add resolve, such as resolve='5 minutes'.",
        )
    if shape is None:
        return
    per_columns(properties, shape)
    if properties.message is not None:
        message_template(properties.message, shape.output)


def per_columns(properties: Properties, shape: Shape) -> tuple[str, ...]:
    """The columns of the result that `per` names, whatever its case, as the result spells them."""
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
