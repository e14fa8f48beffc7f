"""Feed every reader inputs that are made to break it, until one does or the time is over.

    make fuzz                                        ten seconds for each target
    make fuzz ARGS="--target json_rows --seconds 600"
    make fuzz ARGS="--target json_rows --input FILE"     one input again

The targets and their contract are in `tests/fuzz/targets.py`. Each runs in a process of its own, for an input may end it. Inputs
begin with `tests/fuzz/corpus/`; where atheris is installed they are chosen by what they reach in the code, elsewhere (or with
`--plain`) they are changed at random. An input that breaks the contract is written to `build/fuzz/`; fix the cause and keep it in
the corpus. Exit 0: none was found; 1: some were.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import hashlib
import io
import os
import random
import resource
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

try:
    import atheris
except ImportError:  # not on every platform: see docs/decisions
    atheris = None

BUILD = Path("build") / "fuzz"
HUNG_S = 60  # one input may not take longer
MEMORY_BYTES = 2 << 30  # beyond what the targets need to stand
BROKEN = 1
MOST_FRAMES = 12  # shown of a failure, the innermost
TOKENS = (
    b"1e-1000000000", b"1e1000000000", b"0e-99999999", b"-0.0", b"NaN", b"Infinity", b"1E+400", b"9223372036854775808", b"-129",
    b"0001-01-01T00:00:00Z", b"9999-12-31 23:59:59.999999", b"10000-01-01", b"+23:59", b"\\ud800", b"\\u0000", b"\x00", b"\xff",
    b"null", b"true", b"[[[[", b"]]]]", b'{"":', b"}", b'"', b"'", b"`", b"\\", b"\n\n", b"\r", b"\x1e", b"\x1f", b"_arrival",
    b"SELECT ", b" FROM s WHERE ", b" JOIN r ON ", b"INTERVAL '9999999999' DAY", b"CAST(", b" AS DECIMAL(38,38))",
    b"ARRAY<", b"STRUCT<a: ", b"MAP<STRING, ", b"DECIMAL(38,", b"decimal 1e-99", b"-1-1-1", b"?after=9-9-9", b"application/json",
)  # fmt: skip


def main(arguments: Sequence[str]) -> int:
    with _instrumented():
        from eddyline.kernels import warm_up
        from tests.fuzz.targets import TARGETS, corpus

    options = _options(arguments, sorted(TARGETS))
    if options.input is not None:
        with tempfile.TemporaryDirectory() as folder:
            TARGETS[options.target[0]](Path(folder))(options.input.read_bytes())
        return 0
    broken = 0
    warm_up()  # the processes of the targets are forks of this one
    for name in options.target or TARGETS:
        with tempfile.TemporaryDirectory() as folder:
            run = Run(name, TARGETS[name], corpus(name), Path(folder), options)
            broken += run.in_process_of_its_own()
    return BROKEN if broken else 0


def _options(arguments: Sequence[str], names: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__.split("\n\n")[0])
    parser.add_argument("--target", action="append", choices=names, help="which; may be said again")
    parser.add_argument("--seconds", type=float, default=10.0, help="for each target")
    parser.add_argument("--seed", type=int, default=1, help="of the changes to inputs")
    parser.add_argument("--plain", action="store_true", help="change inputs at random, also where atheris is")
    parser.add_argument("--input", type=Path, help="give one target this file, and nothing else")
    options = parser.parse_args(arguments)
    if options.input is not None and len(options.target or ()) != 1:
        parser.error("--input needs one --target")
    return options


def _instrumented() -> contextlib.AbstractContextManager[object]:
    """Imports inside count what they reach; not those that Numba compiles."""
    if atheris is None or {"--plain", "--input"} & set(sys.argv):
        return contextlib.nullcontext()
    kernels = [f"eddyline.kernels.{path.stem}" for path in Path("src/eddyline/kernels").glob("*.py")]
    stack = contextlib.ExitStack()
    stack.enter_context(contextlib.redirect_stderr(io.StringIO()))  # it names every module
    stack.enter_context(atheris.instrument_imports(include=["eddyline"], exclude=kernels))
    return stack


class Run:
    """One target for a while."""

    def __init__(
        self,
        name: str,
        make: Callable[[Path], Callable[[bytes], None]],
        seeds: Sequence[Path],
        folder: Path,
        options: argparse.Namespace,
    ) -> None:
        self._name, self._make, self._seeds, self._folder = name, make, seeds, folder
        self._seconds, self._seed = options.seconds, options.seed
        self._is_guided = atheris is not None and not options.plain
        self._current = os.open(folder / "current", os.O_RDWR | os.O_CREAT)  # outlives the process
        self._n_inputs, self._start, self._said = 0, 0.0, 0.0

    def in_process_of_its_own(self) -> bool:
        """Whether it ended with an input that breaks the contract; that input is kept."""
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if child == 0:
            self._until_the_time_is_over()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status == 0:
            return False
        data = os.pread(self._current, os.fstat(self._current).st_size, 0)
        kept = BUILD / f"{self._name}-{hashlib.sha256(data).hexdigest()[:12]}"
        BUILD.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(data)
        said = (self._folder / "said").read_text(errors="replace").splitlines()
        print(
            "\n".join(line[:200] for line in said if not line.startswith(("INFO", "WARNING")))[:3_000],
            file=sys.stderr,
        )
        how = f"signal {-status}" if status < 0 else f"exit code {status}"
        print(f"\n{self._name}: broken ({how}) by {kept}:\n  {data[:300]!r}", file=sys.stderr)
        print(f'  again: make fuzz ARGS="--target {self._name} --input {kept}"', file=sys.stderr, flush=True)
        return True

    def _until_the_time_is_over(self) -> None:
        """The work of the process; never returns. What native code says of its end goes to a file, which is shown then."""
        try:
            sys.stderr = os.fdopen(os.dup(2), "w")
            os.dup2(os.open(self._folder / "said", os.O_WRONLY | os.O_CREAT), 2)
            faulthandler.enable(2)
            target = self._make(self._folder)
            used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            resource.setrlimit(resource.RLIMIT_DATA, (used + MEMORY_BYTES, used + MEMORY_BYTES))
            self._start = time.monotonic()
            for seed in self._seeds:
                self._try(target, seed.read_bytes())
            self._guided(target) if self._is_guided else self._at_random(target)
        except BaseException:
            traceback.print_exc(limit=-MOST_FRAMES)
            sys.stderr.flush()
            os._exit(BROKEN)

    def _try(self, target: Callable[[bytes], None], data: bytes) -> None:
        os.ftruncate(self._current, 0)
        os.pwrite(self._current, data, 0)
        try:
            target(data)
        except BaseException:
            traceback.print_exc(limit=-MOST_FRAMES)
            sys.stderr.flush()
            os._exit(BROKEN)
        self._n_inputs += 1
        now = time.monotonic()
        if now > self._start + self._seconds:
            self._say(now, "\n")
            os._exit(0)
        if now > self._said + 1:
            self._said = now
            faulthandler.dump_traceback_later(HUNG_S, exit=True, file=2)
            if sys.stderr.isatty():
                self._say(now, "")

    def _say(self, now: float, end: str) -> None:
        passed = now - self._start
        how = "guided by coverage" if self._is_guided else "at random"
        words = (
            f"{self._name:16} {self._n_inputs:>9,} inputs {how}, {self._n_inputs / passed:>7,.0f} a second"
        )
        print(f"\r{words}, {passed:,.0f} of {self._seconds:,.0f} s", end=end, file=sys.stderr, flush=True)

    def _at_random(self, target: Callable[[bytes], None]) -> None:
        chosen = random.Random(self._seed)
        seeds = [seed.read_bytes() for seed in self._seeds] or [b""]
        while True:
            data = bytearray(chosen.choice(seeds))
            for _ in range(chosen.randint(1, 5)):
                _change(data, seeds, chosen)
            self._try(target, bytes(data))

    def _guided(self, target: Callable[[bytes], None]) -> None:
        found = BUILD / "corpus" / self._name
        found.mkdir(parents=True, exist_ok=True)
        seeds = self._folder / "seeds"
        seeds.mkdir()
        for seed in self._seeds:
            (seeds / seed.name).write_bytes(seed.read_bytes())
        words = self._folder / "words"
        quoted = ("".join(f"\\x{byte:02x}" for byte in token) for token in TOKENS)
        words.write_text("".join(f'"{token}"\n' for token in quoted))
        longest = max([4096, *(seed.stat().st_size for seed in self._seeds)])
        settings = [f"-seed={self._seed}", f"-dict={words}", f"-max_len={longest}", "-rss_limit_mb=0"]
        settings += [
            "-verbosity=0",
            "-print_final_stats=0",
            f"-artifact_prefix={self._folder}/",
            f"-timeout={HUNG_S}",
        ]
        atheris.Setup(["fuzz", *settings, str(found), str(seeds)], lambda data: self._try(target, data))
        atheris.Fuzz()


def _change(data: bytearray, seeds: Sequence[bytes], chosen: random.Random) -> None:
    """Change some bytes: another one, a token, a piece of another seed, a piece less, a piece twice."""
    at = chosen.randint(0, len(data))
    end = min(len(data), at + chosen.choice((1, 1, 2, 4, 16)))
    kind = chosen.randrange(6)
    if kind == 0 and at < len(data):
        data[at] = chosen.choice((0, 255, 128, data[at] ^ (1 << chosen.randrange(8)), chosen.randrange(256)))
    elif kind == 1:
        data[at:at] = chosen.choice(TOKENS)
    elif kind == 2:
        data[at:end] = chosen.choice(TOKENS)
    elif kind == 3:
        other = chosen.choice(seeds)
        start = chosen.randint(0, len(other))
        data[at:end] = other[start : start + chosen.choice((4, 20, 100))]
    elif kind == 4:
        del data[at:end]
    else:
        data[at:at] = data[at:end] * chosen.choice((1, 2, 50))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
