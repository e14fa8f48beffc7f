"""Spark's grammar as settings of sqlglot.

sqlglot's Databricks parser accepts far more than Spark does, so that it can read many dialects. Here it is made strict: it
sees the shape of a text (`reading`), in which a name is a name and a keyword a keyword, and its rules for operators and
predicates are those of the grammar Spark publishes (booleanExpression, valueExpression), loosest first:

    OR < AND < NOT < [NOT] BETWEEN, IN, LIKE, ILIKE, RLIKE, IS < = == <=> <> != < <= > >= < | < ^ < & < << >> < + - ||
    < * / % DIV < signs and ~ < .field [index] :path ::type

The position of a node of its tree is the number of the token it was made of.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, ClassVar

from sqlglot import Token, TokenType, exp
from sqlglot.errors import ParseError as Stopped
from sqlglot.parsers.databricks import DatabricksParser

from eddyline.sql.reading import CASTS, LEVELS, WORDED_CALLS, TokenReading

_LEVEL = {written: level for level, words in enumerate(LEVELS) for written in words}
_NAME = frozenset((TokenType.IDENTIFIER,))
_CLAUSES = (TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.QUALIFY)
_PATTERNS = (TokenType.LIKE, TokenType.ILIKE, TokenType.RLIKE)
_Rules = dict[Any, Any]


class SparkParser(DatabricksParser):
    """sqlglot's parser with Spark's operators and nothing optional. Every call is a call of a name."""

    ID_VAR_TOKENS: ClassVar[Any] = _NAME
    ALIAS_TOKENS: ClassVar[Any] = _NAME
    TABLE_ALIAS_TOKENS: ClassVar[Any] = _NAME
    WINDOW_ALIAS_TOKENS: ClassVar[Any] = _NAME
    IDENTIFIER_TOKENS: ClassVar[frozenset[TokenType]] = _NAME
    RESERVED_TOKENS: ClassVar[Any] = frozenset(TokenType) - _NAME
    FUNC_TOKENS: ClassVar[Any] = _NAME | {TokenType.VAR}
    FUNCTIONS: ClassVar[_Rules] = {}
    FUNCTION_PARSERS: ClassVar[_Rules] = {
        name: DatabricksParser.FUNCTION_PARSERS[name] for name in ("EXTRACT", *CASTS, *WORDED_CALLS)
    }
    NO_PAREN_FUNCTIONS: ClassVar[_Rules] = {}
    NO_PAREN_FUNCTION_PARSERS: ClassVar[_Rules] = {"CASE": lambda self: self._parse_case()}
    LAMBDAS: ClassVar[_Rules] = {
        TokenType.ARROW: lambda self, names: self.expression(
            exp.Lambda(this=self._parse_disjunction(), expressions=names)
        )
    }
    QUERY_MODIFIER_PARSERS: ClassVar[_Rules] = {
        kind: DatabricksParser.QUERY_MODIFIER_PARSERS[kind] for kind in _CLAUSES
    }
    PRIMARY_PARSERS: ClassVar[_Rules] = {
        TokenType.NUMBER: DatabricksParser.PRIMARY_PARSERS[TokenType.NUMBER],
        TokenType.STAR: DatabricksParser.PRIMARY_PARSERS[TokenType.STAR],
        TokenType.NULL: lambda self, token: self.expression(exp.Null(), token),
        TokenType.TRUE: lambda self, token: self.expression(exp.Boolean(this=True), token),
        TokenType.FALSE: lambda self, token: self.expression(exp.Boolean(this=False), token),
    }
    UNARY_PARSERS: ClassVar[_Rules] = dict.fromkeys(  # which sign it is, the token says
        (TokenType.PLUS, TokenType.DASH, TokenType.TILDE),
        lambda self: self.expression(exp.Neg(this=self._parse_unary())),
    )
    RANGE_PARSERS: ClassVar[_Rules] = {
        kind: DatabricksParser.RANGE_PARSERS[kind]
        for kind in (TokenType.BETWEEN, TokenType.IN, TokenType.IS, *_PATTERNS)
    }
    COLUMN_OPERATORS: ClassVar[_Rules] = {
        TokenType.DOT: None,
        TokenType.DCOLON: DatabricksParser.COLUMN_OPERATORS[TokenType.DCOLON],
        TokenType.COLON: lambda self, this, path: self.expression(
            exp.JSONExtract(this=this, expression=path)
        ),
    }
    CAST_COLUMN_OPERATORS: ClassVar[Any] = frozenset((TokenType.DCOLON,))
    COLON_IS_VARIANT_EXTRACT = (
        False  # a path is one token here, and an operator like any other behind a value
    )
    ADD_JOIN_ON_TRUE = False

    def __init__(self) -> None:
        super().__init__(dialect="databricks")
        self.stopped_at: int | None = None
        self._is_joining = False

    def raise_error(self, message: str, token: Token | None = None) -> None:
        """Stop at a token: the next to be read, unless it is one further back that cannot stay."""
        if not token or token is self._prev:
            token = self._curr
        self.stopped_at = token.start if token else None
        raise Stopped.new(message)

    # ---------------------------------------------------------------- booleanExpression

    def _parse_equality(self, parse_is: bool = True) -> exp.Expr | None:
        if self._match(TokenType.NOT):
            return self.expression(exp.Not(this=self._parse_equality()))
        return self._parse_range()

    def _parse_range(self, this: exp.Expr | None = None, parse_is: bool = False) -> exp.Expr | None:
        """A value, and a predicate behind it. Whether NOT is between them, the tokens say."""
        this = this or self._parse_bitwise()
        if self._curr.token_type == TokenType.NOT and self._next.token_type in self.RANGE_PARSERS:
            self._advance()
        if self._match_set(self.RANGE_PARSERS):
            predicate: Callable[..., exp.Expr | None] = self.RANGE_PARSERS[self._prev.token_type]
            return predicate(self, this)
        return this

    def _parse_is(self, this: exp.Expr | None) -> exp.Expr | None:
        self._match(TokenType.NOT)
        if self._match_text_seq("DISTINCT", "FROM"):
            return self.expression(exp.NullSafeNEQ(this=this, expression=self._parse_bitwise()))
        return self.expression(exp.Is(this=this, expression=self._parse_null() or self._parse_boolean()))

    def _parse_escape(self, this: exp.Expr | None) -> exp.Expr | None:
        if not self._match(TokenType.ESCAPE):
            return this
        return self.expression(exp.Escape(this=this, expression=self._parse_bitwise()))

    # ---------------------------------------------------------------- valueExpression

    def _parse_bitwise(self, loosest: int = 0) -> exp.Expr | None:
        """Binary operators of this level and tighter, left to right."""
        this = self._parse_unary()
        while (level := _LEVEL.get(self._curr.text, -1)) >= loosest:
            self._advance()
            operator, right = self._prev.text, self._parse_bitwise(level + 1)
            this = self.expression(exp.Operator(this=this, operator=operator, expression=right))
        return this

    # ---------------------------------------------------------------- primaryExpression

    def _parse_alias(self, this: exp.Expr | None, explicit: bool = False) -> exp.Expr | None:
        if self._match(TokenType.L_PAREN, advance=False):
            return this
        return super()._parse_alias(this, explicit)

    def _parse_bracket(self, this: exp.Expr | None = None) -> exp.Expr | None:
        return super()._parse_bracket(this) if this else None

    def _parse_bracket_key_value(self, is_map: bool = False) -> exp.Expr | None:
        return self._parse_bitwise()

    def _parse_function(
        self,
        functions: dict[str, Callable[..., Any]] | None = None,
        anonymous: bool = False,
        optional_parens: bool = True,
        any_token: bool = False,
    ) -> exp.Expr | None:
        if self._prev.token_type == TokenType.DOT:
            return None
        return super()._parse_function(functions, anonymous, optional_parens, any_token)

    def _parse_types(
        self,
        check_func: bool = False,
        schema: bool = False,
        allow_identifiers: bool = True,
        with_collation: bool = False,
    ) -> exp.Expr | None:
        token = self._curr
        return (
            self.expression(exp.DataType(this=exp.DType.UNKNOWN), token)
            if self._match(TokenType.TYPE)
            else None
        )

    # ---------------------------------------------------------------- FROM

    def _parse_join(
        self,
        skip_join_token: bool = False,
        parse_bracket: bool = False,
        alias_tokens: Collection[TokenType] | None = None,
    ) -> exp.Join | None:
        """One join. sqlglot looks for joins inside a join without ON, which takes time exponential in their number."""
        if self._is_joining:
            return None
        self._is_joining = True
        try:
            return super()._parse_join(skip_join_token, parse_bracket, alias_tokens)
        finally:
            self._is_joining = False


def parse(reading: TokenReading, kind: type[exp.Expr]) -> tuple[exp.Expr | None, int]:
    """sqlglot's tree of a text, read as a `kind` of expression; or nothing, and the token at which the parser stopped."""
    parser = SparkParser()
    try:
        trees = parser.parse_into(kind, reading.shape())
        return trees[0] if trees else None, 0
    except Stopped:
        return None, len(reading.tokens) if parser.stopped_at is None else parser.stopped_at
