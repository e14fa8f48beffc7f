"""What goes where: results to stdout, everything else to stderr; tables and colours only on a terminal."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from eddyline.errors import EddylineError

if TYPE_CHECKING:  # rich loads where a terminal is written to, documents where a command needs one
    from rich.text import Text

    from eddyline.documents import Tell

PATIENCE_S = 2.0  # what takes longer says how far it is
EVERY_S = 0.2


class Output:
    """Prints for people, or with `is_json` for programs. `progress`: None asks whether stderr is a terminal."""

    def __init__(self, *, is_json: bool = False, progress: bool | None = None) -> None:
        self.is_json = is_json
        self.shows_progress = sys.stderr.isatty() if progress is None else progress
        self.is_terminal = sys.stdout.isatty() and not is_json
        self.log: Callable[..., None] | None = None  # where notes go while stderr is a log
        self.is_log_json = False  # by programs: no secret is for it

    def document(self, body: Any) -> None:
        """One JSON document."""
        print(json.dumps(body, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None))

    def line(self, body: Any) -> None:
        """One line of JSON among many."""
        print(json.dumps(body, ensure_ascii=False), flush=True)

    def text(self, text: str | Text = "") -> None:
        """A result for people."""
        if self.is_terminal:
            from rich.console import Console

            Console(highlight=False, soft_wrap=True).print(text, markup=False)
        else:
            print(text if isinstance(text, str) else text.plain)

    def table(self, headers: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Columns: drawn on a terminal, plain and never cut in a pipe."""
        cells = [["" if value is None else str(value) for value in row] for row in rows]
        if self.is_terminal:
            from rich.console import Console
            from rich.table import Table
            from rich.text import Text

            table = Table(box=None, pad_edge=False, header_style="bold")
            for header in headers:
                table.add_column(header, overflow="fold")
            for row in cells:
                table.add_row(*map(Text, row))
            Console(highlight=False).print(table)
            return
        lines = [[" ".join(cell.split()) for cell in row] for row in [list(headers), *cells]]
        widths = [max(len(line[k]) for line in lines) for k in range(len(headers))]
        for line in lines:
            print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())

    def note(self, text: str) -> None:
        """Something besides the results."""
        if self.log is not None:
            self.log(text)
        else:
            print(text, file=sys.stderr, flush=True)

    def secret(self, text: str, *, otherwise: str) -> None:
        """Something that may be shown on a screen and in no log: where stderr is one, `otherwise` says what to do instead."""
        if not self.is_log_json or sys.stderr.isatty():
            print(text, file=sys.stderr, flush=True)
        else:
            self.note(otherwise)

    def passing(self, text: str) -> None:
        """A line on stderr that the next one takes the place of, on a terminal."""
        if sys.stderr.isatty():
            print(f"\r\x1b[2K{text}", end="", file=sys.stderr, flush=True)
        elif text:
            self.note(text)

    def error(self, error: EddylineError) -> None:
        """What went wrong, the same whether it happened here or in the engine that holds the home."""
        if self.is_json:
            from eddyline.documents import error_to

            print(json.dumps({"error": error_to(error)}, ensure_ascii=False), file=sys.stderr, flush=True)
            return
        message = str(error)
        if self.log is not None:
            self.log(message, level="error", event="Error")
            return
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.text import Text

            head, _, rest = message.partition("\n")
            console = Console(stderr=True, highlight=False, soft_wrap=True)
            console.print(Text(head, style="bold red"))
            if rest:
                console.print(Text(rest))
            return
        print(message, file=sys.stderr, flush=True)

    @contextmanager
    def progress(self, what: str) -> Iterator[Tell]:
        """A line on stderr that says how far it is, once it takes longer than two seconds."""
        line = _Line(what, is_terminal=sys.stderr.isatty())
        if not self.shows_progress:
            yield line.tell
            return
        done = threading.Event()
        thread = threading.Thread(target=line.show, args=(done,), daemon=True)
        thread.start()
        try:
            yield line.tell
        finally:
            done.set()
            thread.join()


class _Line:
    def __init__(self, what: str, *, is_terminal: bool) -> None:
        self._text = what
        self._is_terminal = is_terminal
        self._began_s = time.monotonic()

    def tell(self, what: str, done: int, of: int) -> None:
        self._text = f"{what}: {done:,} of {of:,}" if of else what

    def show(self, done: threading.Event) -> None:
        if done.wait(PATIENCE_S):
            return
        while True:
            line = f"{self._text}, {time.monotonic() - self._began_s:.0f} s"
            if self._is_terminal:
                print(f"\r\x1b[2K{line}", end="", file=sys.stderr, flush=True)
            else:
                print(line, file=sys.stderr, flush=True)
            if done.wait(EVERY_S if self._is_terminal else PATIENCE_S):
                break
        if self._is_terminal:
            print("\r\x1b[2K", end="", file=sys.stderr, flush=True)
