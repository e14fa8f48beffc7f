"""Writes the generated parts of docs/sql.md: the functions there are, and where they differ from Spark.

.venv/bin/python tools/sql_reference.py           rewrite the page
.venv/bin/python tools/sql_reference.py --check   fail if it is not what it would be
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from eddyline.expressions import FUNCTIONS  # noqa: E402
from tests.expressions.known_differences import KNOWN  # noqa: E402

PAGE = ROOT / "docs" / "sql.md"
_HEADINGS = {
    "mathematics": "Numbers",
    "rounding": "Numbers",
    "arithmetic": "Numbers",
    "conditionals": "Conditions",
    "comparisons": "Conditions",
    "logic": "Conditions",
    "casts": "Conversion",
    "strings": "Text",
    "regex": "Text",
    "hashes": "Bytes and hashes",
    "dates": "Dates and times",
    "timestamps": "Dates and times",
    "formats": "Dates and times",
    "intervals": "Dates and times",
    "zones": "Dates and times",
    "json": "JSON",
    "collections": "Arrays, maps and structs",
    "arrays": "Arrays, maps and structs",
    "lambdas": "Arrays, maps and structs",
    "nested": "Arrays, maps and structs",
    "searching": "Text",
    "like": "Text",
    "patterns": "Text",
    "time_texts": "Dates and times",
}


def functions() -> str:
    """A table per subject, one row per function, other names beside it."""
    names: dict[str, list[str]] = {}
    for name, entry in FUNCTIONS.items():
        names.setdefault(entry.name, []).append(name)
    by_heading: dict[str, list[str]] = {}
    for name in sorted(names):
        entry = FUNCTIONS[name]
        if entry.is_operator or not re.match(r"\w+$", name):
            continue
        lowering = entry.lazy or entry.lowering
        room = lowering.__module__.rpartition(".")[2]
        others = [other for other in names[name] if other != name]
        also = f" Also {', '.join(f'`{other}`' for other in others)}." if others else ""
        signature = entry.signature.replace("|", "\\|")
        by_heading.setdefault(heading(room), []).append(f"| `{signature}` | {entry.summary}{also} |")
    parts = [
        f"### {title}\n\n| function | gives |\n| --- | --- |\n" + "\n".join(rows)
        for title, rows in sorted(by_heading.items())
    ]
    n = sum(len(rows) for rows in by_heading.values())
    return f"{n} functions. Anything else is refused, with the nearest name.\n\n" + "\n\n".join(parts)


def heading(room: str) -> str:
    assert room in _HEADINGS, (
        f"lowerings/{room}.py has no heading in docs/sql.md: add it to tools/sql_reference.py"
    )
    return _HEADINGS[room]


def differences() -> str:
    return "\n".join(f"- {reason}" for reason in dict.fromkeys(reason for _, reason in KNOWN))


def page(text: str) -> str:
    for part, made in [("functions", functions()), ("differences", differences())]:
        pattern = rf"(<!-- {part}: [^>]*-->\n).*?(<!-- end of {part} -->)"
        text = re.sub(
            pattern, lambda m, made=made: f"{m.group(1)}\n{made}\n\n{m.group(2)}", text, flags=re.DOTALL
        )
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--check", action="store_true", help="change nothing, exit 1 if the page is not up to date"
    )
    options = parser.parse_args()
    before = PAGE.read_text(encoding="utf-8")
    after = page(before)
    if options.check:
        if before != after:
            print(
                "docs/sql.md is not up to date: run .venv/bin/python tools/sql_reference.py", file=sys.stderr
            )
        return int(before != after)
    PAGE.write_text(after, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
