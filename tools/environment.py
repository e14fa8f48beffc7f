"""Create .venv and install the pinned dependencies, once; a second call only compares a stamp.

    python3 tools/environment.py spark   what users have, and the demo needs: eddyline on Spark
    python3 tools/environment.py full    that, and what tests, lint and benchmarks need

Only the standard library, and, up to the version check, only syntax that an old Python can read.
"""

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VENV = os.path.join(ROOT, ".venv")
VENV_PYTHON = os.path.join(VENV, "bin", "python")
LOG = os.path.join(VENV, "install.log")
OLDEST_PYTHON = (3, 11)

# what: (stamp file, what pip installs, how long the first time takes); each holds the one before
SETS = {
    "spark": (".spark", ".[spark]", "about a minute and a half, 1.1 GB"),
    "full": (".installed", ".[spark,server,dev]", "about two minutes, 1.6 GB"),
}


def main(arguments):
    if len(arguments) != 1 or arguments[0] not in SETS:
        stop("usage: python3 tools/environment.py " + "|".join(SETS))
    if sys.version_info[:2] < OLDEST_PYTHON:
        stop(
            "eddyline needs Python 3.11 or newer; {} is Python {}.{}.".format(
                sys.executable, *sys.version_info[:2]
            ),
            "hint: name a newer one, for example: make PYTHON=python3.12 test",
        )
    os.chdir(ROOT)
    what = arguments[0]
    if is_installed(what):
        return
    with one_at_a_time():
        if not is_installed(what):
            if not os.path.lexists(VENV):
                create_venv()
            check_venv()
            install(what)


def is_installed(what):
    """True if the stamp of this set, or of a larger one, matches and the interpreter is still there."""
    stamps = [SETS[each][0] for each in list(SETS)[list(SETS).index(what) :]]
    expected = fingerprint()
    return os.access(VENV_PYTHON, os.X_OK) and any(read_text(stamp) == expected for stamp in stamps)


def fingerprint():
    """Changes when the dependencies do: the tables of pyproject.toml that pip reads, and constraints.txt."""
    import tomllib

    with open("pyproject.toml", "rb") as file:
        tables = tomllib.load(file)
    with open("constraints.txt", "rb") as file:
        pins = file.read()
    return hashlib.sha256(repr((tables["build-system"], tables["project"], pins)).encode()).hexdigest()


def create_venv():
    say("Creating .venv with Python {}.{} …".format(*sys.version_info[:2]))
    try:
        made = subprocess.run([sys.executable, "-m", "venv", VENV], capture_output=True, text=True)
    except BaseException:  # also an impatient Ctrl-C: leave nothing half made
        shutil.rmtree(VENV, ignore_errors=True)
        raise
    if made.returncode:
        shutil.rmtree(VENV, ignore_errors=True)
        if "ensurepip" in made.stdout + made.stderr or "No module named venv" in made.stderr:
            version = "{}.{}".format(*sys.version_info[:2])
            stop(
                "This Python cannot create virtual environments: its venv or ensurepip module is missing.",
                f"hint: install it (Debian and Ubuntu: apt install python{version}-venv),",
                "      or name another Python: make PYTHON=/path/to/python3 …",
            )
        stop("Creating .venv failed:", (made.stderr or made.stdout).strip())


def check_venv():
    """Refuse a .venv that does not work, or was made by an old Python, before pip says so at length."""
    question = "import sys, pip; print('%d.%d' % sys.version_info[:2])"
    try:
        answer = subprocess.run([VENV_PYTHON, "-c", question], capture_output=True, text=True)
    except OSError:
        answer = None
    if answer is None or answer.returncode:
        stop("The folder .venv is there but does not work.", "hint: remove it and try again: rm -rf .venv")
    version = answer.stdout.strip()
    if tuple(int(part) for part in version.split(".")) < OLDEST_PYTHON:
        stop(
            f"The folder .venv holds Python {version}; eddyline needs 3.11 or newer.",
            "hint: remove it and try again: rm -rf .venv",
        )


def install(what):
    stamp, requirement, duration = SETS[what]
    say(f"Installing dependencies into .venv (once, {duration}) …")
    pins = os.path.join(ROOT, "constraints.txt")
    as_url = "file://" + pins.replace("%", "%25").replace(" ", "%20")  # pip splits its variables at blanks
    environ = dict(os.environ, PIP_CONSTRAINT=as_url, PIP_BUILD_CONSTRAINT=as_url)
    command = [VENV_PYTHON, "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    command += ["--progress-bar=off", "--constraint", pins, "--editable", requirement]
    with open(LOG, "w") as log:
        result = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, env=environ)
    if result.returncode:
        stop(
            "Installing dependencies failed.",
            *problems(),
            "detail: everything pip said is in .venv/install.log",
            "hint: check the network and the free disk space, then run the same command again",
        )
    with open(os.path.join(VENV, stamp), "w") as file:
        file.write(fingerprint())


def problems():
    """What pip called an error, without the addresses it tried."""
    with open(LOG, errors="replace") as log:
        errors = [line.strip() for line in log if line.lstrip().startswith("ERROR:")]
    return ["  " + re.sub(r"\S*://\S*|host='[^']*'", "…", line) for line in errors[:5]]


@contextlib.contextmanager
def one_at_a_time():
    """Two makes in one folder take turns; the second then finds the work done."""
    import fcntl

    with open(__file__) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def read_text(name):
    try:
        with open(os.path.join(VENV, name)) as file:
            return file.read()
    except OSError:
        return None


def say(line):
    print(line, file=sys.stderr, flush=True)


def stop(*lines):
    for line in lines:
        say(line)
    sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
