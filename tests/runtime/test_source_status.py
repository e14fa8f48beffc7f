"""How far sources and sinks are, and trying what fails again at once."""

from __future__ import annotations

import threading

import pytest

from eddyline.api import PipelineRunner
from eddyline.errors import QueryStateError, UnknownNameError
from eddyline.events import SourceFailed
from eddyline.pipeline import read_pipeline
from eddyline.sources import FolderSource
from eddyline.sources.positions import SourceError

PIPELINE = """
[engine]
home = "home"
[streams.trades]
schema = "n INT"
source = { type = "files", path = "in", format = "json", poll = "10 ms" }
"""


def test_a_source_says_how_far_it_is_and_a_failing_one_is_read_at_once_when_asked(tmp_path, monkeypatch):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"n": 1}\n{"n": 2}\n')
    is_broken, failed = threading.Event(), threading.Event()
    take = FolderSource.take

    def taking(self, max_rows, max_bytes):
        if is_broken.is_set():
            raise SourceError("the folder is gone", detail="nobody knows where")
        return take(self, max_rows, max_bytes)

    monkeypatch.setattr(FolderSource, "take", taking)
    monkeypatch.setattr("eddyline.runtime.feeds.FIRST_PAUSE_S", 3600.0)
    monkeypatch.setattr("eddyline.runtime.feeds.LONGEST_PAUSE_S", 3600.0)

    def heard(event):
        if isinstance(event, SourceFailed):
            failed.set()

    with PipelineRunner(read_pipeline(PIPELINE, tmp_path / "eddyline.toml"), on_event=heard) as runner:
        with pytest.raises(UnknownNameError):
            runner.retry_source("trades")  # nothing is read yet
        done = threading.Thread(target=lambda: runner.run(signals=False))
        done.start()
        while not runner.sources() or runner.sources()[0].n_rows < 2:
            done.join(0.01)
        (source,) = runner.engine.sources()
        assert (source.stream, source.type, source.n_behind, source.unit) == ("trades", "files", 0, "files")
        assert source.position == "up to a.json"
        assert not source.is_failing

        is_broken.set()
        assert failed.wait(30)
        (source,) = runner.engine.sources()
        assert (source.is_failing, source.n_failures) == (True, 1)
        assert source.message == "the folder is gone: nobody knows where"
        assert source.retry_in_s > 60

        is_broken.clear()
        (tmp_path / "in" / "b.json").write_text('{"n": 3}\n')
        runner.engine.retry_source("TRADES")
        while runner.sources()[0].n_rows < 3:
            done.join(0.01)
        (source,) = runner.engine.sources()
        assert (source.is_failing, source.n_failures, source.message[:10]) == (False, 0, "the folder")
        with pytest.raises(UnknownNameError, match="no source"):
            runner.engine.retry_source("quotes")
        runner.stop()
        done.join()
        with pytest.raises(QueryStateError, match="ended"):
            runner.retry_source("trades")
