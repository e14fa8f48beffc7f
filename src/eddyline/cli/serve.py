"""`eddyline serve`: a pipeline, or a home alone, with HTTP and the dashboard."""

from __future__ import annotations

import argparse
import contextlib
import threading
from collections.abc import Iterator

from eddyline.api import Engine, PipelineRunner, open_engine, server_room
from eddyline.cli.logs import logging_to_stderr, tell_event
from eddyline.cli.output import Output
from eddyline.cli.running import ProgressLines, start_audit, tell_rules, workers_of
from eddyline.cli.session import home_of, pipeline_of
from eddyline.errors import HomeError
from eddyline.storage import holder_of


def serve(args: argparse.Namespace, out: Output) -> int:
    server = server_room()
    settings = server.Settings(
        host=args.host,
        port=args.port,
        public_url=args.public_url,
        open_metrics=args.open_metrics,
        requests_per_s=args.rate,
        streams_per_token=args.streams,
        burst=max(1, round(2 * args.rate)),
    )
    with logging_to_stderr(args, out), _running(args, out) as (engine, rounds):
        start_audit(args, engine)
        try:
            engine.listen()
        except HomeError as error:  # it is served all the same
            out.note(f"warning: {error}")

        def started(service: object, link: str | None) -> None:
            if out.is_json:
                url = getattr(service, "settings").url  # noqa: B009, the room of the server is loaded by name
                out.line({"url": url, "link": link})
            elif link is not None:
                out.secret(
                    f"log in, once, within an hour:  {link}",
                    otherwise="there is no token yet; create one with: eddyline token add --role admin",
                )

        server.serve_until_signal(
            engine,
            settings,
            on_start=started,
            trouble=lambda: None if rounds is None else rounds.trouble(),
            spark=None if rounds is None else rounds.spark_version,
        )
        out.note("shutting down")
    return 0


@contextlib.contextmanager
def _running(args: argparse.Namespace, out: Output) -> Iterator[tuple[Engine, _Rounds | None]]:
    """An engine: of a pipeline, which runs in a thread, or of a home whose rows are pushed."""
    pipeline = pipeline_of(args)
    if pipeline is None:
        home = home_of(args, None)
        holder = holder_of(home)
        if holder:
            raise HomeError(
                f"the home {home} is held by process {holder['pid']} ({holder['command']})",
                hint="End it first: a home is served by the process that holds it.",
            )
        with open_engine(home) as engine:
            engine.on_event(tell_event)
            threading.Thread(target=engine.warm_up, name="eddyline warming up", daemon=True).start()
            yield engine, None
        return
    with (
        workers_of(args, pipeline, out) as workers,
        PipelineRunner(
            pipeline,
            home=home_of(args, pipeline),
            on_event=tell_event,
            on_progress=ProgressLines(out),
            workers=workers,
        ) as runner,
    ):
        tell_rules(runner, out)
        rounds = _Rounds(runner)
        try:
            yield runner.engine, rounds
        finally:
            rounds.end()


class _Rounds:
    """The rounds of a pipeline, in a thread beside the server."""

    def __init__(self, runner: PipelineRunner) -> None:
        self._runner = runner
        self._error: BaseException | None = None
        self._has_ended = False
        self.spark_version = runner.spark_version
        self._thread = threading.Thread(target=self._run, name="eddyline rounds")
        self._thread.start()

    def _run(self) -> None:
        try:
            self._runner.run(signals=False, ends_with_sources=False)
        except BaseException as error:  # raised by `end`, and reported by /ready until then
            self._error = error
        self._has_ended = True

    def trouble(self) -> str | None:
        """Why no rounds run, or None if they do."""
        if self._error is not None:
            return f"the rounds have ended: {self._error}".partition("\n")[0]
        return "the rounds have ended" if self._has_ended else None

    def end(self) -> None:
        """End after the round in flight; raises what ended them if it was an error."""
        self._runner.stop()
        self._thread.join()
        if self._error is not None:
            raise self._error
