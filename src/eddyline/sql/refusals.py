"""Errors for a text that is not a query: the construct that is not supported, or the word that is missing.

`Refusals` looks at tokens only. Before parsing it refuses by name what Spark knows and a standing query does not. Where the
parser stopped, it says what was expected, after what, and what was found.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import TokenType

from eddyline.errors import ParseError, Span, UnsupportedError, nearest
from eddyline.sql.aggregates import WAY_OUT
from eddyline.sql.lexer import PARAMETER
from eddyline.sql.reading import (
    CASTS,
    NOT_ALIASES,
    OPERATORS,
    RARELY_NAMES,
    RESERVED,
    SIGNS,
    TokenReading,
    is_wordlike,
)

STATEMENTS = "SELECT, CREATE TABLE, CREATE VIEW, ALTER VIEW, DROP VIEW and DROP TABLE"
_CLAUSES = ("FROM", "WHERE", "GROUP", "HAVING", "QUALIFY")
_MISSPELT = (*_CLAUSES, "JOIN")
_SHORTEST_MISSPELT = 3
_NAMES_AND_VALUES = (
    "an expression",
    "a name",
    "a stream",
    "a column",
)  # what a reserved word in backquotes can be
_NO_ORDER = "A standing query has no end, so its results come in the order they appear."
_NO_END = "A standing query has no end. Read the newest results with latest(n)."
_ASCENDING = "Frames hold rows that have come: write ORDER BY the time of the stream, ascending."
_NO_DIFFERENCE = "Of one stream, write the condition with AND NOT; of two, a LEFT ANTI JOIN (docs/joins.md)."
_NO_VALUE = "Join the query in FROM and name its column, or write WHERE EXISTS (…) (docs/sql.md, Subqueries)."
EXPLODE_HINT = (
    "To ask about elements write exists(tags, t -> t = 'a'). To have a row for each, explode in Spark and bring the rows with "
    "running.feed (docs/spark.md)."
)
_REFUSED_CLAUSES = {
    "ORDER": ("ORDER BY", _NO_ORDER),
    "SORT": ("SORT BY", _NO_ORDER),
    "CLUSTER": ("CLUSTER BY", _NO_ORDER),
    "DISTRIBUTE": ("DISTRIBUTE BY", _NO_ORDER),
    "LIMIT": ("LIMIT", _NO_END),
    "FETCH": ("FETCH", _NO_END),
    "OFFSET": ("OFFSET", _NO_END),
    "UNION": ("UNION", "Write UNION ALL: every row of each part is a result."),
    "INTERSECT": (
        "INTERSECT",
        "Of one stream, join the conditions with AND; of two, write a JOIN (docs/joins.md).",
    ),
    "EXCEPT": ("EXCEPT", _NO_DIFFERENCE),
    "MINUS": ("MINUS", _NO_DIFFERENCE),
    "WINDOW": ("WINDOW", "Write the window behind OVER itself, in parentheses."),
    "LATERAL": ("LATERAL", EXPLODE_HINT),
    "TABLESAMPLE": ("TABLESAMPLE", "Take rows by a column: WHERE crc32(CAST(id AS STRING)) % 100 < 10."),
    "PIVOT": ("PIVOT", WAY_OUT),
    "UNPIVOT": ("UNPIVOT", "Register one query for each column."),
}
_OTHER_JOINS = {
    "FULL": "Register two queries: FROM a LEFT JOIN b …, and FROM b LEFT ANTI JOIN a … for what is left over of b.",
    "NATURAL": "Name the columns both sides have: a JOIN b USING (id).",
}
_JOIN_WORDS = frozenset(("JOIN", "OUTER", "INNER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI", "CROSS"))
_STAR_CHANGES = frozenset(("REPLACE", "RENAME", "EXCLUDE", "ILIKE"))
_NEGATABLE = frozenset(("BETWEEN", "IN", "LIKE", "ILIKE", "RLIKE", "REGEXP"))
_CONNECTING = ("AND", "OR", "NOT", "!", "BETWEEN", "LIKE", "ILIKE", "RLIKE", "REGEXP", "ESCAPE", "ON", "BY")
_BEGINNING = ("(", "[", ",", "->", "CASE", "WHEN", "THEN", "ELSE", "SELECT", "WHERE", "HAVING", "QUALIFY")
_BEFORE_OPERAND = frozenset((*OPERATORS, *SIGNS, *_CONNECTING, *_BEGINNING))
_STARTS_OPERAND = frozenset(("(", "*", "+", "-", "~", "CASE", "NULL", "TRUE", "FALSE"))
_TAKES_NAMES = {"USING": "a column", "EXCEPT": "a column", "EXTRACT": "a field such as YEAR"}
_BEFORE_TERM = frozenset((*OPERATORS, *SIGNS, "["))  # what follows these cannot start with NOT
_MAY_FOLLOW = frozenset((*OPERATORS, *_CONNECTING, ",", "AS", "EXCEPT", "GROUP", "IN", "IS", "USING"))
_AFTER_CASE_WORD = {"WHEN": "THEN", "THEN": "WHEN, ELSE or END", "ELSE": "END"}


def shortened_text(text: str) -> str:
    """A piece of the user's text as a message quotes it."""
    return text if len(text) <= 40 else f"{text[:37]}…"


@dataclass(slots=True)
class _OpenPart:
    """Something begun and not ended, and what must come next if not its end: (, [, CASE, BETWEEN or JOIN."""

    word: str
    at: int
    awaits: str


class Refusals:
    """Complaints about one text."""

    def __init__(self, text: str, reading: TokenReading, end_text: str = "the end of the text") -> None:
        """`end_text` is what follows the last token."""
        self._text = text
        self._end_text = end_text
        self._reading = reading
        self._tokens = reading.tokens
        self._words = reading.words

    # ---------------------------------------------------------------- sentences

    def span(self, at: int) -> Span:
        """The position of a token; beyond the last one, the place just after it."""
        if at < len(self._tokens):
            return self._tokens[at].span
        end = self._tokens[-1].span.end
        return Span(end, end + 1)

    def token_text(self, at: int) -> str:
        """A token as a message names it."""
        if at >= len(self._tokens):
            return self._end_text
        return shortened_text(self._tokens[at].text)

    def expected_error(self, at: int, what: str) -> ParseError:
        hint = "A join needs a condition." if what == "ON or USING" else None
        if (
            at < len(self._tokens)
            and self._words[at] in RESERVED - RARELY_NAMES
            and what.startswith(_NAMES_AND_VALUES)
        ):
            hint = f"If it is a name, write it in backquotes: `{self._tokens[at].text}`."
        return ParseError(f"expected {what}, found {self.token_text(at)}", span=self.span(at), hint=hint)

    def unsupported_error(self, at: int, what: str, hint: str | None = None) -> UnsupportedError:
        return UnsupportedError(f"{what} is not supported", span=self.span(at), hint=hint)

    def named_window(self, at: int) -> UnsupportedError:
        return self.unsupported_error(at, "a named window", "Write it behind OVER itself, in parentheses.")

    def _unexpected_error(self, at: int) -> ParseError:
        """The token has no business here; perhaps it, or the one before, is a misspelt keyword."""
        for place in (at, at - 1):
            word = self._words[place] if place > 0 and self._words[0] == "SELECT" else ""
            near = nearest(word, _MISSPELT) if len(word) >= _SHORTEST_MISSPELT and is_wordlike(word) else None
            if near is not None and near != word:
                return ParseError(
                    f"{self.token_text(place)} was not expected here",
                    span=self.span(place),
                    hint=f"Did you mean {near} instead of {self._tokens[place].text}?",
                )
        return ParseError(f"{self.token_text(at)} was not expected here", span=self.span(at))

    # ---------------------------------------------------------------- known, but not supported

    def refuse_query(self) -> None:
        """Refuse a text that is no query, or has a clause that is not supported."""
        if self._words[0] != "SELECT":
            raise self._not_a_query()
        for at in range(1, len(self._tokens)):
            refusal = self._refused_clause(at) or self._refused_part(at)
            if refusal is not None:
                raise refusal

    def refuse_expression(self) -> None:
        """Refuse an expression with a part that is not supported."""
        for at in range(len(self._tokens)):
            refusal = self._refused_part(at)
            if refusal is not None:
                raise refusal

    def _not_a_query(self) -> ParseError | UnsupportedError:
        word = self._words[0]
        if word in ("VALUES", "TABLE", "FROM"):
            return self.unsupported_error(0, f"a query that starts with {word}", "Start with SELECT.")
        error = self.expected_error(0, "SELECT")
        is_misspelt = word[:3] in ("SEL", "SLE") or word.endswith("ECT")
        error.hint = (
            f"Did you mean SELECT instead of {self._tokens[0].text}?"
            if is_misspelt
            else f"Accepted statements are {STATEMENTS}."
        )
        return error

    def _refused_clause(self, at: int) -> UnsupportedError | None:
        if self._reading.around[at] >= 0:
            return None
        word, before, after = self._words[at], self._words[at - 1], self._words[at + 1]
        if self._is_before_input(at - 1) and (before != "FROM" or self._reading.ends_operand(at - 2)):
            if word == "(":
                return self.unsupported_error(
                    at,
                    "a join in parentheses",
                    "Write the joins one after the other: a JOIN b ON … JOIN c ON ….",
                )
            if word in ("LATERAL", "VALUES") and after:
                return self.unsupported_error(
                    at, word, EXPLODE_HINT if word == "LATERAL" else "Name a stream."
                )
        is_grouping = word in ("ALL", "ROLLUP", "CUBE") or (word == "GROUPING" and after == "SETS")
        if is_grouping and before == "BY" and self._words[at - 2] == "GROUP":
            return self.unsupported_error(
                at,
                f"GROUP BY {word}",
                "Name the columns. Of several sets of columns, register one query for each.",
            )
        if word in _OTHER_JOINS and after in _JOIN_WORDS and self._reading.ends_operand(at - 1):
            return self.unsupported_error(at, f"{word} JOIN", _OTHER_JOINS[word])
        if word not in _REFUSED_CLAUSES or self._reading.kinds[at] is not TokenType.BREAK:
            return None
        return (
            self.unsupported_error(at, *_REFUSED_CLAUSES[word])
            if self._reading.ends_operand(at - 1)
            else None
        )

    def _refused_part(self, at: int) -> UnsupportedError | None:
        """What an expression may hold in Spark and may not here."""
        word, after = self._words[at], self._words[at + 1]
        before = self._words[at - 1] if at else ""
        is_inside = self._reading.around[at] >= 0
        is_values = word == "VALUES" and after == "(" and not (at > 1 and self._is_callable(at - 2))
        if before == "(" and (word in ("SELECT", "WITH") or is_values):
            return self.unsupported_error(at, "a query inside an expression", _NO_VALUE)
        if before == "*" and word in _STAR_CHANGES and self._reading.is_star(at - 1):
            return self.unsupported_error(at, f"* {word}", "List the columns, or write * EXCEPT (a, b).")
        if before == ")" and word == "WITHIN" and after == "GROUP":
            return self.unsupported_error(at, "WITHIN after a function", WAY_OUT)
        if before == ")" and word == "OVER" and after != "(":
            return self.named_window(at + 1)
        is_ordering = word == "DESC" or (word == "NULLS" and after in ("FIRST", "LAST"))
        if is_ordering and self._reading.is_in_window(at):
            return self.unsupported_error(at, f"ORDER BY … {word}", _ASCENDING)
        if word == "=>" and is_inside:
            return self.unsupported_error(at, "a named argument", "Give the arguments in order.")
        if word == "INTERVAL" and self._is_value(at):
            return self.unsupported_error(
                at,
                "this interval",
                "Write INTERVAL 10 MINUTES: a number and a unit. A column cannot stand there.",
            )
        return None

    def _is_value(self, at: int) -> bool:
        """Whether the word before a name or constant is itself no name: INTERVAL in INTERVAL x DAY."""
        if self._reading.ends_operand(at - 1) or self._is_before_input(at - 1):
            return False
        is_named = at > 0 and self._words[at - 1] == "AS"
        return not is_named and (self._reading.constant(at + 1) is not None or self._reading.is_name(at + 1))

    # ---------------------------------------------------------------- not understood

    def complaint(self, at: int) -> ParseError:
        """Why a text cannot be read beyond token `at`: the first place up to there where something is missing."""
        at = min(max(at, 0), len(self._tokens))
        opened: list[_OpenPart] = []
        for place in range(at + 1):
            missing = self._missing_before(place)
            if missing is None and place < at:
                missing = self._missing_instead(place, opened)
            if missing is not None:
                return self.expected_error(place, missing)
        word = self._words[at]
        if self._may_follow(at, opened) and (missing := self._missing_before(at + 1)) is not None:
            return self.expected_error(at + 1, missing)
        if opened:
            return self.expected_error(at, self._awaited_text(opened[-1]))
        if word in (*_CLAUSES, "JOIN", "SELECT"):
            return ParseError(
                f"{word} comes too late or twice",
                span=self.span(at),
                hint="The order is SELECT, FROM, JOIN, WHERE, GROUP BY, HAVING, QUALIFY.",
            )
        return self._unexpected_error(at)

    def _may_follow(self, at: int, opened: list[_OpenPart]) -> bool:
        """Whether the token can stand here, so that it is what follows it that is wrong."""
        word, top = self._words[at], opened[-1].word if opened else ""
        if top == "JOIN":
            return word in ("ON", "USING")
        is_argument = word in ("FROM", "FOR", "ORDER") and top == "("
        return word in _MAY_FOLLOW or is_argument or (word == "ELSE" and top == "CASE")

    def _missing_before(self, at: int) -> str | None:
        """What must stand at `at` because of the tokens before it, and does not."""
        words, reading = self._words, self._reading
        if at == 0:
            return None if words[0] in ("SELECT", "NOT", "!") or self._starts_operand(0) else "an expression"
        before, named = words[at - 1], self._tokens[at - 1].text
        if before == ".":
            is_there = reading.is_name(at) or (words[at] == "*" and reading.is_name(at - 2))
            return None if is_there else "a name after ."
        if before == "::" or (before == "AS" and reading.call_around(at - 1) in CASTS):
            return None if reading.is_type(at) else f"a type after {named}"
        if before == "AS":
            return None if reading.is_name(at) else "a name after AS"
        if before == "IS" or (before == "NOT" and words[at - 2] == "IS" and at > 1):
            is_there = words[at] in ("NULL", "TRUE", "FALSE") or words[at : at + 2] == ["DISTINCT", "FROM"]
            is_there = is_there or (before == "IS" and words[at] == "NOT")
            return None if is_there else f"NULL, TRUE, FALSE or DISTINCT FROM after {before}"
        if before == "IN" and reading.call_around(at - 1) != "POSITION":
            constant = reading.constant(at)
            is_there = words[at] == "(" or (constant is not None and constant.kind == PARAMETER)
            return None if is_there else "( after IN"
        if before == "USING":
            return None if words[at] == "(" else "( after USING"
        if before in ("GROUP", "ORDER") or (
            before == "PARTITION" and words[at - 3 : at - 1] == ["OVER", "("]
        ):
            return None if words[at] == "BY" else "BY"
        if self._is_before_input(at - 1):
            is_there = words[at] == "STREAM" or (reading.is_name(at) and words[at] not in NOT_ALIASES)
            return None if is_there else f"a stream after {'the comma' if before == ',' else named}"
        is_operand = before in _BEFORE_OPERAND or before in ("FROM", "FOR", "IN", "ROWS", "RANGE")
        return self._missing_operand(at, before) if is_operand and not reading.is_name(at - 1) else None

    def _missing_operand(self, at: int, before: str) -> str | None:
        words, reading = self._words, self._reading
        word, function = words[at], words[at - 2] if at > 1 and before == "(" else ""
        if before == "NOT" and reading.ends_operand(at - 2):
            return None if word in _NEGATABLE or reading.is_list(at) else "BETWEEN, IN or LIKE after NOT"
        if function in _TAKES_NAMES:
            return None if reading.is_name(at) else _TAKES_NAMES[function]
        if self._starts_operand(at):
            return None
        allowed = (
            (word in ("NOT", "!") and before not in _BEFORE_TERM)
            or (before == "*" and reading.is_star(at - 1))
            or (before == "CASE" and word == "WHEN")
            or (before == "SELECT" and word in ("ALL", "DISTINCT"))
            or (function == "OVER" and word in ("PARTITION", "ORDER", "ROWS", "RANGE", ")"))
            or (function == "TRIM" and word == "FROM")
            or (before == "(" and word in (")", "DISTINCT") and reading.is_name(at - 2))
            or (before in ("ROWS", "RANGE") and word == "BETWEEN")
        )
        after = "the comma" if before == "," else self._tokens[at - 1].text
        return None if allowed else f"an expression after {after}"

    def _missing_instead(self, at: int, opened: list[_OpenPart]) -> str | None:
        """Take note of what token `at` begins, carries on or ends. What should stand there, if it does not fit."""
        word = self._words[at]
        top = opened[-1] if opened else _OpenPart("", -1, "")
        is_second = self._reading.ends_operand(at - 1) and self._is_operand(at)
        if is_second and top.word in ("(", "[", "CASE", "BETWEEN"):
            return self._awaited_text(top)
        if word in ("(", "["):
            function = self._words[at - 1] if at and word == "(" else ""
            awaits = "AS" if function in CASTS else "FROM" if function == "EXTRACT" else ""
            opened.append(_OpenPart(word, at, awaits))
        elif word == "CASE" or (word == "BETWEEN" and top.word != "BETWEEN"):
            opened.append(_OpenPart(word, at, "WHEN" if word == "CASE" else "AND"))
        elif top.word == "JOIN" and word in ("ON", "USING"):
            opened.pop()
        elif top.word == "JOIN" and (word in _CLAUSES or word == "," or self._reading.join_length(at)):
            return top.awaits
        elif word == "JOIN" and self._words[at - 1] != "CROSS":
            opened.append(_OpenPart(word, at, "ON or USING"))
        elif top.word == "BETWEEN" and word == "AND":
            opened.pop()
        elif word in (")", "]", "END", "WHEN", "THEN", "ELSE"):
            return self._missing_end(word, opened)
        elif word and word == top.awaits:
            top.awaits = ""
        return None

    def _missing_end(self, word: str, opened: list[_OpenPart]) -> str | None:
        """End or carry on what was begun last with a word that belongs to it."""
        if not opened:
            return None
        top = opened[-1]
        begins = {")": "(", "]": "["}.get(word, "CASE")
        if top.word != begins or (top.awaits and word not in top.awaits.replace(",", "").split()):
            return self._awaited_text(top)
        if word in _AFTER_CASE_WORD:
            top.awaits = _AFTER_CASE_WORD[word]
        else:
            opened.pop()
        return None

    def _awaited_text(self, top: _OpenPart) -> str:
        if top.awaits:
            return top.awaits
        closing = "]" if top.word == "[" else ")"
        start = self._tokens[top.at].span.start
        line = self._text.count("\n", 0, start) + 1
        column = start - (self._text.rfind("\n", 0, start) + 1) + 1
        return f"{closing} for the {top.word} at line {line}, column {column}"

    # ---------------------------------------------------------------- places

    def _is_before_input(self, at: int) -> bool:
        """Whether what follows token `at` is an input: at FROM, JOIN, STREAM, or a comma between inputs."""
        if at < 0 or self._reading.clauses[at] != "FROM" or self._reading.around[at] >= 0:
            return False
        word = self._words[at]
        is_from = word == "FROM" and self._words[at - 1] != "DISTINCT"
        return is_from or word in ("JOIN", ",") or (word == "STREAM" and not self._reading.is_name(at))

    def _starts_operand(self, at: int) -> bool:
        if at >= len(self._tokens):
            return False
        return self._is_operand(at) or self._is_callable(at) or self._words[at] in _STARTS_OPERAND

    def _is_operand(self, at: int) -> bool:
        """Whether a value starts with the token, and nothing else could."""
        is_constant = self._reading.kinds[at] is TokenType.NUMBER and not self._reading.is_list(at)
        is_word = self._words[at] in ("CASE", "NULL", "TRUE", "FALSE")
        return is_constant or is_word or self._reading.is_name(at)

    def _is_callable(self, at: int) -> bool:
        """Whether the token is a name, or the name of a call with words between its arguments."""
        return self._reading.kinds[at] in (TokenType.IDENTIFIER, TokenType.VAR)
