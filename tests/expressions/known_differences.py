"""Where eddyline knowingly does not do what Spark does: patterns of judged expressions, and why.

The judge asserts that each of them still differs; docs/sql.md prints the reasons.
"""

from __future__ import annotations

KNOWN: list[tuple[str, str]] = [
    (
        r"-[wxz]1|abs\([wx]\)",
        "-x and abs(x) of a DECIMAL with more than 34 digits: Spark rounds to 34 digits, or fails; eddyline is exact.",
    ),
    (
        r"date \+ INTERVAL 24 HOURS",
        "DATE + INTERVAL 24 HOURS is a DATE, as with INTERVAL 1 DAY; in Spark a TIMESTAMP, because it was written in hours.",
    ),
    (
        r"ts \+ INTERVAL 8000 YEARS",
        "After the year 9999 zones keep their standard time; Java changes their clocks for ever.",
    ),
    (
        r"CAST\(CAST\(x AS STRING\) AS BINARY\)",
        "BINARY that is not UTF-8, cast to STRING: what cannot be read becomes U+FFFD; Spark keeps the bytes.",
    ),
    (
        r"1 / zero > 1 (OR|AND) b1",
        "False decides AND and true decides OR, also beside an error; Spark stops at an error that comes first.",
    ),
    (
        r"CAST\(many AS STRING\)",
        "CAST of ARRAY, MAP and STRUCT to STRING is refused.",
    ),
    (
        r"one = 'a'|sqrt\('4'\)|coalesce\(a1, 1\)",
        "Text is never taken for a number by itself: refused when the query is registered, where Spark casts it row by row.",
    ),
    (
        r"contains\(s, 1\)|upper\((1|b)\)|1 LIKE '1'",
        "Functions of text take text: anything else needs a CAST. Only || , concat, concat_ws and array_join print other values.",
    ),
    (
        r"hour\('05:00'\)",
        "Text is not taken for a date or a time, but for a literal or parameter that is compared with one (ts > '2024-02-29'): "
        "write TIMESTAMP '…', or CAST it.",
    ),
    (
        r"s1 LIKE 'a\\\\b'|s RLIKE '\('|date_format\(ts, 'w'\)|to_timestamp\(s, 'E yyyy'\)|"
        r"from_utc_timestamp\(ts, 'nowhere'\)",
        "A LIKE pattern, regular expression, datetime pattern or time zone that is none is refused when the query is "
        "registered; Spark fails at the first row.",
    ),
    (
        r"s RLIKE 'a\(\?=b\)'",
        "Look-around, back-references, possessive and atomic groups, (?m), (?x), (?u) and classes in classes are refused: "
        "regular expressions are matched in linear time.",
    ),
    (
        r"s RLIKE '(\\\\bété|caf\\\\b)'",
        "\\b in a regular expression takes the letters of ASCII, as Java does from version 19 on; Java 17 takes all letters.",
    ),
    (
        r"date_format\(ts, 'Q'\)",
        "Datetime patterns know the letters y M L d D E H h m s S a X x Z and quoted text; others are refused.",
    ),
    (
        r"get_json_object\(s, '\$\.a\[\*\]'\)",
        "Wildcards in JSON paths are refused.",
    ),
    (
        r"length\(repeat\(a, 400000\)\)",
        "repeat, space, lpad and rpad make texts of up to 1,048,576 characters; beyond that the row has an error.",
    ),
    (
        r"array_min\(n\)",
        "Arrays, maps and structs are not compared: array_min, sort_array, array_contains … take arrays of plain values.",
    ),
]

# Functions Spark cannot be asked about, and what stands in for it.
NOT_JUDGED: dict[str, str] = {
    "checked": "No text can call it; tests/aggregates/test_aggregate_values.py tries it.",
    "json_path": "payload:field is not in Spark's grammar; get_json_object, which is the same look-up, is judged.",
    "not in": "The reader makes it of NOT and IN, which are judged; tests/filters/test_in_of_expressions.py tries it.",
}
