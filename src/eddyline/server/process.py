"""A server in its process: the socket, the signals, and the order in which everything ends.

On SIGTERM or SIGINT: /ready says no, no new client is let in, streams of events end, requests under way are answered, then rounds
end after the one in flight, sinks get what is theirs, and the home is closed. A second signal does not wait for requests.
"""

from __future__ import annotations

import contextlib
import resource
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from types import FrameType

import uvicorn

from eddyline.api import Engine, log_start
from eddyline.errors import PropertyError
from eddyline.server.app import create_app
from eddyline.server.limits import KEEP_ALIVE_S, MOST_CONNECTIONS, OPEN_FILES
from eddyline.server.protocol import ImpatientProtocol
from eddyline.server.service import Service, Settings

BACKLOG = 2_048
REQUESTS_END_S = 10
UNANSWERED_S = (
    60.0  # after which a client that confirms nothing of what it was sent, as without a network, is gone
)
LINK_S = 3_600  # how long the link of the first start is good
START_S = 30.0
LINK_NOTE = "first start"


class _Server(uvicorn.Server):
    """uvicorn, which tells the service first that the end has come, and leaves the process alive after it."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {
            number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit:
            self.force_exit = True
        self.ask_to_end()

    def ask_to_end(self) -> None:
        """Begin to shut down. Safe from any thread, and in a signal handler."""
        self._service.is_draining = True
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._service.hub.end_streams()
        await super().shutdown(sockets)


class Serving:
    """A server at work in a thread: `url`, and `stop`. Also a context manager."""

    def __init__(self, service: Service, server: _Server, thread: threading.Thread, link: str | None) -> None:
        self.service = service
        self.url = service.settings.url
        self.link = link  # logs a browser in, once; None if there are tokens already
        self._server = server
        self._thread = thread

    def token(self, role: str = "admin", *, owner: str = "", note: str = "notebook") -> str:
        """A token for this engine, for programs and the client; it is shown only now."""
        return str(self.service.commands.token_add(role=role, owner=owner, note=note, who=note)["token"])

    def stop(self) -> None:
        """End it: requests under way are answered. The engine stays open."""
        self._server.ask_to_end()
        self._thread.join()
        self.service.close()

    def __enter__(self) -> Serving:
        return self

    def __exit__(self, *why: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<eddyline server at {self.url}>"


def serve_in_thread(engine: Engine, settings: Settings) -> Serving:
    """Serve an engine from a thread of this process, until `stop`."""
    service, server, listener = _new_server(engine, settings)
    link = first_link(service)
    failure: list[BaseException] = []

    def run() -> None:
        try:
            with engine.summaries:
                server.run(sockets=[listener])
        except BaseException as error:  # reported below, or in the log
            failure.append(error)
            raise

    thread = threading.Thread(target=run, name="eddyline server", daemon=True)
    log_start(engine, url=service.settings.url)
    thread.start()
    waited = threading.Event()
    for _ in range(int(START_S / 0.01)):
        if server.started or failure or not thread.is_alive():
            break
        waited.wait(0.01)
    assert server.started, f"the server did not start: {failure}"
    return Serving(service, server, thread, link)


def serve_until_signal(
    engine: Engine,
    settings: Settings,
    *,
    on_start: Callable[[Service, str | None], None],
    trouble: Callable[[], str | None] = lambda: None,
    spark: str | None = None,
) -> None:
    """Serve an engine in the main thread until SIGINT or SIGTERM; `on_start` gets the service, and the link of a first start.

    `spark` is the version of PySpark if rounds run there, for the log.
    """
    _allow_files()
    service, server, listener = _new_server(engine, settings)
    service.trouble = trouble
    try:
        log_start(engine, url=service.settings.url, spark=spark)
        on_start(service, first_link(service))
        with engine.summaries:
            server.run(sockets=[listener])
    finally:
        service.close()


def _new_server(engine: Engine, settings: Settings) -> tuple[Service, _Server, socket.socket]:
    listener = _listener(settings.host, settings.port)
    try:
        port = int(listener.getsockname()[1])
        service = Service.of(engine, settings.at_port(port))
        config = uvicorn.Config(
            create_app(service),
            http=ImpatientProtocol,
            loop="auto",
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,  # it would log query strings
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=REQUESTS_END_S,
            backlog=BACKLOG,
            limit_concurrency=MOST_CONNECTIONS,
        )
    except BaseException:
        listener.close()
        raise
    return service, _Server(config, service), listener


def _listener(host: str, port: int) -> socket.socket:
    """A socket bound to the address, or what is wrong with it."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise PropertyError(f"there is no address {host} to serve at", detail=str(error)) from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux; its connections inherit it
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(UNANSWERED_S * 1000))
        listener.bind(address)
        listener.listen(BACKLOG)  # a client that learns the address may connect at once
        listener.set_inheritable(False)
    except OSError as error:
        listener.close()
        raise PropertyError(
            f"cannot serve at {host}:{port}",
            detail=str(error),
            hint="Give another --port, or stop the process that uses this one; --port 0 takes any free port.",
        ) from None
    return listener


def _allow_files() -> None:
    """Let this process have a file for every connection, as far as the system lets it: shells often allow a thousand."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < limit:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def first_link(service: Service) -> str | None:
    """A link that logs one browser in as an admin, if there is no other way to be one. Earlier ones end."""
    tokens, now_us = service.access.tokens, service.now_us()
    there = tokens.list()
    if any(t.role == "admin" and not t.is_single_use and t.is_valid(now_us) for t in there):
        return None
    for old in there:
        if old.is_single_use and old.note == LINK_NOTE:
            tokens.drop(old.id)
    _, text = tokens.add(
        "admin", now_us, note=LINK_NOTE, expires_us=now_us + LINK_S * 1_000_000, is_single_use=True
    )
    return f"{service.settings.url}/login?token={text}"
