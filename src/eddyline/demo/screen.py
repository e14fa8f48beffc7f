"""What the demo says: numbered steps with plain lines below them; on a terminal also what is going on right now."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.text import Text

EVERY_S = 3.0  # a line about what goes on, where there is no terminal
INDENT = 3


class Screen:
    """Prints to stdout: wrapped below its step on a terminal, whole lines elsewhere."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False)
        self._n_steps = 0

    @property
    def is_terminal(self) -> bool:
        return self.console.is_terminal

    def title(self, text: str) -> None:
        self._print(Text(text, style="bold"), 0)

    def step(self, text: str) -> None:
        """The heading of the next step."""
        self._n_steps += 1
        self.console.print()
        self._print(Text(f"{self._n_steps}  {text}", style="bold cyan"), 0)

    def say(self, text: str, style: str = "", *, indent: int = INDENT) -> None:
        self._print(Text(text, style=style), indent)

    def check(self, holds: bool, text: str) -> bool:
        """Say what a check found, and whether that is right."""
        word = ("ok    ", "bold green") if holds else ("WRONG ", "bold red")
        self._print(Text.assemble(word, text), INDENT)
        return holds

    def _print(self, text: Text, indent: int) -> None:
        if self.is_terminal:
            self.console.print(Padding(text, (0, 0, 0, indent), expand=False))
        else:
            self.console.print(" " * indent + text.plain, soft_wrap=True, markup=False)
            self.console.file.flush()

    @contextmanager
    def waiting(self, text: str) -> Iterator[Callable[[str], None]]:
        """Say what is waited for; what is yielded says something else instead."""
        if self.is_terminal:
            with self.console.status(text) as status:
                yield status.update
        else:
            self.say(f"{text} …")
            yield lambda progress: self.say(f"{progress} …")

    @contextmanager
    def watching(self, panel: Callable[[], RenderableType], line: Callable[[], str]) -> Iterator[None]:
        """Show a panel below everything else while this lasts; without a terminal a line now and then."""
        if self.is_terminal:
            with Live(get_renderable=panel, console=self.console, refresh_per_second=8, transient=True):
                yield
            return
        is_over = threading.Event()

        def tell() -> None:
            while not is_over.wait(EVERY_S):
                self.say(line())

        thread = threading.Thread(target=tell, name="eddyline-demo-lines", daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()
