"""One HTTP request after the other to one receiver, over a connection that is kept, to an address that was checked.

Redirects are not followed: their addresses were not checked. A request has one time limit, from connecting to the last
byte of the answer, so that a receiver that sends a byte now and then does not hold it for ever. How long a name is looked up is
for the system to say.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, urlsplit

from eddyline.delivery.sinks.addresses import Address, Resolve, checked_addresses, resolve_name

ANSWER_BYTES = 64 << 10  # what is read of an answer; if there is more, the connection is given up
SCHEMES = {"http": 80, "https": 443}

Connect = Callable[[Address, float], socket.socket]


class PostFailed(Exception):
    """No answer came; it is not known whether the receiver has the request."""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    status: int
    retry_after: str | None
    text: str


@dataclass(frozen=True, slots=True)
class Target:
    """A URL taken apart."""

    scheme: str
    host: str
    port: int
    path: str  # with the query

    @property
    def host_header(self) -> str:
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if self.port == SCHEMES[self.scheme] else f"{name}:{self.port}"

    @property
    def public_url(self) -> str:
        """Without the path, which may hold what only the receiver should know."""
        return f"{self.scheme}://{self.host_header}"


def target_of(url: str) -> Target:
    """Take a URL apart. Raises ValueError that says what is wrong, without showing the URL."""
    if any(ord(c) <= 32 or ord(c) == 127 for c in url):
        raise ValueError("it has blanks or control characters in it")
    try:
        parts: SplitResult = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError("it cannot be read") from None
    if parts.scheme not in SCHEMES:
        raise ValueError("it does not begin with https:// or http://")
    if not parts.hostname:
        raise ValueError("it names no host")
    if "@" in parts.netloc:
        raise ValueError("it has a user or a password in it")
    if parts.fragment:
        raise ValueError("it has a part after #")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if not path.isascii():
        raise ValueError("its path has characters that have to be escaped with %")
    return Target(parts.scheme, parts.hostname, SCHEMES[parts.scheme] if port is None else port, path)


def connect_to(address: Address, timeout_s: float) -> socket.socket:
    connection = socket.socket(address.family, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout_s)
        connection.connect(address.place)
    except BaseException:
        connection.close()
        raise
    return connection


class Poster:
    """Requests to one target, one at a time. `interrupt` may be called from another thread, and ends the one under way."""

    def __init__(
        self,
        target: Target,
        *,
        timeout_s: float,
        allow_private: bool,
        resolve: Resolve = resolve_name,
        connect: Connect = connect_to,
        tls: ssl.SSLContext | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._target = target
        self._timeout_s = timeout_s
        self._allow_private = allow_private
        self._resolve = resolve
        self._connect = connect
        self._tls = tls
        self._clock = clock
        self._line: _Line | None = None
        self._is_interrupted = False

    def post(self, body: bytes, headers: Mapping[str, str]) -> HttpAnswer:
        """Send a request and read the answer. Raises PostFailed, and AddressRefused if it may not go there."""
        deadline = self._clock() + self._timeout_s
        while True:
            is_kept = self._line is not None
            try:
                line = self._line or self._open(deadline)
                line.deadline = deadline
                return self._exchange(line, body, headers)
            except (ConnectionError, http.client.BadStatusLine) as error:  # closed, perhaps while it was idle
                self._drop()
                if not is_kept or self._is_interrupted:
                    raise PostFailed(_in_words(error)) from None
            except (OSError, http.client.HTTPException) as error:
                self._drop()
                raise PostFailed(_in_words(error)) from None

    def interrupt(self) -> None:
        self._is_interrupted = True
        line = self._line
        if line is not None:
            line.shut()

    def close(self) -> None:
        """Give up the connection; another request would make another."""
        self._drop()

    # ----------------------------------------------------------------------------------------- inside

    def _open(self, deadline: float) -> _Line:
        target = self._target
        addresses = checked_addresses(
            target.host, target.port, allow_private=self._allow_private, resolve=self._resolve
        )
        failure: OSError = OSError("no address answers")
        for address in addresses:
            left_s = deadline - self._clock()
            if left_s <= 0:
                raise TimeoutError
            try:
                connection = self._connect(address, left_s)
            except OSError as error:
                failure = error
                continue
            line = self._line = _Line(connection, self._clock)
            if self._is_interrupted:
                raise ConnectionAbortedError
            connection.settimeout(max(deadline - self._clock(), 0.001))
            with contextlib.suppress(OSError):  # not every socket has it
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if target.scheme == "https":
                self._tls = self._tls or ssl.create_default_context()
                line.socket = self._tls.wrap_socket(connection, server_hostname=target.host)
            return line
        raise failure

    def _exchange(self, line: _Line, body: bytes, headers: Mapping[str, str]) -> HttpAnswer:
        connection = http.client.HTTPConnection(self._target.host)
        connection.auto_open = 0
        connection.sock = line  # which has all that is used of a socket
        connection.putrequest("POST", self._target.path, skip_host=True, skip_accept_encoding=True)
        connection.putheader("Host", self._target.host_header)
        connection.putheader("Content-Length", str(len(body)))
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders(body)
        response = connection.getresponse()
        if line.has_ended:  # before the head of the answer did, which http.client takes for a whole one
            raise ConnectionResetError
        text = b""
        try:
            text = response.read(ANSWER_BYTES)
            is_whole = response.isclosed() or not response.read(1)
        except (OSError, http.client.HTTPException):  # what it decided is known all the same
            is_whole = False
        if response.will_close or not is_whole:
            self._drop()
        return HttpAnswer(response.status, response.getheader("Retry-After"), text.decode("utf-8", "replace"))

    def _drop(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            line.socket.close()


class _Line:
    """A socket with a point in time by which everything must have happened."""

    def __init__(self, connection: socket.socket, clock: Callable[[], float]) -> None:
        self.socket = connection
        self.deadline = 0.0
        self.has_ended = False
        self._clock = clock

    def sendall(self, data: Any) -> None:
        self.socket.settimeout(self._left_s())
        self.socket.sendall(data)

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Incoming(self))

    def receive(self, buffer: Any) -> int:
        self.socket.settimeout(self._left_s())
        n_bytes = self.socket.recv_into(buffer)
        self.has_ended = not n_bytes
        return n_bytes

    def shut(self) -> None:
        with contextlib.suppress(OSError):  # it may be closed already
            self.socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Keep the connection open: it outlives the answer, and its opener closes it."""

    def _left_s(self) -> float:
        left_s = self.deadline - self._clock()
        if left_s <= 0:
            raise TimeoutError
        return left_s


class _Incoming(io.RawIOBase):
    def __init__(self, line: _Line) -> None:
        self._line = line

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._line.receive(buffer)


_OF_ANOTHER = (62, 64)  # what OpenSSL says if the name, or the address, is not in the certificate


def _in_words(error: Exception) -> str:
    """What happened, without anything of the request."""
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    if isinstance(error, ssl.SSLCertVerificationError):
        is_other = error.verify_code in _OF_ANOTHER
        return (
            "its certificate is for another host" if is_other else f"its certificate: {error.verify_message}"
        )
    if isinstance(error, ssl.SSLError):
        return f"no secure connection ({error.reason or 'TLS failed'})"
    if isinstance(error, socket.gaierror):
        return "the name of the host cannot be resolved"
    if isinstance(error, ConnectionRefusedError):
        return "it refuses connections"
    if isinstance(error, ConnectionError):
        return "it closed the connection without an answer"
    if isinstance(error, http.client.HTTPException):
        return "its answer is not HTTP"
    return error.strerror if isinstance(error, OSError) and error.strerror else "no connection"
