"""Regular expressions, judged by Spark: Java's meaning, in linear time."""

from __future__ import annotations

import pytest

from eddyline.errors import UnsupportedError
from eddyline.types import STRING
from tests.expressions import edge_values as edge
from tests.expressions.judge import Cases, agree
from tests.scalars import scalar

TABLE = edge.columns(
    s=(
        STRING,
        [
            *["", "a", "A", "abc", "ABC", "aBc", "100-200", "a1b22c333", "a,b,,c,,", " a  b\tc ", "a\nb", "a\n",
                "a\r\n", "a\r"],
            *["\n", "\r\n", "a\u2028b", "a\u0085", "a\x0bb", "foo.bar", "foo_bar", "foo-bar@x.org", "{}", "[x]",
                "^$", "\\d"],
            *["é", "É", "ß", "ſ", "K", "k", "ı", "İ", "日本", "😀", "a😀b", "e\u0301", "\u00a0", "\u3000", "aaa",
                "aab", "ab" * 5],
            *["$1", "a$b", "()", "x" * 30, "\x00", "\x1b", "/a/b/c.txt", "key=value;k2=v2", "ERROR: disk full",
                "error"],
        ],
    )
)  # fmt: skip

# Patterns on which RE2, left alone, would differ from Java somewhere are among these.
SEARCHES = [
    *["", "a", "b|c", "^a", "a$", "^$", "^a$", "a|", "(a|b)+c", "a.b", ".", "^.$", "^..$", ".*", "a{2}",
        "a{2,}", "a{1,2}b"],
    *[r"\d", r"^\d+$", r"\D", r"\w", r"^\w+$", r"\W", r"\s", r"^\s", r"\S\s\S", r"\h", r"\v", r"\H", r"[\v]",
        r"\V\V"],
    *["[abc]", "[^abc]", "[a-c]+", "[^a-zA-Z0-9]", "[-a]", "[a-]", r"[\d-]", r"[\w.]+@[\w.]+", r"[^\W\d]",
        r"[^\s]", r"[\S\n]"],
    *["(?i)abc", "(?i)k", "(?i)s", "(?i)é", "(?i)[a-c]+", "(?i)[^a]", "a(?i)b", "(?i:a)b", "a(?i)b|C", "(?i)i",
        "(?-i)a"],
    *["(?s)a.b", "(?s).", "(?s:a.)b", "(?is)A.B", "((?i)a)B", r"\p{L}", r"\p{Lu}", r"\pL", r"\P{L}",
        r"[\p{L}\d]+", r"\p{N}"],
    *[r"\p{Alpha}", r"\p{Lower}", r"(?i)\p{Lower}", r"\p{Punct}", r"\P{ASCII}", r"\p{Space}", r"\p{Cntrl}",
        r"\p{XDigit}+"],
    *[r"\.", r"\-", r"\$", r"\Q.\E", r"\Qa.b", r"\Qa\E+b", r"\x41", r"\x{1F600}", r"\u0061", r"\0101", r"\cA",
        r"\t", r"\n", r"\e"],
    *[r"\Aa", r"a\z", r"a\Z", r"(a$|b$)", r"^(?:a|b)$", r"^\s*$", r"foo$", r"\bfoo\b", r"\Ba", "(?<n>a)b",
        "(?:a)", "a??b", "a*?b"],
    *["}", "]", "a}", "é", "日", "😀", "[😀é]", "^.{3}$", "(a|ab)(c|bcd)*", "ERROR|error", "^[A-Z]+:", r"\\",
        r"\\d", "[$]1", "[.]"],
]  # fmt: skip

# Java refuses these itself, but only when it meets a row.
NOT_JAVA = [
    "(",
    ")",
    "[",
    "a**",
    "*a",
    "+",
    "{",
    "a{",
    "a{2,1}",
    "{2}",
    r"\y",
    r"\xZ",
    "(?z)a",
    "[b-a]",
    "a{,2}",
    "\\",
]
# Java takes these; in linear time they cannot be matched, or would not mean the same.
NOT_LINEAR = [
    *["(?=a)", "a(?!b)", "(?<=a)b", "(?<!a)b", r"(a)\1", r"(?<n>a)\k<n>", "a++", "a*+", "a?+", "a{2}+", "(?>a)",
        r"\Ga"],
    *["(?m)^a", "(?x)a b", "(?u)a", "(?d).", "[[:alpha:]]", "[a[b]]", "[a&&b]", r"\p{IsGreek}",
        r"\p{javaLowerCase}", r"\R", r"\X"],
    *["a$b", "($)a", "(a$)+", "a{1001}", "[a-c-e]", "[]a]", r"[\w-z]", r"(?i)\p{Lu}", r"\ud83d\ude00"],
]  # fmt: skip

GROUPS = [
    *[(r"(\d+)-(\d+)", 1), (r"(\d+)-(\d+)", 2), (r"(\d+)-(\d+)", 0), ("(x)?a", 1), ("a|(b)", 1), ("(a)(b)?", 2),
        ("z", 0)],
    *[("([^/]+)$", 1), ("[^/]+$", 0), ("^(.*)$", 1), ("^(.*)$", 0), ("(a+?)", 1), ("(?i)(B)", 1), ("((a)(b))",
        3), ("(?:a)(b)", 1)],
    *[("(?<key>[a-z]+)=(?<value>[a-z]+)", 2), ("(a|ab)(c|bcd)?", 0), (r"(\s+)", 1), (".", 0), ("", 0), ("a*",
        0), (r"(\w+)\W*\Z", 1)],
]  # fmt: skip
REPLACEMENTS = [
    *[("a", "x"), (r"\d+", "#"), (r"([a-z])(\d)", "$2$1"), ("b", "$0$0"), ("b", r"\$"), ("b", r"\\"), ("(b)",
        "$12"), ("^a", "")],
    *[(r"\s+", " "), (r"\s+\z", ""), ("[^a-z]", ""), ("(?i)[aeiou]", "*"), (r"\.", ""), ("a|b", "<$0>"),
        ("(a)|(b)", "[$1|$2]")],
    *[(r"\bb", "X"), ("😀", "smile"), (r"(.)\z", "$1$1"), ("aa?", "x"), (r"\x00", "0"), ("a", "b\nc"), ("a",
        "é"), (r"\\d", "x")],
]  # fmt: skip
SPLITS = [
    *[
        ",",
        "",
        ";|=",
        r"\s+",
        "[0-9]+",
        "a",
        "(?i)B",
        r"\.",
        "^a",
        r"\bb",
        "😀",
        ",+",
        "x",
        r"[/.]",
        "b\\z",
        "\n",
    ]
]


def quoted(text: str) -> str:
    """The text as a literal of SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"


BOUNDARIES = edge.columns(s=(STRING, ["été", "café au lait", "cafe"]))
SEARCHING = [
    Cases(BOUNDARIES, [r"s RLIKE '\\bau\\b'", r"s RLIKE '\\bété'", r"s RLIKE 'caf\\b'"]),
    Cases(
        TABLE,
        [f"s RLIKE {quoted(p)}" for p in SEARCHES],
        [
            "s RLIKE 'a(?=b)'",
            "s RLIKE '('",
            "s RLIKE NULL",
            "NOT s RLIKE 'a'",
            "regexp_like(s, 'a')",
            "s REGEXP 'a'",
            "'abc' RLIKE 'b'",
        ],
    ),
]
EXTRACTING = [
    Cases(
        TABLE,
        [f"regexp_extract(s, {quoted(p)}, {n})" for p, n in GROUPS],
        [r"regexp_extract(s, '(\\d+)')", "regexp_extract(s, NULL, 0)", "regexp_extract('abc', '(b)', 1)"],
    )
]
REPLACING = [
    Cases(
        TABLE,
        [f"regexp_replace(s, {quoted(p)}, {quoted(r)})" for p, r in REPLACEMENTS],
        ["regexp_replace(s, NULL, 'a')", "regexp_replace(s, 'a', NULL)", "regexp_replace('abc', 'b', 'x')"],
    )
]
SPLITTING = [
    Cases(
        TABLE,
        [f"split(s, {quoted(p)})" for p in SPLITS],
        [f"split(s, {quoted(p)}, {n})" for p in SPLITS for n in (-1, 0, 1, 2, 3, 100)],
        [f"regexp_count(s, {quoted(p)})" for p in SPLITS if p],
        ["split(NULL, ',')", "split(s, NULL)", "regexp_count(s, NULL)", "split('a,b', ',')"],
    )
]


def test_searching_is_java_s(spark):
    agree(spark, SEARCHING)


def test_extracting_groups_is_java_s(spark):
    agree(spark, EXTRACTING)


def test_replacing_is_java_s(spark):
    agree(spark, REPLACING)


def test_splitting_and_counting_are_java_s(spark):
    agree(spark, SPLITTING)


@pytest.mark.parametrize("pattern", NOT_JAVA + NOT_LINEAR)
def test_a_pattern_that_java_or_linear_time_cannot_match_is_refused(pattern):
    with pytest.raises(UnsupportedError, match="cannot be used"):
        scalar(f"s RLIKE {quoted(pattern)}", TABLE.schema)


@pytest.mark.parametrize("pattern", ["a*", "a|", "^", "a$", r"a\Z", "(a*)+b", "(?:a?)*b"])
def test_finding_all_matches_refuses_patterns_whose_matches_engines_count_differently(pattern):
    for text in (f"split(s, {quoted(pattern)})", f"regexp_count(s, {quoted(pattern)})"):
        with pytest.raises(UnsupportedError, match="cannot be used"):
            scalar(text, TABLE.schema)


def test_a_pattern_nested_without_end_is_refused():
    with pytest.raises(UnsupportedError, match="groups nested deeper than 100 levels"):
        scalar(f"s RLIKE '{'(' * 5000}{')' * 5000}'", TABLE.schema)


def test_a_refusal_says_what_and_where():
    with pytest.raises(UnsupportedError) as refused:
        scalar(r"s RLIKE 'ab(?=c)'", TABLE.schema)
    assert (
        refused.value.problem == "the regular expression 'ab(?=c)' cannot be used: look-ahead and look-behind"
    )
    assert refused.value.detail == "At character 3. Patterns are Java's, matched in linear time."


def test_a_group_that_does_not_exist_is_refused():
    with pytest.raises(UnsupportedError, match="has no group 2"):
        scalar("regexp_extract(s, '(a)', 2)", TABLE.schema)


def test_a_group_in_a_lazy_repetition_is_refused():
    with pytest.raises(UnsupportedError, match="group 1 is in a lazy repetition"):
        scalar("regexp_extract(s, '(?:(a))*?b', 1)", TABLE.schema)


@pytest.mark.parametrize("replacement", ["$1", "$", "a\\"])
def test_a_replacement_that_java_would_fail_on_is_refused(replacement):
    with pytest.raises(UnsupportedError, match="the replacement"):
        scalar(f"regexp_replace(s, 'a', {quoted(replacement)})", TABLE.schema)
