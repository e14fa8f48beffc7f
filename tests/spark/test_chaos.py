"""A pipeline on Spark that is killed again and again loses nothing and tells nothing twice."""

from __future__ import annotations

import pytest

from tools import chaos


@pytest.mark.spark
@pytest.mark.thorough
def test_five_kills_lose_nothing_and_repeat_nothing(tmp_path, capfd):
    assert chaos.run(5, seed=1, folder=tmp_path), capfd.readouterr().out
