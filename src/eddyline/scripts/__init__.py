"""Scripts that say what the engine must do, for anyone to read: streams, queries, pushes, and every result expected of them.

    # a subscription hears only its own rows
    stream lots (id int, price int)
    query  cheap: SELECT id FROM lots
      WHERE price < 10
    push lots (1, 5), (2, 50)
      cheap +1

A line at the margin is a command, indented lines below it continue its text or say what is expected of it. `#` starts a comment.

  zone Europe/Berlin                          the session's time zone; before everything else
  stream NAME (col type, …) [time COL] [lateness 5 seconds]
                                              declares a stream; again under the same name: changes it
  query NAME [(param = value, …)]: SQL        registers a query
  queries watch-{sym} (sym, low) ('A', 1), ('B', 2): SQL
                                              registers a template with a table of parameters
  replace NAME [(param = value, …)]: SQL      gives a query another text
  pause NAME    resume NAME    drop NAME
  sql STATEMENT[; STATEMENT …]                anything `engine.sql` takes
  push STREAM (value, …), (…) [, STREAM (…) …] [token 'x']
                                              one round; `@7 (value, …)` gives a row arrival number 7
  tick ['2026-01-01 00:05:00' | +10 minutes]  a round without rows, then, or so much later than the clock says
  now '2026-01-01 00:05:00' | +10 minutes     sets the clock, which does not move otherwise (it starts at 2026-01-01)

Values are NULL, true, false, numbers, NaN, Infinity, 'text' (also for dates and times), X'00ff', [lists], {field: value} and
{'key': value}. A number is what its column makes of it.

Expected of a push or tick, complete: a result that is not named, or named and not there, is a difference.

  NAME +value, …        a result of the query; `-` for one that leaves. Of an update both: the row as it was, and as it is
  alert NAME firing [value, …]
  alert NAME resolved [value, …] [: REASON]
                        a message of an alert, with the values of its key and why it resolved; as soon as a script names one,
                        all of them have to be named
  dead NAME [: TEXT]    a (row, query) pair in the dead letters, TEXT being part of its error or message
  dead [: TEXT]         a row that does not fit its stream
  late N                how many of the rows are late (checked only where it is given)

Of any command: `error TEXT`, it is refused with a message that has TEXT in it (several lines: each).
"""

from eddyline.scripts.run import Difference, run_file, run_script
from eddyline.scripts.text import Script, ScriptError, parse_script, read_script

__all__ = ["Difference", "Script", "ScriptError", "parse_script", "read_script", "run_file", "run_script"]
