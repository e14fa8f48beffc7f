"""Where a home may be: a local folder that is empty, new or a home already."""

from __future__ import annotations

import pytest

import eddyline
from eddyline.errors import HomeError


@pytest.mark.parametrize(
    "address", ["s3://bucket/home", "dbfs:/mnt/home", "abfss://c@a.dfs.core.windows.net/h", "hdfs://h/x"]
)
def test_an_address_of_another_store_is_refused_with_what_works(address, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(HomeError) as error:
        eddyline.open(address)
    assert error.value.problem == f"{address!r} is not a local folder, and a home is one"
    assert "eddyline backup" in error.value.hint
    assert not list(tmp_path.iterdir())


def test_a_folder_with_other_files_becomes_a_home_only_if_that_is_said(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(HomeError) as error:
        eddyline.open(tmp_path)
    assert error.value.problem == f"the folder {tmp_path} is no home, and holds other files"
    assert error.value.detail == "Such as thesis.txt."
    assert "create=True" in error.value.hint
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.txt"]
    eddyline.open(tmp_path, create=True).close()
    eddyline.open(tmp_path).close()  # now it is one


def test_an_empty_folder_and_a_new_one_become_homes(tmp_path):
    (tmp_path / "empty").mkdir()
    eddyline.open(tmp_path / "empty").close()
    eddyline.open(tmp_path / "new" / "deep").close()
