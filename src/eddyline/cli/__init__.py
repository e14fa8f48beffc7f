"""The command line: the same words as in Python, on a home that no process holds and, through its socket, on a running one.

Enters: words from a shell. Leaves: results on stdout, everything else on stderr, and an exit code: 0 done, 1 the query or the
data is wrong, 2 the command is wrong. No algorithm lives here: `session.py` finds the engine, the handlers ask it,
`output.py` prints.
"""

from eddyline.cli.main import main

__all__ = ["main"]
