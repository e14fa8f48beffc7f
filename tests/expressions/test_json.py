"""Fields of JSON text, judged by Spark."""

from __future__ import annotations

import pytest

from eddyline.errors import UnsupportedError
from eddyline.types import STRING
from tests.expressions import edge_values as edge
from tests.expressions.judge import Cases, agree
from tests.scalars import scalar

DOCUMENTS = [
    *['{"a":1}', '{"a":"x"}', '{"a":null}', '{"a":true}', '{"a":[1, 2 ,{"b" : 3}]}',
        '{"a": {"b" :1.0, "c":"x\\ty"}}', '{"b":1}'],
    *['{"a":1.50}', '{"a":1e10}', '{"a":1E400}', '{"a":-1E400}', '{"a":123456789012345678901234567890}',
        '{"a":-0}', '{"a":-0.0}'],
    *['{"a":0.10000000000000000000001}', '{"a":[1e10, 1E400, -0, -0.0, 1.0E5, 12.0, 1e2, 1e-5, 1e22]}',
        '{"a":4.9E-324}'],
    *['{"a":NaN}', '{"a":01}', "{a:1}", "{'a':1}", '{"a":1,}', '{"a":1', '{"a":1} x', "", " ", "null", "1",
        '"x"', "x", "01", "1x", "1 x"],
    *['{"a":[NaN]}', '{"a":[+1]}', '{"a":[.5]}', '{"a":[1.]}', '{"a":Infinity}', '{"a":[-Infinity]}', "true",
        "tru", "truex", "[1]x"],
    *['{"a":1,"a":2}', '{"a":{"x":1},"a":{"b":2}}', '{"a":null,"a":2}', '{"a":[null,1]}',
        '{"a":{"b":null,"c":[null]}}', '{"a":{"x":1,"x":2}}'],
    *['{"a":"\\u00e9\\n\\ud83d\\ude00"}', '{"a":["\\u00e9\\n\\ud83d\\ude00é😀\\/\\"\\u0001\\u007f"]}',
        '{"a":"\\ud83d"}', '{"a":["\\ud83d"]}'],
    *['{"a":["</script>", "\\u2028"]}', '{"a":"\\x"}', '{"a":"\\u12"}', '{"a":[10,20,[30]]}', '{"a":{"0":1}}',
        "[1,2]", '[{"a":1},{"a":2}]'],
    *['{"a b":1}', '{"a.b":1}', '{"a":{"b":{"c":[1,2]}}}', '{"":1}', '{"a-b":1}', '{"é":1}', '{"A":1}',
        '{"a":[{"b":1},{"b":2}]}'],
    *[' \n{"a" : 1}\t', '\u00a0{"a":1}', '\ufeff{"a":1}', '{"a":1}{"a":2}', '{"a":{"b":1}', '{"a":"x","b":',
        '{"a":"x\ty"}', '{"a":["x\ty"]}'],
    *['{"a":{}}', '{"a":[]}', '{"a":""}', '{"a":[[[]]]}', '{"a":{"b":{}}}', '{"a":5}', '/*c*/{"a":1}',
        "{\"a\":'x'}", "{\"a\":['x\"y']}"],
    *["{'a':'it\\'s'}", "{'a':'\\\"'}", "{\"a\":'\\n'}", '{"a":"it\'s"}', "{'a\":1}", '{"a":tru}',
        '{"a":[1 2]}', '{"b":[1 2],"a":1}'],
    *['{"a":1,"b":[1 2]}', '{"a":1 "b"}', '{"a":"\x00"}', '{"a":' + "9" * 1001 + "}",
        '{"a":' + "[" * 100 + "]" * 100 + "}", '{"a":{"b":"c"}}'],
]  # fmt: skip
PATHS = [
    *["$", "$.a", "$.b", "$.a.b", "$.a.b.c", "$.a.b.c[1]", "$.a[0]", "$.a[1]", "$.a[2][0]", "$.a[5]", "$[0]",
        "$[1].a", "$.a[00]"],
    *["$[\\'a\\']", "$[\\'a b\\']", "$[\\'a.b\\']", "$[\\'a\\'][\\'b\\']", "$.a b", "$.a-b", "$.é", "$.A",
        "$.a ", "$.a[0].b", "$.a.x"],
]  # fmt: skip
CASES = [
    Cases(
        edge.columns(s=(STRING, DOCUMENTS)),
        [f"get_json_object(s, '{path}')" for path in PATHS],
        [
            "get_json_object(s, '$.a[*]')",
            "get_json_object(s, NULL)",
            "get_json_object(NULL, '$.a')",
            "get_json_object('{\"a\":1}', '$.a')",
        ],
    )
]


def test_fields_of_json_are_spark_s(spark):
    agree(spark, CASES)


@pytest.mark.parametrize(
    "path",
    ["", "a", "$a", "$.", "$..a", "$.a[*]", "$.*", "$[\\'*\\']", " $.a", "$.a[-1]", "$.a[ 0 ]", '$["a"]'],
)
def test_a_path_that_never_finds_anything_or_everything_is_refused(path):
    with pytest.raises(UnsupportedError, match="the JSON path"):
        scalar(f"get_json_object(s, '{path}')", CASES[0].table.schema)


def test_deep_nesting_is_no_json_rather_than_a_crash(spark):
    deep = edge.columns(s=(STRING, ['{"a":' + "[" * 5000 + "]" * 5000 + "}"]))
    agree(spark, [Cases(deep, "get_json_object(s, '$.a')")])
