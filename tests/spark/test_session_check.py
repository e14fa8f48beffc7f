"""What a session must be for rounds to run on it: refusals say what to set, the rest is told in sentences."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest

from eddyline.spark import SessionRefusedError, checked_session
from eddyline.spark.session_check import NEWEST_SPARK, OLDEST_SPARK, conf_warnings, refuse_versions

LIMIT = "spark.executor.pyspark.memory"


def test_the_known_versions_are_those_that_pyproject_allows():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    extra = project["project"]["optional-dependencies"]["spark"]
    oldest, below = re.search(r"pyspark>=4\.(\d+),<4\.(\d+)", " ".join(extra)).groups()
    assert (4, int(oldest)) == OLDEST_SPARK
    assert (4, int(below) - 1) == NEWEST_SPARK


@pytest.mark.parametrize("version", ["4.1.0", "4.2.1", "4.3.0", "4.3.0-SNAPSHOT"])
def test_a_version_in_the_range_is_accepted(version):
    refuse_versions(version, version)


@pytest.mark.parametrize("version", ["3.5.9", "4.0.5", "4.4.0", "5.0.0", "main"])
def test_a_version_outside_is_refused_by_name(version):
    with pytest.raises(SessionRefusedError) as caught:
        refuse_versions(version, version)
    assert caught.value.problem == f"Spark {version} is not supported"
    assert caught.value.detail == "Rounds run on Spark 4.1 to 4.3."


def test_a_pyspark_of_another_release_than_its_spark_is_refused():
    with pytest.raises(SessionRefusedError) as caught:
        refuse_versions("4.1.4", "4.3.0")
    assert caught.value.problem == "PySpark 4.3.0 speaks to Spark 4.1.4"
    assert "SPARK_HOME" in caught.value.hint


def test_a_connect_session_is_refused():
    # the class is not importable without grpc, so one of that name
    connect = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})
    with pytest.raises(SessionRefusedError) as caught:
        checked_session(connect())
    assert str(caught.value) == (
        "Spark Connect sessions are not supported\n"
        "detail: A Connect session has no Spark context, and the round loop runs its jobs through one.\n"
        "hint: Start a classic session: without SPARK_REMOTE, .remote(…) and spark.api.mode=connect."
    )


def test_what_is_no_session_is_refused():
    pytest.importorskip("pyspark")
    with pytest.raises(SessionRefusedError, match="str is not a Spark session"):
        checked_session("local[2]")


@pytest.mark.parametrize(
    "confs",
    [
        {"spark.master": "local[2,4]"},
        {"spark.master": "local[*, 2]"},
        {"spark.master": "spark://host:7077"},
        {"spark.master": "yarn", "spark.task.maxFailures": "8"},
        {"spark.master": "local[2,4]", "spark.task.maxFailures": "1"},  # a local master has its own number
        {"spark.master": "local[2,4]", LIMIT: "0"},
        {"spark.master": "local[2,4]", "spark.python.worker.memory": "512m"},  # when to spill, not a limit
    ],
)
def test_good_settings_need_no_words(confs):
    assert conf_warnings(confs) == []


@pytest.mark.parametrize(
    ("master", "better"),
    [
        ("local", "local[1,4]"),
        ("local[2]", "local[2,4]"),
        ("local[*]", "local[*,4]"),
        ("local[3,1]", "local[3,4]"),
    ],
)
def test_a_local_master_without_retries_is_told(master, better):
    assert conf_warnings({"spark.master": master}) == [
        f"master {master} does not retry a failed task, so a worker that dies fails its round: use {better}."
    ]


def test_a_cluster_without_retries_is_told():
    confs = {"spark.master": "spark://host:7077", "spark.task.maxFailures": "1"}
    assert conf_warnings(confs) == [
        "spark.task.maxFailures is 1, so a worker that dies fails its round: unset it."
    ]


def test_workers_that_are_not_kept_are_told():
    [warning] = conf_warnings({"spark.master": "local[2,4]", "spark.python.worker.reuse": "false"})
    assert warning.startswith("spark.python.worker.reuse is false")


@pytest.mark.parametrize(
    ("confs", "each"),
    [
        ({"spark.master": "local[2,4]", LIMIT: "512m"}, "0.5"),
        ({"spark.master": "local[2,4]", LIMIT: "2048"}, "2.0"),  # MiB
        ({"spark.master": "local[2,4]", LIMIT: "3gb"}, "3.0"),
        ({"spark.master": "spark://h:7077", LIMIT: "8g", "spark.executor.cores": "4"}, "2.0"),
    ],
)
def test_a_limit_that_leaves_no_room_to_map_files_is_refused(confs, each):
    with pytest.raises(SessionRefusedError) as caught:
        conf_warnings(confs)
    assert caught.value.problem == f"{LIMIT}={confs[LIMIT]} leaves workers too little room to map files"
    assert f"That is {each} GiB for each worker" in caught.value.detail
    assert "Leave spark.executor.pyspark.memory unset" in caught.value.hint


def test_a_generous_limit_is_told():
    [warning] = conf_warnings({"spark.master": "local[2,4]", LIMIT: "64g"})
    assert "limits the address space" in warning


def test_a_good_session_is_returned_with_a_note_on_its_time_zone(spark):
    same = checked_session(spark, time_zone="UTC")
    assert same.session is spark
    assert same.warnings == ()
    assert checked_session(spark, time_zone="Europe/Paris").warnings == (
        "the session's time zone is UTC, the home's is Europe/Paris: queries use the home's, "
        "your own DataFrames the session's.",
    )


def test_workers_of_another_python_are_told(spark, monkeypatch):
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "/opt/other/bin/python3")
    assert checked_session(spark).warnings == (
        f"workers run /opt/other/bin/python3, not this Python ({sys.executable}), and may lack eddyline: "
        "set PYSPARK_PYTHON before the session starts.",
    )
