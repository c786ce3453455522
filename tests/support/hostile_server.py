"""A server that breaks http in many ways, on raw sockets in a thread: the path says how it behaves."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

GOOD = json.dumps({"outputs": [1.0]}).encode()


def reply(body: bytes, status: str = "200 OK", *, length: int | None = None, more: str = "") -> bytes:
    length = len(body) if length is None else length
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n{more}"
    return head.encode() + b"\r\n" + body


def whole_request(connection: socket.socket) -> bytes:
    """Head and body: a connection that is closed with bytes unread is reset, and the answer may be lost."""
    request = connection.recv(1 << 16)
    while b"\r\n\r\n" not in request or len(request.split(b"\r\n\r\n", 1)[1]) < body_length(request):
        more = connection.recv(1 << 16)
        if not more:
            break
        request += more
    return request


def body_length(request: bytes) -> int:
    lengths = [line.split(b":")[1] for line in request.split(b"\r\n") if line.lower().startswith(b"content-length:")]
    return int(lengths[0]) if lengths else 0


class HostileServer:
    """Answers one row; counts the requests, and keeps what was sent."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        self.requests: list[bytes] = []
        self.open = True

    def serve(self) -> None:
        while self.open:
            with suppress(OSError):
                connection, _ = self.socket.accept()
                threading.Thread(target=self.answer, args=(connection,), daemon=True).start()

    def answer(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            request = whole_request(connection)
            self.requests.append(request)
            getattr(self, "at_" + request.split(b" ", 2)[1].decode().strip("/").split("?")[0])(connection, request)

    def at_good(self, connection: socket.socket, request: bytes) -> None:
        connection.sendall(reply(GOOD))

    def at_drip(self, connection: socket.socket, request: bytes) -> None:
        """A byte now and then: no single wait is long."""
        connection.sendall(reply(b"", length=1000))
        while self.open:
            connection.sendall(b" ")
            time.sleep(0.05)

    def at_drip_headers(self, connection: socket.socket, request: bytes) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        while self.open:
            connection.sendall(b"a")
            time.sleep(0.05)

    def at_silent(self, connection: socket.socket, request: bytes) -> None:
        time.sleep(5.0)

    def at_endless(self, connection: socket.socket, request: bytes) -> None:
        connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{"outputs": [1.0')
        while self.open:
            connection.sendall(b"0" * 65536)

    def at_short(self, connection: socket.socket, request: bytes) -> None:
        connection.sendall(reply(GOOD, length=1000))

    def at_garbage(self, connection: socket.socket, request: bytes) -> None:
        connection.sendall(bytes(range(256)) * 4)

    def at_headers(self, connection: socket.socket, request: bytes) -> None:
        """More headers than the library takes."""
        connection.sendall(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n")

    def at_length(self, connection: socket.socket, request: bytes) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: minus one\r\nConnection: close\r\n\r\n" + GOOD)

    def at_chunks(self, connection: socket.socket, request: bytes) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n" + GOOD)

    def at_deep(self, connection: socket.socket, request: bytes) -> None:
        connection.sendall(reply(b'{"outputs": ' + b"[" * 200_000))

    def at_huge(self, connection: socket.socket, request: bytes) -> None:
        connection.sendall(reply(b'{"outputs": [' + b"9" * 20_000 + b"]}"))

    def at_echo(self, connection: socket.socket, request: bytes) -> None:
        """Says back everything that was sent, in the status line and in the body."""
        sent = next((line for line in request.split(b"\r\n") if line.lower().startswith(b"authorization")), b"none").decode()
        connection.sendall(reply(request, f"400 bad {sent}"))

    def at_echo_body(self, connection: socket.socket, request: bytes) -> None:
        connection.sendall(reply(b"\n".join(sorted(request.split(b"\r\n"))[:3])))

    def at_busy(self, connection: socket.socket, request: bytes) -> None:
        """429 with a Retry-After of the caller's choice (the query), once."""
        wait = request.split(b" ", 2)[1].partition(b"?")[2].decode("latin-1")
        if len(self.requests) % 2:
            connection.sendall(reply(b"", "429 Busy", more=f"Retry-After: {wait}\r\n"))
        else:
            self.at_good(connection, request)


@contextmanager
def hostile_server() -> Iterator[HostileServer]:
    """A server while the block runs."""
    server = HostileServer()
    threading.Thread(target=server.serve, daemon=True).start()
    try:
        yield server
    finally:
        server.open = False
        server.socket.close()
