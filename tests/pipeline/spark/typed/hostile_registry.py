"""A server that answers what a registry never should."""

import json
import socket
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress

Answer = bytes | Callable[[socket.socket], None]


def answer(body: object, status: int = 200, headers: str = "") -> bytes:
    """A response of HTTP."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(content)}\r\n{headers}\r\n"
    return head.encode() + content


def drip(connection: socket.socket) -> None:
    """Send a byte now and then, and never an end."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n[")
    _go_on(connection, b" ")


def drip_headers(connection: socket.socket) -> None:
    """Send headers a byte at a time."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
    _go_on(connection, b"x")


def drip_to_the_end(connection: socket.socket) -> None:
    """Send a byte now and then in an answer that ends with the connection."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n[")
    _go_on(connection, b" ")


def flood_a_chunk(connection: socket.socket) -> None:
    """Send, in a chunk of negative length, as much as is taken."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n")
    with suppress(OSError):
        while True:
            connection.sendall(b"x" * 65536)


def _go_on(connection: socket.socket, content: bytes) -> None:
    """Send this again and again until the client has gone."""
    connection.settimeout(0.05)
    with suppress(OSError):
        while True:
            connection.sendall(content)
            with suppress(TimeoutError):
                if not connection.recv(1):
                    return


@contextmanager
def registry(answers: Mapping[str, Answer]) -> Generator[tuple[str, list[str]]]:
    """Its URL, and the heads of the requests that come; it answers by path, and 404 otherwise."""
    requests: list[str] = []
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection:
                head = connection.recv(65536).decode()
                requests.append(head)
                path = head.split(" ")[1]
                stated = answers.get(path, answer({"error_code": 40401, "message": "none"}, 404))
                if callable(stated):
                    stated(connection)
                else:
                    with suppress(OSError):
                        connection.sendall(stated)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", requests
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join(30)
