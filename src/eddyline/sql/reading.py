"""What each token of a text is to the grammar: a name, a constant, a type, or a keyword.

A word is a keyword only where Spark's grammar has a place for it; everywhere else it is a name, or nothing if it is reserved.
That is decided here, by the tokens around it, so that the parser never has to guess.
"""

from __future__ import annotations

from collections.abc import Sequence

import sqlglot
from sqlglot import TokenType

from eddyline.sql.lexer import Constant, Token

_PREDICATES = ("BETWEEN", "ESCAPE", "ILIKE", "IN", "IS", "LIKE", "REGEXP", "RLIKE")
_VALUES = (
    "AND",
    "CASE",
    "DISTINCT",
    "DIV",
    "ELSE",
    "END",
    "FALSE",
    "NOT",
    "NULL",
    "OR",
    "THEN",
    "TRUE",
    "WHEN",
)
_CLAUSES = ("SELECT", "FROM", "WHERE", "GROUP", "HAVING", "QUALIFY")
_IN_CLAUSES = ("ALL", "AS", "ASC", "BY", "DESC", "EXCEPT", "ON", "ORDER", "USING")
_IN_JOINS = ("ANTI", "CROSS", "FULL", "INNER", "JOIN", "LATERAL", "NATURAL", "SEMI")
_AFTER_QUERIES = (
    "INTERSECT",
    "LIMIT",
    "MINUS",
    "OFFSET",
    "SET",
    "SORT",
    "TABLESAMPLE",
    "UNION",
    "WINDOW",
    "WITH",
)
# Words that cannot be names without backquotes, because they end or start a part of an expression or query.
RESERVED = frozenset((*_PREDICATES, *_VALUES, *_CLAUSES, *_IN_CLAUSES, *_IN_JOINS, *_AFTER_QUERIES))
# Reserved words that are never names without backquotes, and those that are only where nothing else can be meant.
_NEVER_NAMES = frozenset(("NOT", "NULL", "TRUE", "FALSE"))
RARELY_NAMES = frozenset(
    (
        *_PREDICATES,
        "AND",
        "OR",
        "DIV",
        "CASE",
        "WHEN",
        "THEN",
        "ELSE",
        "SELECT",
        "FROM",
        "WHERE",
        "HAVING",
        "QUALIFY",
    )
) | {"AS", "BY", "JOIN", "ON", "USING"}
_NOT_AFTER_AS = frozenset(("FROM", "WHERE", "AS"))  # here a name is missing
# Words that cannot follow what they would name, because they start a clause or a join.
NOT_ALIASES = RESERVED | {"LEFT", "RIGHT", "ASOF", "PIVOT", "UNPIVOT", "CLUSTER", "DISTRIBUTE", "FETCH"}
JOINS = {
    ("JOIN",): "inner",
    ("INNER", "JOIN"): "inner",
    ("CROSS", "JOIN"): "cross",
    ("LEFT", "JOIN"): "left",
    ("LEFT", "OUTER", "JOIN"): "left",
    ("RIGHT", "JOIN"): "right",
    ("RIGHT", "OUTER", "JOIN"): "right",
    ("SEMI", "JOIN"): "left semi",
    ("LEFT", "SEMI", "JOIN"): "left semi",
    ("ANTI", "JOIN"): "left anti",
    ("LEFT", "ANTI", "JOIN"): "left anti",
    ("ASOF", "JOIN"): "asof",
}
_JOIN_WORDS = frozenset(word for words in JOINS for word in words)
LEVELS: tuple[
    dict[str, str], ...
] = (  # of binary operators, loosest first: as written, and the name in the tree
    {"=": "=", "==": "=", "<=>": "<=>", "<>": "!=", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="},
    {"|": "|"},
    {"^": "^"},
    {"&": "&"},
    {"<<": "<<", ">>": ">>"},
    {"+": "+", "-": "-", "||": "||"},
    {"*": "*", "/": "/", "%": "%", "DIV": "div"},
)
OPERATORS = {written: name for words in LEVELS for written, name in words.items()}
# What may follow a name that is a value. Behind one of the rare ones, what cannot also start a value, or end a text too early.
AFTER_RARE_NAMES = frozenset((*LEVELS[0], ",", ")", "]", "FROM", "AS", "AND", "OR", "IS", "IN"))
_AFTER_VALUE = AFTER_RARE_NAMES | {
    *OPERATORS,
    *("[", ".", "::", "->", "BETWEEN", "LIKE", "ILIKE", "RLIKE", "REGEXP", "NOT", "ESCAPE", "FOR"),
    *("THEN", "WHEN", "ELSE", "END", "WHERE", "GROUP", "HAVING", "QUALIFY", "ASC", "DESC", "ROWS", "RANGE"),
    *("JOIN", "LEFT", "RIGHT", "INNER", "CROSS", "ANTI", "SEMI", "ASOF", "FULL", "NATURAL"),
    *("ORDER", "LIMIT", "UNION", "EXCEPT", "INTERSECT", "WINDOW"),
}
SIGNS = {"-": "negate", "~": "~", "+": ""}
CASTS = ("CAST", "TRY_CAST")
QUANTIFIERS = {
    "ANY": "or",
    "SOME": "or",
    "ALL": "and",
}  # of patterns, and what joins the conditions they are short for
# Calls with words between their arguments, and the word that tells them from plain calls of the same name.
WORDED_CALLS = {"TRIM": "FROM", "SUBSTRING": "FROM", "SUBSTR": "FROM", "POSITION": "IN"}

# ------------------------------------------------------------------------------------------------ single tokens


def is_wordlike(text: str) -> bool:
    """Whether a token looks like a name or keyword."""
    return text[:1].isalpha() or text[:1] == "_"


def is_path(token: Token) -> bool:
    """Whether a token is the path in payload:path."""
    return token.constant is None and token.text[0] == ":" and token.text not in (":", "::")


def words_of(tokens: Sequence[Token]) -> list[str]:
    """Each token in capitals, or nothing where it cannot be a word: a constant, a path, a quoted name, a name after a dot."""
    words: list[str] = []
    for token in tokens:
        is_word = token.constant is None and token.text[0] != "`" and not is_path(token)
        is_field = bool(words) and words[-1] == "." and is_wordlike(token.text)
        words.append(token.text.upper() if is_word and not is_field else "")
    return words


_DEEPER = {"(": 1, "<": 1, ")": -1, ">": -1, ">>": -2}
_TAKES_TYPES = frozenset(("ARRAY", "MAP", "STRUCT"))


def type_end(tokens: Sequence[Token], first: int, end: int | None = None) -> int:
    """The token after the type that starts at `first`: a name, perhaps with parameters in ( ), or < > if these are types."""
    end = len(tokens) if end is None else end
    at, depth = first + 1, 0
    opening = ("(", "<") if tokens[first].text.upper() in _TAKES_TYPES else ("(",)
    while at < end and (depth or tokens[at].text in opening):
        depth += 0 if tokens[at].constant is not None else _DEEPER.get(tokens[at].text, 0)
        at += 1
        if depth <= 0:
            break
    return at


# ------------------------------------------------------------------------------------------------ tokens among others

_NULL_WORDS = frozenset(("IGNORE", "RESPECT"))
_FRAME_WORDS = frozenset(("UNBOUNDED", "PRECEDING", "FOLLOWING", "CURRENT", "ROW"))
_TRIM_SIDES = frozenset(("BOTH", "LEADING", "TRAILING"))
_NOWHERE = TokenType.BREAK  # a word or sign that no rule of the parser takes
_KEYWORDS = {
    **{word: TokenType[word] for word in (*_PREDICATES, *_VALUES) if word != "REGEXP"},
    **{word: TokenType[word] for word in _CLAUSES if word != "GROUP"},
    **{word: TokenType[word] for word in ("ALL", "ASC", "EXCEPT", "ON", "USING")},
    **{
        word: TokenType[word]
        for word in ("ANTI", "ASOF", "CROSS", "INNER", "JOIN", "LEFT", "OUTER", "RIGHT", "SEMI", "STREAM")
    },
    **{word: TokenType[word] for word in ("FOR", "OVER", "RANGE", "ROWS")},
    **dict.fromkeys((*CASTS, "EXTRACT", *WORDED_CALLS, *_TRIM_SIDES, *_FRAME_WORDS), TokenType.VAR),
    **dict.fromkeys((*_NULL_WORDS, "NULLS"), TokenType.VAR),
    "FILTER": TokenType.FILTER,
    **dict.fromkeys(OPERATORS, TokenType.OPERATOR),
    "AS": TokenType.ALIAS,
    "REGEXP": TokenType.RLIKE,
    "GROUP": TokenType.GROUP_BY,
    "ORDER": TokenType.ORDER_BY,
    "PARTITION": TokenType.PARTITION_BY,
    "!": TokenType.NOT,
    "(": TokenType.L_PAREN,
    ")": TokenType.R_PAREN,
    "[": TokenType.L_BRACKET,
    "]": TokenType.R_BRACKET,
    ",": TokenType.COMMA,
    ".": TokenType.DOT,
    "::": TokenType.DCOLON,
    "->": TokenType.ARROW,
    "~": TokenType.TILDE,
    "*": TokenType.STAR,
    "+": TokenType.PLUS,
    "-": TokenType.DASH,
}
_PAIRS = {")": "(", "]": "[", "END": "CASE"}
_NOT_BEFORE_VALUES = frozenset(("NULL", "TRUE", "FALSE", "JOIN", "IS", "GROUP", "ORDER", "ASC", "DESC"))
_WITH_BY = frozenset(("GROUP", "ORDER", "PARTITION"))
_NOT_IN_WORDED_CALLS = frozenset(
    (",", "AND", "OR", "NOT", "!", "IS", "LIKE", "ILIKE", "RLIKE", "REGEXP", "BETWEEN")
)
_OPERAND_KINDS = frozenset((TokenType.IDENTIFIER, TokenType.NUMBER, TokenType.TYPE, TokenType.COLON))


class TokenReading:
    """The tokens of a text, what each is, and which belong together."""

    def __init__(self, tokens: Sequence[Token], constants: Sequence[Constant]) -> None:
        self.tokens = tokens
        self._constants = constants
        self.words = [*words_of(tokens), "", "", ""]  # a look beyond the end finds nothing
        self.around: list[int] = []  # per token: the innermost (, [ or CASE around it, or -1
        self.clauses: list[str] = []  # per token: the clause of the query it is in
        self.type_last: dict[int, int] = {}  # by first token of a type
        self._inside: dict[int, set[str]] = {}  # by opening parenthesis: the words directly inside
        self._framed_windows: set[int] = set()  # opening parentheses of windows whose frame has been met
        self._pair()
        self.kinds: list[TokenType] = []  # per token: its kind as the parser gets it
        self._types_until = -1
        for at in range(len(tokens)):
            self.kinds.append(self._kind(at))

    def is_name(self, at: int) -> bool:
        return at < len(self.kinds) and self.kinds[at] is TokenType.IDENTIFIER

    def is_type(self, at: int) -> bool:
        return at < len(self.kinds) and self.kinds[at] is TokenType.TYPE

    def constant(self, at: int) -> Constant | None:
        """The constant that the token is."""
        number = self.tokens[at].constant if at < len(self.tokens) else None
        return None if number is None else self._constants[number]

    def is_list(self, at: int) -> bool:
        """Whether the token is a whole IN list of literals."""
        constant = self.constant(at)
        return constant is not None and constant.is_list

    def is_star(self, at: int) -> bool:
        """Whether the asterisk here stands for columns, not for a product."""
        return at == 0 or self.words[at - 1] in ("SELECT", "ALL", "DISTINCT", ",", "(", ".")

    def ends_operand(self, at: int) -> bool:
        """Whether a value can end with the token, so that what follows is not the start of another one."""
        if at < 0 or self.kinds[at] in _OPERAND_KINDS:
            return at >= 0
        is_star = self.words[at] == "*" and self.is_star(at)
        return is_star or self.words[at] in (")", "]", "END", "NULL", "TRUE", "FALSE")

    def join_length(self, at: int) -> int:
        """How many words from here on say how an input is joined; none: nothing is joined here."""
        return next((len(words) for words in JOINS if tuple(self.words[at : at + len(words)]) == words), 0)

    def is_quantifier(self, at: int) -> bool:
        """Whether the word says how many of the patterns behind it must match: LIKE ANY (…)."""
        is_there = self.words[at] in QUANTIFIERS and self.words[at + 1] == "("
        return is_there and at > 0 and self.words[at - 1] in ("LIKE", "ILIKE")

    def call_around(self, at: int) -> str:
        """The function in whose parentheses a token is, in capitals."""
        opening = self.around[at] if at < len(self.around) else -1
        return self.words[opening - 1] if opening > 0 and self.words[opening] == "(" else ""

    def is_in_window(self, at: int) -> bool:
        """Whether a token is directly in the parentheses of OVER."""
        opening = self.around[at]
        return opening > 0 and self.words[opening] == "(" and self.kinds[opening - 1] is TokenType.OVER

    def shape(self) -> list[sqlglot.Token]:
        """The text as sqlglot's parser is to see it: every name alike, every constant alike, their places as positions."""
        shape: list[sqlglot.Token] = []

        def add(kind: TokenType, text: str, at: int) -> None:
            shape.append(sqlglot.Token(kind, text, start=at, end=at))

        skipped_until = -1
        for at, kind in enumerate(self.kinds):
            if at <= skipped_until:
                continue
            word = self.words[at]
            if kind is TokenType.TYPE:
                add(kind, "type", at)
                skipped_until = self.type_last[at]
            elif kind is TokenType.IDENTIFIER:
                add(kind, "name", at)
            elif kind is TokenType.COLON:
                add(kind, ":", at)
                add(TokenType.NUMBER, "0", at)
            elif self.is_list(at):
                add(TokenType.IN, "IN", at)
                add(TokenType.L_PAREN, "(", at)
                add(TokenType.NUMBER, "0", at)
                add(TokenType.R_PAREN, ")", at)
            elif kind is TokenType.NUMBER:
                add(kind, "0", at)
            else:
                add(kind, word, at)
                skipped_until = at + 1 if word in _WITH_BY and kind is not _NOWHERE else skipped_until
        return shape

    # ---------------------------------------------------------------- what a token is

    def _pair(self) -> None:
        """Find what is paired, clauses, and types, which are one thing for the grammar."""
        opened = [-1]
        clause = before = ""
        is_value_next, n_spare_ends = True, self.words.count("END") - self.words.count("CASE")
        for at, token in enumerate(self.tokens):
            word = self.words[at]
            if word in RESERVED and (is_value_next or self._is_bare_alias(at, clause, opened)):
                is_in_case = opened[-1] >= 0 and self.words[opened[-1]] == "CASE"
                if self._is_named(at, before) and not (word == "END" and is_in_case and n_spare_ends <= 0):
                    n_spare_ends -= word == "END"
                    word = self.words[at] = ""
            is_value_next = self._precedes_value(at, is_value_next, is_inside=opened[-1] >= 0)
            begins = _PAIRS.get(word)
            if begins is not None:
                while begins != "CASE" and self.words[opened[-1]] == "CASE" and opened[-1] >= 0:
                    opened.pop()  # it has no END
                if opened[-1] >= 0 and self.words[opened[-1]] == begins:
                    opened.pop()
            around = opened[-1]
            self.around.append(around)
            if word in ("(", "[", "CASE"):
                opened.append(at)
            if word == "FROM" and before == "DISTINCT":
                word = ""  # of IS DISTINCT FROM
            if around >= 0:
                self._inside.setdefault(around, set()).add(word)
            elif word in _CLAUSES:
                clause = word
            self.clauses.append(clause)
            is_type = before == "::" or (before == "AS" and self.call_around(at) in CASTS)
            if is_type and token.constant is None and is_wordlike(token.text) and word not in RESERVED:
                end = type_end(self.tokens, at)
                self.type_last[at] = end - 1
                self.words[at:end] = [""] * (end - at)
            elif before == "AS" and is_wordlike(token.text) and word not in _NOT_AFTER_AS:
                self.words[at] = ""  # a name, whatever else the word may mean
            before = self.words[at]

    def _is_named(self, at: int, before: str) -> bool:
        """Whether a reserved word is a name, where a value may stand: what follows it would follow a value."""
        word, after = self.words[at], self.words[at + 1]
        if (
            at == 0
            or word in _NEVER_NAMES
            or (word in ("ALL", "DISTINCT") and before in ("SELECT", "BY", "("))
        ):
            return False
        if word == "WINDOW" and after == "(":
            return True  # window(ts, '5 minutes')
        if word in RARELY_NAMES:
            is_compared = at + 1 >= len(self.tokens) and before in LEVELS[0] and word not in ("AND", "OR")
            return is_compared or (after in AFTER_RARE_NAMES and (after != word or word == "FROM"))
        if after or at + 1 >= len(self.tokens):
            return at + 1 >= len(self.tokens) or after in _AFTER_VALUE
        return self.is_list(at + 1) or is_path(self.tokens[at + 1])

    def _is_bare_alias(self, at: int, clause: str, opened: Sequence[int]) -> bool:
        """Whether the word follows a column of SELECT, and nothing else does."""
        if self.words[at] == "DISTINCT" and self.words[at - 1] in ("IS", "NOT"):  # i IS DISTINCT FROM 5
            return False
        is_end = self.words[at + 1] in (",", "FROM")
        return clause == "SELECT" and opened[-1] < 0 and is_end and self.words[at] not in RARELY_NAMES

    def _precedes_value(self, at: int, was_value_next: bool, *, is_inside: bool) -> bool:
        """Whether a value may follow the token. Behind FROM and JOIN is an input, behind AS and :: a name or type."""
        word = self.words[at]
        if not word or word in (")", "]", "END", "AS", "::", "."):
            return word == "."
        if word == "*":
            return not was_value_next
        if word == "NOT":
            return at == 0 or self.words[at - 1] != "IS"
        if word == "FROM":
            return is_inside or (at > 0 and self.words[at - 1] == "DISTINCT")
        return not is_wordlike(word) or (word in RESERVED and word not in _NOT_BEFORE_VALUES)

    def _kind(self, at: int) -> TokenType:
        token, word = self.tokens[at], self.words[at]
        self._types_until = self.type_last.get(at, self._types_until)
        if at <= self._types_until:
            return TokenType.TYPE
        if token.constant is not None:
            return TokenType.NUMBER
        if word == "":
            return TokenType.COLON if is_path(token) else TokenType.IDENTIFIER
        if self.is_quantifier(at):
            return TokenType.VAR
        if not is_wordlike(word):
            return _KEYWORDS.get(word, _NOWHERE)
        if self._is_keyword(at, word, self.words[at - 1] if at else "", self.words[at + 1]):
            return _KEYWORDS[word]
        is_misplaced = word in NOT_ALIASES and (word in RESERVED or self.ends_operand(at - 1))
        return _NOWHERE if is_misplaced else TokenType.IDENTIFIER

    def _is_keyword(self, at: int, word: str, before: str, after: str) -> bool:
        """Whether the grammar has a place for the word where it is."""
        if word in _WITH_BY:
            return after == "BY" and (word == "GROUP" or self.is_in_window(at))
        if word in _JOIN_WORDS:
            starts = range(max(at - 2, 0), at + 1)
            return any(s + self.join_length(s) > at and self.ends_operand(s - 1) for s in starts)
        if word in CASTS or word == "EXTRACT":
            return after == "("
        if word in WORDED_CALLS:
            inside = self._inside.get(at + 1, set())
            return after == "(" and WORDED_CALLS[word] in inside and not inside & _NOT_IN_WORDED_CALLS
        if word == "OVER":
            return before in (")", "NULLS") and after == "("
        if word == "FILTER":
            return before == ")" and self.words[at + 1 : at + 3] == ["(", "WHERE"]
        if word in _NULL_WORDS or word == "NULLS":
            first = at if word in _NULL_WORDS else at - 1
            is_pair = self.words[first] in _NULL_WORDS and self.words[first + 1] == "NULLS"
            return is_pair and first > 0 and self.words[first - 1] == ")"
        if word in ("ROWS", "RANGE"):
            is_frame = self.is_in_window(at) and (before in ("(", "ASC") or self.ends_operand(at - 1))
            self._framed_windows.update((self.around[at],) if is_frame else ())
            return is_frame
        if word in _FRAME_WORDS:
            return self.around[at] in self._framed_windows
        if word in _TRIM_SIDES:
            is_first = before == "(" and self._is_worded(at)
            return is_first and self.call_around(at) == "TRIM" and after not in (")", ",", ".")
        if word == "FOR":
            return self._is_worded(at) and self.ends_operand(at - 1)
        if word == "STREAM":
            is_input = before in ("FROM", "JOIN", ",") and self.clauses[at] == "FROM" and self.around[at] < 0
            named = self.tokens[at + 1].text if at + 1 < len(self.tokens) else ""
            return is_input and (named[:1] == "`" or (is_wordlike(named) and after not in NOT_ALIASES))
        if word == "ALL":
            return before == "SELECT"
        if word == "DISTINCT":
            return before in ("(", "IS", "SELECT") or (before == "NOT" and self.words[at - 2] == "IS")
        if word == "EXCEPT":
            return before == "*" and after == "(" and self.is_star(at - 1)
        return word in RESERVED and word in _KEYWORDS

    def _is_worded(self, at: int) -> bool:
        """Whether the token is in a call with words between its arguments."""
        opening = self.around[at]
        return opening > 0 and self.kinds[opening - 1] is TokenType.VAR
