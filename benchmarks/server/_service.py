"""`eddyline serve` as a process of its own, over a home that was made ready before."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from eddyline.api import Engine

ANY_RATE = "1000000"  # requests a second of one token: one client stands for many


def admin_token(engine: Engine) -> str:
    """A token for everything."""
    _, secret = engine.access.tokens.add("admin", engine.rounds.now_us(), note="benchmark")
    return secret


@contextmanager
def served(home: Path) -> Iterator[str]:
    """The URL of a server over this home, until the block ends."""
    command = [sys.executable, "-m", "eddyline.cli", "serve", "--json", "--home", str(home), "--port", "0"]
    process = subprocess.Popen(
        [*command, "--rate", ANY_RATE], stdout=subprocess.PIPE, env=os.environ, text=True
    )
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["url"]
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate()
