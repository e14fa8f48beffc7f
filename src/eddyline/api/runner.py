"""Running a pipeline in this process: sources are polled, rounds run, sinks are served, until somebody says stop.

For the command line:

    summary = run(load_pipeline(path), once=args.once, on_event=show, on_progress=line)

or, to hold the engine while it runs (the socket, a dashboard, a second thread that calls `stop`):

    with Runner(pipeline, on_event=…, on_progress=…) as runner:     # opens the home, declares, imports, applies the rules
        serve_commands(runner.engine)
        summary = runner.run(once=False)                             # returns after stop(), SIGINT or SIGTERM
"""

from __future__ import annotations

# Being written; what the command line may count on:
#
#   run(pipeline, *, engine=None, once=False, until=None, on_event=None, on_progress=None, stdin=None, stdout=None) -> RunSummary
#   class Runner(pipeline, *, engine=None, on_event=None, on_progress=None, stdin=None, stdout=None, apply=True)
#       .engine, .run(once=False, until=None, signals=True) -> RunSummary, .stop(), .close()
#   class RunProgress   what, n_rounds, n_rows, n_results, n_dead, seconds, and `line`, one line of text for a terminal
#   class RunSummary    n_rounds, n_rows, n_results, n_dead, seconds, ended_by ("once", "until", "stop", "signal", "sources")
#
# on_event gets every engine event and those of eddyline.events about sources and sinks; on_progress is called for anything that
# takes over two seconds, about once a second, with a RunProgress. `until` is called with a RunProgress after every round.
