"""HTTP/1.1 connections with deadlines. Nothing is retried, redirected or sent through a proxy
here. http.client parses the answers; its own time-out is for each read, not for a whole answer."""

from __future__ import annotations

import io
import os
import socket
import ssl
import time
from collections import deque
from http.client import HTTPMessage, HTTPResponse, IncompleteRead
from typing import Any, Deque, NamedTuple, Optional, Tuple, cast

#: What is read of an answer at most; the service's are far smaller.
MAX_ANSWER = 8 << 20

# Servers and load balancers close connections that are idle for longer.
_MAX_IDLE_SECONDS = 30
_MAX_IDLE_CONNECTIONS = 16


class ConnectError(Exception):
    """The connection was not made, so nothing was sent."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.trusted = not isinstance(cause, ssl.SSLCertVerificationError)


class Answer(NamedTuple):
    status: int
    headers: HTTPMessage
    body: bytes


class Transport:
    """Keeps idle connections to one host. It is safe for threads, whose idle connections are
    in a deque with atomic operations, and for forks: a child does not use its parent's."""

    def __init__(self, host: str, port: int, tls: Optional[ssl.SSLContext], connect_timeout: float) -> None:
        self._host = host
        self._port = port
        self._tls = tls
        self._connect_timeout = connect_timeout
        self._idle: Deque[_Connection] = deque()

    def send(self, method: str, request: bytes, deadline: float) -> Answer:
        """Send one request and read its answer until a deadline of the monotonic clock."""
        connection = self._take_idle() or self._connect(deadline)
        reusable = False
        try:
            answer, reusable = connection.exchange(method, request, deadline)
            return answer
        finally:
            if reusable and len(self._idle) < _MAX_IDLE_CONNECTIONS:
                connection.idle_since = time.monotonic()
                self._idle.append(connection)
            else:
                connection.close()

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def __del__(self) -> None:
        self.close()

    def _take_idle(self) -> Optional[_Connection]:
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return None
            if connection.is_usable():
                return connection
            connection.close()

    def _connect(self, deadline: float) -> _Connection:
        # The system bounds the time of the name's resolution, not this deadline.
        deadline = min(deadline, time.monotonic() + self._connect_timeout)
        try:
            addresses = socket.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
            for tried, (family, kind, protocol, _, address) in enumerate(addresses):
                # One address that does not answer leaves time for the others.
                share = _remaining(deadline) / (len(addresses) - tried)
                connection = socket.socket(family, kind, protocol)
                try:
                    connection.settimeout(share)
                    connection.connect(address)
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    return _Connection(self._secure(connection, deadline))
                except OSError as error:
                    connection.close()
                    if isinstance(error, ssl.SSLError) or tried == len(addresses) - 1:
                        raise
                except BaseException:
                    connection.close()
                    raise
            raise OSError("the host has no address")
        except (OSError, UnicodeError) as error:
            raise ConnectError(error) from None

    def _secure(self, connection: socket.socket, deadline: float) -> socket.socket:
        if self._tls is None:
            return connection
        secured = self._tls.wrap_socket(connection, server_hostname=self._host, do_handshake_on_connect=False)
        try:
            secured.settimeout(_remaining(deadline))
            secured.do_handshake()
        except BaseException:
            secured.close()
            raise
        return secured


class _Connection:
    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._deadline = 0.0
        self._process = os.getpid()
        self.idle_since = 0.0

    def exchange(self, method: str, request: bytes, deadline: float) -> Tuple[Answer, bool]:
        """Return the answer, and whether the connection can be used again."""
        self._deadline = deadline
        self._send(request)
        response = HTTPResponse(cast(socket.socket, self), method=method)
        try:
            response.begin()
            body = bytearray()
            while len(body) < MAX_ANSWER:
                part = response.read(min(1 << 16, MAX_ANSWER - len(body)))
                if not part:
                    break
                body += part
            if response.length and len(body) < MAX_ANSWER:
                raise IncompleteRead(b"", response.length)
            reusable = response.isclosed() and not response.will_close
            return Answer(response.status, response.headers, bytes(body)), reusable
        finally:
            response.close()

    def is_usable(self) -> bool:
        """Tell whether an idle connection is this process's, recent, and silent: readable means
        that it was closed or has bytes that belong to no request."""
        if self._process != os.getpid() or time.monotonic() - self.idle_since > _MAX_IDLE_SECONDS:
            return False
        try:
            self._socket.settimeout(0)
            # Below TLS, whose recv takes no flags.
            socket.socket.recv(self._socket, 1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    def close(self) -> None:
        self._socket.close()

    def makefile(self, mode: str) -> io.BufferedReader:
        """Return what HTTPResponse reads from."""
        return io.BufferedReader(_Reader(self))

    def receive_into(self, buffer: Any) -> int:
        self._socket.settimeout(_remaining(self._deadline))
        return self._socket.recv_into(buffer)

    def _send(self, request: bytes) -> None:
        unsent = memoryview(request)
        while unsent:
            self._socket.settimeout(_remaining(self._deadline))
            unsent = unsent[self._socket.send(unsent) :]


class _Reader(io.RawIOBase):
    def __init__(self, connection: _Connection) -> None:
        self._connection = connection

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._connection.receive_into(buffer)


def _remaining(deadline: float) -> float:
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise TimeoutError("timed out")
    return seconds
