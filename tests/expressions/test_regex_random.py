"""Random regular expressions over random texts, judged by Spark."""

from __future__ import annotations

import random

import pytest

from eddyline.errors import UnsupportedError
from eddyline.types import STRING
from tests.expressions import edge_values as edge
from tests.expressions.judge import Cases, agree
from tests.expressions.test_regex import quoted
from tests.scalars import scalar

ATOMS = [
    *["a", "b", "c", "A", "B", "é", "1", "_", "-", " ", ".", "😀", r"\n", r"\r", r"\t", r"\d", r"\w", r"\s",
        r"\D", r"\W"],
    *[r"\S", r"\h", r"\v", r"\V", "[ab]", "[^ab]", "[a-c]", r"[^\s]", r"[\w-]", r"[^\W_]", r"[\D\n]",
        r"[^\d\S]", "[^.]"],
    *[r"\p{L}", r"\P{L}", r"\p{Lu}", r"[\p{Lu}1]", r"\p{Alpha}", r"\p{Punct}", r"\.", r"\x61", r"\Q.\E", "[é-ü]"],
]  # fmt: skip
QUANTIFIERS = ["*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{0,2}?", "{2,}"]
LETTERS = "aabbcABé1_- \n\r\t.😀Éx\x0b\u2028\u0085"


def pattern(rng: random.Random, depth: int) -> str:
    """A pattern of at most this depth."""
    kinds = ["atom", "sequence", "choice", "group", "repeat", "flags"]
    kind = rng.choices(kinds, weights=[35, 20, 12, 12, 15, 6])[0] if depth else "atom"
    if kind == "atom":
        return rng.choice(ATOMS)
    first = pattern(rng, depth - 1)
    if kind == "sequence":
        return first + pattern(rng, depth - 1)
    if kind == "choice":
        return f"(?:{first}|{pattern(rng, depth - 1)})"
    if kind == "group":
        return f"({first})"
    if kind == "repeat":
        return f"(?:{first}){rng.choice(QUANTIFIERS)}"
    return rng.choice([f"(?i){first}", f"(?i:{first})", f"(?s:{first})"])


def accepted(text: str, table) -> bool:
    try:
        scalar(text, table.schema)
    except UnsupportedError:
        return False
    return True


@pytest.mark.slow
def test_random_patterns_are_java_s(spark, seed):
    rng = random.Random(seed)
    words = ["".join(rng.choices(LETTERS, k=rng.randint(0, 7))) for _ in range(80)]
    table = edge.columns(s=(STRING, words))
    texts: list[str] = []
    for _ in range(250):
        one = rng.choice(["", "", "", "^"]) + pattern(rng, 4) + rng.choice(["", "", "", "", "$", r"\z"])
        texts.append(f"s RLIKE {quoted(one)}")
        texts += [f"regexp_extract(s, {quoted(one)}, {group})" for group in (0, 1, 2)]
        texts.append(f"regexp_replace(s, {quoted(one)}, '<$0>')")
        texts.append(f"split(s, {quoted(one)}, 3)")
    kept = [text for text in dict.fromkeys(texts) if accepted(text, table)]
    assert len(kept) > 500
    agree(spark, [Cases(table, kept)])
