"""Detects when a broker is up, in the same way for any Kafka-compatible broker.

A broker is up when its Metadata response lists at least one broker. An open port is not enough:
Apache Kafka opens it long before.
"""

import errno
import random
import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress

from ....storage.system_calls import OUTGOING_PORTS
from ..measurement_error import MeasurementError

API_VERSIONS = 18
METADATA = 3
_GIVEN_OUT = OUTGOING_PORTS
"""The range of ephemeral ports, for connections and for listeners on port 0."""
_LOWEST_PORT = 10_000
"""The lowest port of `free_port`, above those that other servers commonly use."""
_PORT_TRIES = 100
_POLL_S = 0.005
_CHANCE = random.SystemRandom()
"""Not the shared generator: property tests seed it with the same value in concurrent processes."""


class NotUpError(MeasurementError):
    """The broker did not answer in time, or its process ended."""


def _read_exactly(connection: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        chunk = connection.recv(size - len(received))
        if not chunk:
            raise ConnectionResetError("The broker closed the connection.")
        received += chunk
    return bytes(received)


def _ask(connection: socket.socket, api_key: int, api_version: int, body: bytes) -> bytes:
    """Send one request with a version 1 header and return the response without its header."""
    client_id = b"probe"
    header = struct.pack(">hhih", api_key, api_version, 0, len(client_id)) + client_id
    connection.sendall(struct.pack(">i", len(header) + len(body)) + header + body)
    (size,) = struct.unpack(">i", _read_exactly(connection, 4))
    return _read_exactly(connection, size)[4:]


def answers_api_versions(host: str, port: int) -> bool:
    """Whether a listener of any kind, a controller's too, answers ApiVersions."""
    try:
        with socket.create_connection((host, port), timeout=2) as connection:
            versions = _ask(connection, API_VERSIONS, 0, b"")
            return bool(struct.unpack_from(">h", versions)[0] == 0)
    except OSError:
        return False


def answers_metadata(host: str, port: int) -> bool:
    """Whether the broker answers ApiVersions, and Metadata with at least one broker."""
    try:
        with socket.create_connection((host, port), timeout=2) as connection:
            versions = _ask(connection, API_VERSIONS, 0, b"")
            if struct.unpack_from(">h", versions)[0] != 0:
                return False
            # Version 1 with an empty array requests no topics, only brokers.
            metadata = _ask(connection, METADATA, 1, struct.pack(">i", 0))
            return bool(struct.unpack_from(">i", metadata)[0] >= 1)
    except OSError:
        return False


def wait_until_up(
    host: str, port: int, timeout_s: float, is_alive: Callable[[], bool] = lambda: True
) -> float:
    """Seconds until the first Metadata response; NotUpError if there is none in time."""
    began = time.monotonic()
    while time.monotonic() - began < timeout_s:
        if answers_metadata(host, port):
            return time.monotonic() - began
        if not is_alive():
            raise NotUpError(f"The process that should listen on {host}:{port} has ended.")
        time.sleep(_POLL_S)
    raise NotUpError(f"No Metadata answer from {host}:{port} within {timeout_s:g} s.")


def _ports_to_choose_from() -> range:
    """The ports outside the ephemeral range; if there are few, only 0: the kernel then chooses."""
    # Without that file: Linux's own default, which is below macOS's.
    first_given_out = 32_768
    if _GIVEN_OUT is not None:
        with suppress(OSError, ValueError, IndexError), open(_GIVEN_OUT) as limits:
            first_given_out = int(limits.read().split()[0])
    ports = range(_LOWEST_PORT, first_given_out)
    return ports if len(ports) >= _PORT_TRIES else range(1)


def free_port() -> int:
    """A TCP port of 127.0.0.1 that is free now, and is likely to stay free.

    If possible it is outside the ephemeral range: an ephemeral port may soon be used by a
    connection, even by a client that keeps trying to connect to its broker on this port (a
    connection to its own port succeeds). A broker that starts or restarts on the port would then
    find it in use.

    Raises OSError if none was found.
    """
    ports = _ports_to_choose_from()
    for _ in range(_PORT_TRIES):
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", _CHANCE.choice(ports)))
            except OSError:
                continue
            port: int = listener.getsockname()[1]
            return port
    raise OSError(errno.EADDRINUSE, "No free port of 127.0.0.1 was found.")
