"""Text to Query.

Enters: the text a user wrote, the schemas of the streams it names, the functions that are registered. Leaves: statements,
or the bound and normalised `Shape` of a query with the values of its slots; never a syntax tree. Every refusal is an
`EddylineError` that points into the user's text.

A text passes `lexer` (constants out, skeleton left), and only if its skeleton is new also `reading`, sqlglot under our
`dialect` and `tree` (syntax), `scope`, `bind` and `select` (names and types), `normalise` (clauses of atoms) and, with several
inputs, `joins` (keys and windows). `templates` remembers.
"""

from eddyline.choices import SEVERITIES
from eddyline.sql.aggregate_words import aggregate_names, with_aggregate_names
from eddyline.sql.alert_properties import per_columns, table_keys
from eddyline.sql.constants import over_a_limit, slots_of
from eddyline.sql.join_words import (
    atom_words,
    column_words,
    input_names,
    input_words,
    over_joined,
    retention_words,
    signature_text,
    signature_words,
    stream_words,
    streams_of,
)
from eddyline.sql.lexer import parameter_names, span_places, span_texts
from eddyline.sql.message_templates import MessageTemplate, message_template
from eddyline.sql.normalisation import normalise
from eddyline.sql.readable_streams import Streams, StreamTable
from eddyline.sql.rendering import quoted_name, render, spoken
from eddyline.sql.statements import (
    AlterView,
    AnyStatement,
    CreateStream,
    CreateView,
    Drop,
    Select,
    parse_statements,
)
from eddyline.sql.subqueries import displayed_names
from eddyline.sql.templates import Shapes
from eddyline.sql.unbuilt import refuse_unbuilt
from eddyline.sql.union_words import part_words
from eddyline.sql.view_properties import FIELDS, PROPERTY_NAMES, properties, size_bytes, stated

__all__ = [
    "FIELDS",
    "PROPERTY_NAMES",
    "SEVERITIES",
    "AlterView",
    "AnyStatement",
    "CreateStream",
    "CreateView",
    "Drop",
    "MessageTemplate",
    "Select",
    "Shapes",
    "StreamTable",
    "Streams",
    "aggregate_names",
    "atom_words",
    "column_words",
    "displayed_names",
    "input_names",
    "input_words",
    "message_template",
    "normalise",
    "over_a_limit",
    "over_joined",
    "parameter_names",
    "parse_statements",
    "part_words",
    "per_columns",
    "properties",
    "quoted_name",
    "refuse_unbuilt",
    "render",
    "retention_words",
    "signature_text",
    "signature_words",
    "size_bytes",
    "slots_of",
    "span_places",
    "span_texts",
    "spoken",
    "stated",
    "stream_words",
    "streams_of",
    "table_keys",
    "with_aggregate_names",
]
