from eddyline.model import DeadLetter
from eddyline.storage import DeadLetters


def letter(
    n: int, *, stream: str = "s", query_id: int | None = None, error: str = "DIVIDE_BY_ZERO"
) -> DeadLetter:
    return DeadLetter(1, stream, {"n": n}, error, "why", query_id)


def test_the_newest_are_kept_and_all_are_counted():
    letters = DeadLetters(2)
    letters.add([letter(1), letter(2, query_id=7), letter(3, query_id=7)])
    letters.count("OTHER", 7, 10)
    assert [kept.row["n"] for kept in letters] == [2, 3]
    assert (len(letters), letters.capacity, letters.n_total, letters.n_dropped) == (2, 2, 13, 11)
    assert letters.by_error == {"DIVIDE_BY_ZERO": 3, "OTHER": 10}
    assert letters.by_query == {7: 12}


def test_letters_are_found_by_stream_and_query():
    letters = DeadLetters(10)
    letters.add([letter(1, stream="Trades"), letter(2, stream="quotes", query_id=7), letter(3, query_id=7)])
    assert [found.row["n"] for found in letters.find(stream="trades")] == [1]
    assert [found.row["n"] for found in letters.find(query_id=7)] == [2, 3]
    assert [found.row["n"] for found in letters.find(stream="QUOTES", query_id=7)] == [2]
    assert len(letters.find()) == 3
