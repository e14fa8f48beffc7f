"""Regular expressions as Java means them, written for RE2, which matches in time linear in the text.

A pattern is read by Java's grammar into a tree; what RE2 cannot do, or what the two would not agree on, is refused with the
reason. The tree is then written out so that RE2 means the same:

    Java                             for RE2
    .                                any character but \\n \\r \\x85 \\u2028 \\u2029 (RE2 alone: but \\n)
    $ and \\Z                         \\z, with a last line terminator before it; only at the end of a pattern
    \\s \\h \\v \\p{Alpha} …             the characters spelt out (\\s of RE2 has no vertical tab)
    (?i)                             both cases of ASCII letters spelt out (RE2 would fold all of Unicode)
    \\uhhhh \\0oo \\cX \\Q…\\E             the characters

Refused: look-around, back-references, possessive and atomic groups (RE2 has none); (?m) (?x) (?u) (?d), classes in classes,
&& and properties beyond general categories (not the same, or too rare to be worth it).

Known difference: \\b takes letters of ASCII only, as Java does since 19; Java 17 takes all of Unicode's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from eddyline.nesting import deep, deep_recursion

Range = tuple[int, int]

_LAST = 0x10FFFF
_DIGIT: list[Range] = [(0x30, 0x39)]
_UPPER: list[Range] = [(0x41, 0x5A)]
_LOWER: list[Range] = [(0x61, 0x7A)]
_WORD = [*_DIGIT, *_UPPER, (0x5F, 0x5F), *_LOWER]
_SPACE: list[Range] = [(0x09, 0x0D), (0x20, 0x20)]
_LINE_ENDS: list[Range] = [(0x0A, 0x0A), (0x0D, 0x0D), (0x85, 0x85), (0x2028, 0x2029)]
_VERTICAL: list[Range] = [(0x0A, 0x0D), (0x85, 0x85), (0x2028, 0x2029)]
_HORIZONTAL: list[Range] = [
    *[(0x09, 0x09), (0x20, 0x20), (0xA0, 0xA0), (0x1680, 0x1680), (0x180E, 0x180E), (0x2000, 0x200A)],
    *[(0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000)],
]
_PUNCTUATION: list[Range] = [(0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E)]

_CLASSES = {"d": _DIGIT, "w": _WORD, "s": _SPACE, "h": _HORIZONTAL, "v": _VERTICAL}
_POSIX: dict[str, list[Range]] = {
    "Lower": _LOWER,
    "Upper": _UPPER,
    "ASCII": [(0, 0x7F)],
    "Alpha": [*_UPPER, *_LOWER],
    "Digit": _DIGIT,
    "Alnum": [*_DIGIT, *_UPPER, *_LOWER],
    "Punct": _PUNCTUATION,
    "Graph": [(0x21, 0x7E)],
    "Print": [(0x20, 0x7E)],
    "Blank": [(0x09, 0x09), (0x20, 0x20)],
    "Cntrl": [(0, 0x1F), (0x7F, 0x7F)],
    "XDigit": [*_DIGIT, (0x41, 0x46), (0x61, 0x66)],
    "Space": _SPACE,
}
_CATEGORY = re.compile(r"L[ultmo]?|M[nce]?|N[dlo]?|P[cdseifo]?|S[mcko]?|Z[slp]?|C[cfo]")
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_MAX_REPEAT = 1000  # RE2's limit
_MAX_DIGITS = 9  # of a number of repetitions
_MAX_DEPTH = 100  # of groups in groups
_GROUP_NAME = re.compile(r"<[A-Za-z][A-Za-z0-9]*>")
_ENDS = ("end", "last line end")


class RefusedPattern(Exception):
    """The pattern is not Java's, or cannot be matched the way Java would. `at` is where in the pattern."""

    def __init__(self, reason: str, at: int, hint: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.at = at
        self.hint = hint


# ------------------------------------------------------------------------------------------ the tree


@dataclass(frozen=True, slots=True)
class RegexNode:
    """A part of a pattern."""


@dataclass(frozen=True, slots=True)
class Characters(RegexNode):
    """One character out of ranges and general categories (name, whether all others are meant)."""

    ranges: tuple[Range, ...]
    categories: tuple[tuple[str, bool], ...] = ()
    is_negated: bool = False


@dataclass(frozen=True, slots=True)
class Anchor(RegexNode):
    """A place: one of `start`, `end`, `last line end`, `word`, `not word`."""

    kind: str


@dataclass(frozen=True, slots=True)
class Sequential(RegexNode):
    parts: tuple[RegexNode, ...]


@dataclass(frozen=True, slots=True)
class RegexChoice(RegexNode):
    options: tuple[RegexNode, ...]


@dataclass(frozen=True, slots=True)
class Repeat(RegexNode):
    body: RegexNode
    low: int
    high: int | None
    is_lazy: bool


@dataclass(frozen=True, slots=True)
class RegexGroup(RegexNode):
    body: RegexNode
    number: int  # 0: does not capture


@deep
def least_width(node: RegexNode) -> int:
    """The length of the shortest text the node can match."""
    if isinstance(node, Characters):
        return 1
    if isinstance(node, Sequential):
        return sum(map(least_width, node.parts))
    if isinstance(node, RegexChoice):
        return min(map(least_width, node.options))
    if isinstance(node, Repeat):
        return node.low * least_width(node.body)
    return least_width(node.body) if isinstance(node, RegexGroup) else 0


@deep
def below(node: RegexNode) -> list[RegexNode]:
    """The node and all nodes in it."""
    children: Sequence[RegexNode] = ()
    if isinstance(node, Sequential):
        children = node.parts
    elif isinstance(node, RegexChoice):
        children = node.options
    elif isinstance(node, (Repeat, RegexGroup)):
        children = [node.body]
    return [node, *(n for child in children for n in below(child))]


def may_loop_on_nothing(node: RegexNode) -> bool:
    """Whether a repeated part can match an empty text: then what each round captures is not agreed between engines."""
    return any(isinstance(n, Repeat) and n.high != 1 and least_width(n.body) == 0 for n in below(node))


def groups_in_lazy_loops(node: RegexNode) -> set[int]:
    """Groups of which Java may report what they matched in an attempt it gave up."""
    loops = [n for n in below(node) if isinstance(n, Repeat) and n.is_lazy]
    return {n.number for loop in loops for n in below(loop) if isinstance(n, RegexGroup)} - {0}


@deep
def line_ends(node: RegexNode, *, is_last: bool = True) -> tuple[int, int]:
    """How many `$` there are at the end of the pattern, and how many elsewhere."""
    if isinstance(node, Anchor):
        return (int(is_last), int(not is_last)) if node.kind == "last line end" else (0, 0)
    parts: Sequence[tuple[RegexNode, bool]] = ()
    if isinstance(node, Sequential):
        last = len(node.parts) - 1
        while last > 0 and isinstance(node.parts[last], Anchor) and node.parts[last].kind in _ENDS:  # type: ignore[attr-defined]
            last -= 1
        parts = [(p, is_last and k >= last) for k, p in enumerate(node.parts)]
    elif isinstance(node, RegexChoice):
        parts = [(p, is_last) for p in node.options]
    elif isinstance(node, RegexGroup):
        parts = [(node.body, is_last)]
    elif isinstance(node, Repeat):
        parts = [(node.body, False)]
    counts = [line_ends(p, is_last=last) for p, last in parts]
    return sum(c[0] for c in counts), sum(c[1] for c in counts)


# ------------------------------------------------------------------------------------------ reading


@dataclass(slots=True)
class JavaPattern:
    """A pattern of java.util.regex, read."""

    text: str
    at: int = 0
    n_groups: int = 0
    depth: int = 0  # of the group it is in
    ignores_case: bool = False
    dot_matches_all: bool = False
    root: RegexNode = field(init=False)

    def __post_init__(self) -> None:
        with deep_recursion():
            self.root = self._choice()
        if self.at < len(self.text):
            raise self._refusal("a ) without a (")

    def _refusal(self, reason: str, at: int | None = None, hint: str | None = None) -> RefusedPattern:
        return RefusedPattern(reason, self.at if at is None else at, hint)

    def _peek(self, n: int = 1) -> str:
        return self.text[self.at : self.at + n]

    def _take(self, words: str) -> bool:
        if self.text.startswith(words, self.at):
            self.at += len(words)
            return True
        return False

    def _choice(self) -> RegexNode:
        options = [self._sequence()]
        while self._take("|"):
            options.append(self._sequence())
        return options[0] if len(options) == 1 else RegexChoice(tuple(options))

    def _sequence(self) -> RegexNode:
        parts: list[RegexNode] = []
        while self._peek() and self._peek() not in "|)":
            if self._take("\\Q"):
                end = self.text.find("\\E", self.at)
                quoted = self.text[self.at :] if end < 0 else self.text[self.at : end]
                self.at = min(self.at + len(quoted) + 2, len(self.text))
                parts += [self._one(ord(c)) for c in quoted]
                if quoted and self._peek() in ("*", "+", "?", "{"):
                    parts.append(self._repetition(parts.pop()))
                continue
            atom = self._atom()
            if atom is not None:
                parts.append(self._repetition(atom))
        return parts[0] if len(parts) == 1 else Sequential(tuple(parts))

    def _atom(self) -> RegexNode | None:
        """One element; None for flags, which stand for nothing themselves."""
        c = self._peek()
        if c in ("*", "+", "?"):
            raise self._refusal(f"nothing to repeat before {c}")
        if c == "{":
            raise self._refusal("{ begins a repetition", hint="Write \\\\{ for the character itself.")
        if c == "(":
            return self._group()
        if c == "[":
            return self._class()
        if c == "\\":
            return self._escape()
        self.at += 1
        if c == ".":
            return (
                Characters((), is_negated=True)
                if self.dot_matches_all
                else Characters(tuple(_LINE_ENDS), is_negated=True)
            )
        if c == "^":
            return Anchor("start")
        if c == "$":
            return Anchor("last line end")
        return self._one(ord(c))

    def _one(self, code: int) -> Characters:
        return Characters(tuple(self._both_cases([(code, code)])))

    def _both_cases(self, ranges: list[Range]) -> list[Range]:
        """With the other case of every ASCII letter, where case is ignored."""
        if not self.ignores_case:
            return ranges
        more: list[Range] = []
        for low, high in ranges:
            for (first, last), shift in ((_UPPER[0], 32), (_LOWER[0], -32)):
                start, stop = max(low, first), min(high, last)
                if start <= stop:
                    more.append((start + shift, stop + shift))
        return ranges + more

    def _repetition(self, atom: RegexNode) -> RegexNode:
        start = self.at
        match = re.compile(r"([*+?])|\{(\d+)(?:(,)(\d*))?\}", re.ASCII).match(self.text, self.at)
        if match is None:
            return atom
        self.at = match.end()
        sign, low_text, comma, high_text = match.groups()
        if max(len(low_text or ""), len(high_text or "")) > _MAX_DIGITS:
            raise self._refusal(f"a repetition of more than {_MAX_REPEAT} times", start)
        if sign is not None:
            low, high = {"*": (0, None), "+": (1, None), "?": (0, 1)}[sign]
        else:
            low = int(low_text)
            high = low if comma is None else int(high_text) if high_text else None
        if high is not None and high < low:
            raise self._refusal("a repetition that ends before it begins", start)
        if max(low, high or 0) > _MAX_REPEAT:
            raise self._refusal(f"a repetition of more than {_MAX_REPEAT} times", start)
        if self._take("+"):
            raise self._refusal("a possessive quantifier", start, "Leave out the second +.")
        is_lazy = self._take("?")
        if self._peek() in ("*", "+", "?", "{"):
            raise self._refusal("a repetition of a repetition", self.at, "Put the first one in (?: ).")
        return Repeat(atom, low, high, is_lazy)

    def _group(self) -> RegexNode | None:
        start = self.at
        self.at += 1
        number = 0
        flags = (self.ignores_case, self.dot_matches_all)
        if not self._take("?"):
            number = self.n_groups = self.n_groups + 1
        elif self._take(":"):
            pass
        elif _GROUP_NAME.match(self.text, self.at):
            self.at = self.text.index(">", self.at) + 1
            number = self.n_groups = self.n_groups + 1
        elif self._peek() in ("=", "!") or self._peek(2) in ("<=", "<!"):
            raise self._refusal("look-ahead and look-behind", start)
        elif self._peek() == ">":
            raise self._refusal("an atomic group", start, "Write (?: ) instead.")
        elif self._flags(start):  # (?i) holds up to the end of the group it is in
            return None
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise self._refusal(f"groups nested deeper than {_MAX_DEPTH} levels", start)
        body = self._choice()
        self.depth -= 1
        if not self._take(")"):
            raise self._refusal("a ( without a )", start)
        self.ignores_case, self.dot_matches_all = flags
        return RegexGroup(body, number)

    def _flags(self, start: int) -> bool:
        """Read flags; whether they end with ) rather than with the : of a group."""
        match = re.compile(r"([a-zA-Z]*)(?:-([a-zA-Z]+))?([:)])").match(self.text, self.at)
        if match is None:
            raise self._refusal("a group of this kind", start)
        self.at = match.end()
        on, off, end = match.groups()
        unknown = sorted(set(on + (off or "")) - {"i", "s"})
        if unknown:
            raise self._refusal(f"the flag {unknown[0]}", start, "Of the flags, i and s can be used.")
        for flags, value in ((on, True), (off or "", False)):
            self.ignores_case = value if "i" in flags else self.ignores_case
            self.dot_matches_all = value if "s" in flags else self.dot_matches_all
        return bool(end == ")")

    # -------------------------------------------------------------------- escapes and classes

    def _escape(self) -> RegexNode:
        c = self.text[self.at + 1 : self.at + 2]
        anchors = {"b": "word", "B": "not word", "A": "start", "z": "end", "Z": "last line end"}
        if c in anchors and self.text[self.at + 2 : self.at + 3] != "{":
            self.at += 2
            return Anchor(anchors[c])
        return self._characters()

    def _characters(self) -> Characters:
        """What an escape stands for, in a class or outside."""
        start = self.at
        self.at += 1
        c = self._peek()
        self.at += 1
        if not c:
            raise self._refusal("a \\ at the end", start)
        if c.lower() in _CLASSES:
            return Characters(tuple(_CLASSES[c.lower()]), is_negated=c.isupper())
        if c in "pP":
            return self._property(start, is_negated=c == "P")
        if c in _CONTROL:
            return self._one(ord(_CONTROL[c]))
        code = self._code(c)
        if code is not None:
            return self._one(code)
        if c.isascii() and c.isdigit():
            raise self._refusal("a back-reference", start)
        if c.isascii() and c.isalpha():
            raise self._refusal("a back-reference" if c == "k" else f"\\{c}", start)
        return self._one(ord(c))

    def _code(self, c: str) -> int | None:
        """The character an escape gives by number: \\x41 \\x{1F600} \\u0041 \\0101 \\cA; None if it is none of these."""
        spelt = {
            "x": r"\{([0-9A-Fa-f]{1,6})\}|([0-9A-Fa-f]{2})",
            "u": r"([0-9A-Fa-f]{4})",
            "0": r"([0-3][0-7]{0,2}|[4-7][0-7]?)",
            "c": r"([\x00-\x7f])",
        }
        if c not in spelt:
            return None
        start = self.at - 2
        match = re.compile(spelt[c], re.DOTALL).match(self.text, self.at)
        if match is None:
            raise self._refusal(f"\\{c} without a number", start)
        self.at = match.end()
        digits = next(g for g in match.groups() if g is not None)
        code = ord(digits) ^ 64 if c == "c" else int(digits, 8 if c == "0" else 16)
        if 0xD800 <= code <= 0xDFFF or code > _LAST:
            raise self._refusal("a number that is no character", start, "Write it as \\\\x{1F600}.")
        return code

    def _property(self, start: int, *, is_negated: bool) -> Characters:
        match = re.compile(r"\{(\w+)\}|(\w)", re.ASCII).match(self.text, self.at)
        if match is None:
            raise self._refusal("\\p without a name", start)
        self.at = match.end()
        name = match.group(1) or match.group(2)
        if name in _POSIX:
            return Characters(tuple(self._both_cases(_POSIX[name])), is_negated=is_negated)
        if not _CATEGORY.fullmatch(name) or (self.ignores_case and name in ("Lu", "Ll", "Lt")):
            raise self._refusal(
                f"the property {name}", start, "Use a category such as \\\\p{L}, or one like \\\\p{Alpha}."
            )
        return Characters((), ((name, is_negated),))

    def _class(self) -> Characters:
        start = self.at
        self.at += 1
        is_negated = self._take("^")
        ranges: list[Range] = []
        categories: list[tuple[str, bool]] = []
        first = self.at
        while True:
            c = self._peek()
            if not c:
                raise self._refusal("a [ without a ]", start)
            if c == "]" and self.at > first:
                break
            item = self._class_item()
            if self._peek() == "-" and self._peek(2) != "-]":
                item = self._class_range(item)
            categories += item.categories
            ranges += complement(item.ranges) if item.is_negated else item.ranges
        self.at += 1
        return Characters(tuple(ranges), tuple(categories), is_negated)

    def _class_item(self) -> Characters:
        c = self._peek()
        if c in ("[", "]") or self._peek(2) == "&&":
            raise self._refusal(
                f"{'&&' if c == '&' else c} in a class", hint="Write \\\\ before the character itself."
            )
        if c == "\\":
            if self._peek(2) == "\\Q":
                raise self._refusal("\\Q in a class")
            return self._characters()
        self.at += 1
        if c == "-" and self._peek() != "]" and self.text[self.at - 2] not in "[^":
            raise self._refusal(
                "a - in the middle of a class", self.at - 1, "Write \\\\- for the character itself."
            )
        return self._one(ord(c))

    def _class_range(self, low: Characters) -> Characters:
        start = self.at
        self.at += 1
        high = self._class_item()
        ends = [item.ranges[0] for item in (low, high) if item.ranges and not item.is_negated]
        if len(ends) != 2 or any(a != b for a, b in ends):
            raise self._refusal("a range of classes", start)
        if ends[0][0] > ends[1][0]:
            raise self._refusal("a range that ends before it begins", start)
        return Characters(tuple(self._both_cases([(ends[0][0], ends[1][0])])))


def complement(ranges: Sequence[Range]) -> list[Range]:
    """All characters outside the ranges."""
    outside, at = [], 0
    for low, high in sorted(ranges):
        if low > at:
            outside.append((at, low - 1))
        at = max(at, high + 1)
    return [*outside, (at, _LAST)] if at <= _LAST else outside


# ------------------------------------------------------------------------------------------ writing

_RE2_ANCHORS = {"start": r"\A", "end": r"\z", "word": r"\b", "not word": r"\B"}
# $ before the last line terminator; \r\n is one, so there is no $ between its two characters
_RE2_LINE_END = r"[\n\r\x{85}\x{2028}\x{2029}]?\z"
_RE2_CRLF_END = r"(?:\r\n)?\z"


@deep
def re2(node: RegexNode, captured: Sequence[int] = (), *, ends_in_crlf: bool = False) -> str:
    """The node for RE2, over texts that all, or that do not, end in \\r\\n. Groups in `captured` are named g1, g2 …"""
    inner = partial(re2, captured=captured, ends_in_crlf=ends_in_crlf)
    if isinstance(node, Characters):
        return _re2_class(node)
    if isinstance(node, Anchor):
        last = _RE2_CRLF_END if ends_in_crlf else _RE2_LINE_END
        return last if node.kind == "last line end" else _RE2_ANCHORS[node.kind]
    if isinstance(node, Sequential):
        return "".join(map(inner, node.parts))
    if isinstance(node, RegexChoice):
        return "(?:" + "|".join(map(inner, node.options)) + ")"
    if isinstance(node, RegexGroup):
        opening = f"(?P<g{node.number}>" if node.number in captured else "(?:"
        return opening + inner(node.body) + ")"
    assert isinstance(node, Repeat), f"{node} cannot be written"
    high = "" if node.high is None else node.high
    times = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((node.low, node.high), f"{{{node.low},{high}}}")
    return f"(?:{inner(node.body)}){times}" + ("?" if node.is_lazy else "")


def _re2_class(node: Characters) -> str:
    if not node.ranges and not node.categories:
        return "(?s:.)"
    spelt = [
        f"\\x{{{low:x}}}" if low == high else f"\\x{{{low:x}}}-\\x{{{high:x}}}" for low, high in node.ranges
    ]
    spelt += [f"\\{'P' if is_other else 'p'}{{{name}}}" for name, is_other in node.categories]
    return f"[{'^' if node.is_negated else ''}{''.join(spelt)}]"
