"""How often is the model asked? All rules together, and each rule for itself: python examples/languages/calls.py

For itself means that a rule has functions of its own, the same code under another name: nothing can be shared.
"""

import csv
import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import model  # noqa: E402
import pyarrow as pa  # noqa: E402
from make_posts import made  # noqa: E402

import eddyline  # noqa: E402

N_POSTS, N_BATCHES = 2_000, 4
FUNCTIONS = {"language": model.language, "certainty": model.certainty}


def rules() -> list[str]:
    """The rules of the pipeline, one query each."""
    lines = (HERE / "rules" / "analysts.sql").read_text(encoding="utf-8").splitlines()
    text = "\n".join(line for line in lines if not line.startswith("--"))
    views = [statement.strip() for statement in text.split(";") if statement.strip()]
    queries = [re.split(r"\bAS\s+(?=SELECT)", view, maxsplit=1)[1] for view in views]
    desk = (HERE / "desks.sql").read_text(encoding="utf-8").strip()
    with open(HERE / "desks.csv", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            queries.append(
                desk.replace(":shop", f"'{row['shop']}'").replace(":language", f"'{row['language']}'")
            )
    return queries


def for_itself(query: str, number: int) -> str:
    """The query with functions that no other one calls."""
    for name, function in FUNCTIONS.items():
        own = f"{name}_{number}"
        eddyline.udf(
            returns=function.returns,
            name=own,
            takes=function.takes,
            setup=loaded,
            batch=function.batch,
            version="1",
        )(function.function)
        query = query.replace(f"{name}(", f"{own}(")
    return query


def loaded(once=[]):  # noqa: B006  # the model, shared by all copies
    if not once:
        once.append(model.load())
    return once[0]


def asked(queries: list[str]) -> tuple[int, int]:
    """Texts the model was shown, and results, when these queries stand together."""
    posts = made(N_POSTS)
    with eddyline.open() as engine:
        engine.stream("posts", "id BIGINT NOT NULL, shop STRING, stars INT, text STRING")
        for query in queries:
            engine.query(query)
        n_results = 0
        for first in range(0, N_POSTS, N_POSTS // N_BATCHES):
            rows = pa.Table.from_pylist(posts[first : first + N_POSTS // N_BATCHES])
            n_results += engine.push("posts", rows).count
        return sum(each.n_rows for each in engine.functions().values()), n_results


def main() -> None:
    queries = rules()
    together, n_results = asked(queries)
    alone, n_same = asked([for_itself(query, number) for number, query in enumerate(queries)])
    assert n_results == n_same, "sharing changed a result"
    print(f"{len(queries)} rules over {N_POSTS:,} posts: {n_results:,} results")
    print(f"texts shown to the model, every rule for itself   {alone:>7,}")
    print(f"texts shown to the model, all rules together      {together:>7,}")
    print(f"saved                                             {1 - together / alone:>7.0%}")


if __name__ == "__main__":
    main()
