"""Every script of tests/streams comes out the same if its rows are worked on in tasks."""

from __future__ import annotations

import pytest

from eddyline.scripts import run_file
from tests.on_workers import opener
from tests.test_streams import SCRIPTS, functions_of_the_scripts  # noqa: F401

pytestmark = pytest.mark.thorough


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script(path, tmp_path):
    differences = run_file(path, opener(tmp_path))
    assert not differences, "\n".join(map(str, differences))
