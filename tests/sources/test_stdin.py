"""Lines on standard input: rounds by size or time, and the end."""

from __future__ import annotations

import io
import os
import threading

import pytest

from eddyline.errors import SchemaError
from eddyline.model import Stream
from eddyline.sources import FileFormat, StdinLines, infer_schema

NUMBERS = Stream("numbers", infer_schema("n INT"))
MANY = 1 << 30


class Pipe:
    """A pipe somebody writes lines into, and a clock."""

    def __init__(self) -> None:
        descriptor, self._writer = os.pipe()
        self.reader = os.fdopen(descriptor, "rb")
        self.now = 0.0
        self.arrived = threading.Semaphore(0)

    def source(self, **options) -> StdinLines:
        return StdinLines(
            self.reader,
            FileFormat("json"),
            NUMBERS,
            "UTC",
            clock=lambda: self.now,
            wake=self.arrived.release,
            **options,
        )

    def write(self, text: str) -> None:
        os.write(self._writer, text.encode())
        assert self.arrived.acquire(timeout=10)

    def close(self) -> None:
        os.close(self._writer)
        assert self.arrived.acquire(timeout=10)


@pytest.fixture
def pipe():
    pipe = Pipe()
    yield pipe
    pipe.reader.close()


def read_all(content: bytes, stream: Stream = NUMBERS, **format) -> list:
    done = threading.Event()
    source = StdinLines(io.BytesIO(content), FileFormat(**format), stream, "UTC", every_s=60.0, wake=done.set)
    takes = []
    while not source.is_finished:
        taken = source.take(1000, MANY)
        if taken is not None:
            takes.append(taken)
        elif not source.is_finished:
            assert done.wait(10)
            done.clear()
    return takes


def test_rows_wait_a_while_for_others(pipe):
    source = pipe.source(every_s=1.0)
    assert source.take(100, MANY) is None
    pipe.write('{"n": 1}\n{"n"')
    assert source.take(100, MANY) is None
    assert source.wait_s() == 1.0
    pipe.write(": 2}\n")
    pipe.now = 1.0
    taken = source.take(100, MANY)
    assert taken.rows.rows.column("n").to_pylist() == [1, 2]
    assert taken.position == {"rows": 2}


def test_a_full_round_does_not_wait(pipe):
    source = pipe.source(every_s=60.0)
    source.take(1, MANY)
    pipe.write('{"n": 1}\n{"n": 2}\n{"n": 3}\n')
    assert source.take(2, MANY).rows.rows.column("n").to_pylist() == [1, 2]
    assert source.take(2, MANY) is None
    pipe.close()
    assert source.take(2, MANY).rows.rows.column("n").to_pylist() == [3]
    assert source.is_finished


def test_the_count_of_rows_goes_on_after_a_restart(pipe):
    source = pipe.source(every_s=0.0, position={"rows": 40})
    source.take(1, MANY)
    pipe.write('{"n": 1}\n')
    assert source.take(10, MANY).position == {"rows": 41}


def test_the_last_line_needs_no_line_end():
    [taken] = read_all(b'{"n": 1}\n{"n": 2}', name="json")
    assert taken.rows.rows.column("n").to_pylist() == [1, 2]


def test_csv_has_its_columns_in_the_first_line_or_given():
    [taken] = read_all(b"n\n1\nx\n", name="csv")
    assert taken.rows.rows.column("n").to_pylist() == [1]
    assert [m.message for m in taken.rows.misfits] == ["column n: 'x' is not INT (standard input, line 3)"]
    [taken] = read_all(b"1\n2\n", name="csv", columns=("n",))
    assert taken.rows.rows.column("n").to_pylist() == [1, 2]


def test_csv_rows_may_go_over_several_lines():
    both = Stream("s", infer_schema("s STRING, n INT"))
    [taken] = read_all(b's,n\n"a\nb",1\nc,x\n', both, name="csv")
    assert taken.rows.rows.to_pylist() == [{"s": "a\nb", "n": 1}]
    assert taken.rows.misfits[0].message.endswith("(standard input, line 4)")


def test_a_header_that_does_not_fit_is_refused():
    strict = Stream("numbers", infer_schema("n INT NOT NULL"))
    with pytest.raises(
        SchemaError, match="column n is missing, and stream numbers does not allow NULL there"
    ):
        read_all(b"m\n1\n", strict, name="csv")


def test_nothing_at_all_is_no_round():
    assert read_all(b"", name="json") == []
    assert read_all(b"n\n", name="csv") == []


def test_a_stream_that_gets_a_column_is_read_on_in_its_new_schema(pipe):
    source = pipe.source(every_s=0.0)
    source.take(1, MANY)
    pipe.write('{"n": 1}\n')
    source.take(10, MANY)
    source.redeclare(Stream("numbers", infer_schema("n INT, later STRING")))
    pipe.write('{"n": 2, "later": "x"}\n')
    assert source.take(10, MANY).rows.rows.to_pylist() == [{"n": 2, "later": "x"}]
