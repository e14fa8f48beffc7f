"""Text functions, judged by Spark."""

from __future__ import annotations

import pyarrow as pa
import pytest

from eddyline.errors import EddylineError, TypeMismatchError
from eddyline.expressions import Evaluation, Frame, evaluate
from eddyline.types import BIGINT, BINARY, INT, STRING
from tests.expressions import edge_values as edge
from tests.expressions.judge import Cases, agree, each
from tests.scalars import scalar

TEXTS = [
    *[
        "",
        " ",
        "a",
        "A",
        "abc",
        "  abc  ",
        "\tabc\n",
        "hello wORLD-foo  bar",
        "xxabcxx",
        "a,b,,c,,",
        "www.apache.org",
    ],
    *[
        "Straße",
        "ŉ ﬁ ǰ",
        "İstanbul ıI",
        "ΟΔΥΣΣΕΥΣ ΣΑΣ",
        "ΑΣ1 Σ.",
        "ǆx Ǆ",
        "éclair",
        "e\u0301cole",
        "日本語",
        "😀",
        "a😀b",
    ],
    *["\u00a0nbsp\u3000", "a\x00b", "%_\\", "0", "1.50", "aaa", "abcabc", "100-200", "ab" * 40],
]
POSITIONS = [0, 1, -1, 2, -2, 3, -3, 7, -7, 100, -100, 2147483647, -2147483648]

TABLE = edge.columns(s=(STRING, TEXTS))
BYTES = edge.columns(b=(BINARY, edge.BINARIES))
CUTS = edge.columns(
    s=(STRING, [t for t in ("", "a", "abcdef", "a😀é日") for _ in range(len(POSITIONS) ** 2)]),
    p=(INT, [p for _ in range(4) for p in POSITIONS for _ in POSITIONS]),
    n=(INT, [n for _ in range(4) for _ in POSITIONS for n in POSITIONS]),
)
COUNTS = [-2147483648, -1, 0, 1, 2, 5, 9]
FILLS = edge.columns(
    s=(STRING, [t for t in ("", "abc", "a😀é") for _ in COUNTS for _ in range(4)]),
    n=(INT, [n for _ in range(3) for n in COUNTS for _ in range(4)]),
    f=(STRING, [f for _ in range(3) for _ in COUNTS for f in ("", "x", "xy", "😀é")]),
)
PAIRS = edge.pairs(
    s=(STRING, ["", " ", "a", "b", "ab", "aba", "xaby", "é", "aé😀", "😀", "aa", "baab", "A", ",", "."])
)

CASES = [
    Cases(
        TABLE,
        each("{f}(s)", f="length char_length character_length len octet_length bit_length"),
        each("{f}(s)", f="upper ucase lower lcase initcap trim ltrim rtrim btrim reverse"),
        ["btrim(s, 'xa ')", "ltrim('xa ', s)", "rtrim('xc😀', s)", "trim('', s)", "btrim(s, NULL)"],
        ["TRIM(s)", "TRIM(BOTH FROM s)", "TRIM(LEADING FROM s)"],
        each("substring(s, {p})", p="0 1 2 -1 -3 100 -100 NULL 2147483647"),
        each("substr(s, {p}, {n})", p="0 1 2 -1 -3 100 -100", n="-1 0 1 2 5 100 NULL 2147483647"),
        each("{f}(s, {n})", f="left right", n="-1 0 1 2 100 NULL 2147483647"),
        each("{f}(s, {n}, 'xy')", f="lpad rpad", n="-1 0 1 3 12"),
        ["lpad(s, 6)", "rpad(s, 6)", "lpad(s, 6, '')", "lpad(s, NULL, 'x')", "repeat(s, 2)", "repeat(s, -1)"],
        ["space(3) || s", "concat(s, 'x', s)", "concat(s)", "concat(s, NULL)", "s || 1", "concat(s, 1.5, true)"],
        ["concat_ws(',', s, NULL, 'x', s)", "concat_ws(s, 'a', 'b')", "concat_ws('', s)", "concat_ws(', ', s)"],
        ["concat_ws(',')", "concat_ws(NULL, s)", "concat_ws('-', split(s, ','), s)", "concat_ws('-', 1, s)"],
        ["concat_ws('-', array(1, NULL, 2), s)", "concat()", "concat('a', 'b')", "length(NULL)", "upper('ß')"],
        ["substring(s, 2L)", "left(s, 1L)", "ascii(s)", "contains(s, 1)", "upper(1)"],
        each("split_part(s, {d}, {n})", d="',' '.' ''", n="1 3 -1 -3 0 NULL"),
        each("substring_index(s, {d}, {n})", d="',' '.' 'aa' ''", n="1 2 -1 -2 0 100 -100"),
        each("{f}(s)", f="md5 sha sha1 crc32 hex unhex base64 unbase64"),
        each("sha2(s, {n})", n="0 224 256 384 512 1 NULL"),
    ),
    Cases(
        BYTES,
        each("{f}(b)", f="length octet_length bit_length"),
        each("substring(b, {p}, {n})", p="0 1 2 -1 -3", n="-1 0 1 2"),
        each("{f}(b)", f="md5 sha1 crc32 hex base64"),
        ["upper(b)", "sha2(b, 256)", "contains(b, b)", "startswith(b, X'61')", "endswith(b, X'FE')",
            "overlay(b, b, 2)"],
        ["substring(b, 2)", "left(b, 1)", "concat(b, b)", "concat(b, NULL)", "lpad(b, 4)", "rpad(b, 4, b)"],
    ),
    Cases(CUTS, "substring(s, p, n)", "substring(s, p)", "left(s, n)", "right(s, n)", "substring('abcdef', p, n)"),
    Cases(FILLS, each("{f}(s, n, f)", f="lpad rpad"), "repeat(s, n)", "space(n)", "lpad('ab', n)"),
    Cases(
        PAIRS,
        each("{f}(s1, s2)", f="concat btrim trim ltrim rtrim"),
        each("{f}(s1, s2)", f="contains startswith endswith instr locate find_in_set levenshtein replace"),
        each("{f}(s1, 'a')", f="contains startswith endswith instr find_in_set replace"),
        each("{f}('aba', s1)", f="contains startswith endswith instr locate find_in_set"),
        ["position(s1 IN s2)", "position(s1, s2)", "locate(s1, s2, 2)", "locate(s1, s2, 0)", "locate(s1, s2, NULL)"],
        ["levenshtein(s1, s2, 1)", "replace(s1, s2, 'xy')", "replace(s1, 'a', s2)", "replace(s1, '', 'x')"],
        each("split_part(s1, s2, {n})", n="1 2 -1 -2 9 -9 0"),
        each("substring_index(s1, s2, {n})", n="1 2 -1 -2 9 -9 0"),
        ["translate(s1, s2, 'x')", "translate(s1, 'ab', s2)", "translate(s1, 'aa', 'xy')", "translate(s1, s2, s1)"],
        each("overlay(s1, s2, {n})", n="1 2 0 -1 9 2147483647 -2147483648"),
        each("overlay(s1, s2, 2, {n})", n="0 1 -1 9 2147483647"),
        ["s1 LIKE s2", "s1 LIKE '%' || s2", "s1 LIKE s2 || '%'", "s1 LIKE '%' || s2 || '%'", "s1 LIKE '_' || s2"],
        ["s1 ILIKE s2", "s1 NOT LIKE s2", "s1 LIKE NULL", "contains(s1, NULL)", "startswith(NULL, s1)"],
        ["concat_ws(s1, s2, s1, s2)", "concat_ws(',', s1, s2)", "s1 || s2", "concat_ws('', s1, s2)"],
    ),
]  # fmt: skip

LIKE_TEXTS = edge.pairs(
    s=(STRING, ["", "a", "ab", "a%", "a_b", "a\\b", "a\nb", "a.b", "axb", "😀", "a😀b", "ABC", "İ", "ß",
        "e\u0301", "a|%"])
)  # fmt: skip
LIKE = [
    Cases(
        LIKE_TEXTS,
        each(
            "s1 {op} {p}",
            op=["LIKE", "ILIKE", "NOT LIKE"],
            p="'' '%' '%%' '_' '__' '_%' '%_' 'a%' '%b' 'a%b' '%a%' 'a_b' 'A_B' 'a.b' '%x%' 'a__' '😀' '%😀%' 'a[b' '[a-z]'",
        ),
        ["s1 LIKE s2", "s1 ILIKE s2", "s1 LIKE s2 || '%'", "'a%' LIKE s2", "'abc' LIKE 'a%'"],
        each(r"s1 LIKE '{p}'", p=[r"a\\%", r"a\\_b", r"a\\\\b", r"\\%", r"%\\%", r"a\\\\%", r"a\\b"]),
        each("s1 LIKE '{p}' ESCAPE '|'", p="a|% a||% |_ %|% a||%|%"),
        ["s1 LIKE 'a%%' ESCAPE '%'", "s1 LIKE 'a__b' ESCAPE '_'", "s1 LIKE s2 ESCAPE 'a'", "s1 LIKE s2 ESCAPE '|'"],
        ["s1 LIKE 'a' ESCAPE ''", "s1 LIKE 'a' ESCAPE 'ab'", "s1 ILIKE 'AX%' ESCAPE 'X'", "1 LIKE '1'"],
    ),
]  # fmt: skip

CODES = edge.columns(
    n=(INT, [0, 65, 255, 256, 321, -1, 2147483647, -2147483648]),
    l=(BIGINT, [0, -1, 255, 2**63 - 1, -(2**63)]),
)
BASE64 = edge.texts(
    [
        *["", "U3Bhcms=", "U3Bhcms", "U3Bh\ncms=", "!!!", "a", "ab", "ab=", "ab==", "abc", "abc=", "abcd",
            "abcd=", "="],
        *["a=b=", "ab==cd", "ab=c", "abc==", "YWJj ZGVm", "é", "0aF", "g0"],
    ]
)  # fmt: skip
LONG = edge.texts(["abc"])
CHARACTERS = [
    Cases(CODES, each("{f}({a})", f="chr char hex", a="n l"), "chr(65)", "hex(n % 128)"),
    Cases(BASE64, "unbase64(a)", "unhex(a)", "base64(unbase64(base64(a)))"),
    Cases(LONG, "length(repeat(a, 300000))", "length(repeat(a, 400000))", "length(lpad(a, 1000000, 'x'))"),
]

TRIM_FROM = [
    Cases(TABLE, "TRIM(BOTH 'xa' FROM s)", "TRIM(LEADING 'xa' FROM s)", "TRIM(TRAILING 'xc' FROM s)"),
]


def test_text_functions_are_spark_s(spark):
    agree(spark, CASES)


def test_trimming_characters_from_text_is_spark_s(spark):
    agree(spark, TRIM_FROM)


def test_like_is_spark_s(spark):
    agree(spark, LIKE)


def test_character_codes_and_base_64_are_spark_s(spark):
    agree(spark, CHARACTERS)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            r"s LIKE 'a\\b'",
            "the escape character in 'a\\\\b' may stand before _, % and itself, not before 'b'",
        ),
        (r"s LIKE 'a\\'", "the pattern 'a\\\\' ends in its escape character"),
        ("s LIKE 'a%' ESCAPE '%'", "the pattern 'a%' ends in its escape character"),
        ("s LIKE 'a' ESCAPE 'ab'", "the escape of LIKE is one character"),
        ("upper(1)", "expected STRING, found INT"),
        ("substring(s, '2')", "expected a whole number, found STRING"),
    ],
)
def test_a_refusal_says_what_does_not_fit(text, problem):
    with pytest.raises(EddylineError) as refused:
        scalar(text, TABLE.schema)
    assert refused.value.problem == problem


def test_a_number_for_a_text_comes_with_the_cast_to_write():
    with pytest.raises(TypeMismatchError) as refused:
        scalar("upper(1)", TABLE.schema)
    assert refused.value.hint == "Convert it first: CAST(… AS STRING)."


def test_a_bad_pattern_fails_its_own_rows_only():
    values = pa.table({"s": ["a%", "ab", None, "x"], "p": ["a|%", "a|", "a|", "%"]})
    result, frame = _evaluated("s LIKE p ESCAPE '|'", values)
    assert result.values.to_pylist() == [True, None, None, True]
    assert result.errors.tolist()[0] == result.errors.tolist()[2] == result.errors.tolist()[3] == 0
    assert frame.failure(result.errors[1]).error == "INVALID_FORMAT.ESC_AT_THE_END"


def test_text_made_without_end_is_an_error_of_its_row():
    result, frame = _evaluated("repeat(s, n)", pa.table({"s": ["ab", "ab"], "n": [2, 2_000_000_000]}))
    assert result.values.to_pylist() == ["abab", None]
    assert frame.failure(result.errors[1]).error == "COLLECTION_SIZE_LIMIT_EXCEEDED.FUNCTION"


def _evaluated(text: str, table: pa.Table) -> tuple[Evaluation, Frame]:
    columns = {("", name): table[name].combine_chunks() for name in table.column_names}
    frame = Frame(len(table), columns)
    return evaluate(scalar(text, table.schema), frame), frame
