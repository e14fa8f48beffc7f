"""Which query has a name: exactly as written first, then in another case, as names of relations in SQL are."""

from __future__ import annotations

from eddyline.catalog.queries import Registration
from eddyline.catalog.query_names import QueryNames
from eddyline.model import Properties


def registration(query_id: int, name: str, owner: str = "") -> Registration:
    return Registration(query_id, 1, "", None, Properties(owner=owner), name, 1, 0)  # type: ignore[arg-type]


def test_a_name_is_found_as_written_before_one_that_differs_in_case():
    names = QueryNames()
    names.add("Big", "", 1)
    names.add("big", "", 2)
    assert [names.find_folded(name) for name in ("Big", "big", "BIG", "bigger")] == [1, 2, 1, None]


def test_names_that_come_and_go_are_found_in_any_case():
    names = QueryNames()
    names.add("Big", "", 1)
    assert names.find_folded("BIG") == 1
    names.add("Small", "", 2)
    names.add_many("", [("Other", 3)])
    assert [names.find_folded(name) for name in ("SMALL", "other")] == [2, 3]
    names.remove(1, registration(1, "Big"))
    assert names.find_folded("BIG") is None
    names.add("BIG", "", 4)
    assert names.find_folded("big") == 4


def test_owners_have_names_of_their_own():
    names = QueryNames()
    names.add("Big", "ann", 1)
    assert names.find_folded("big") is None
    assert names.find_folded("big", "ann") == 1
