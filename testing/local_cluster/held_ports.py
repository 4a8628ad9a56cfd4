"""Ports of 127.0.0.1 that belong to a local cluster, also while the nodes behind them are down.

A port is held by a socket that is bound and does not listen: a node listens there beside it, since
both set SO_REUSEADDR, and nobody else's choice of a free port meets it. So clusters that start at
the same time, as in the workers of a test run, have different ports. New ones are below those that
the system gives to outgoing connections, one of which could have a port when its node starts again.
"""

import socket
from collections.abc import Collection
from random import Random

from ...storage.files import Files
from ...storage.system_calls import OUTGOING_PORTS

_HOST = "127.0.0.1"
_LOWEST = 10_000
"""Above the ports that other servers commonly use."""
_HIGHEST = 32_767
_TRIES_MAX = 500


class NoPortError(Exception):
    """No free port was met."""


class HeldPorts:
    """The ports of one cluster; there are as many as its plan has nodes and listeners."""

    def __init__(self, random: Random, files: Files) -> None:
        self._random = random
        self._range = _port_range(files)
        self._held: dict[int, socket.socket] = {}

    def hold(self, port: int) -> bool:
        """Hold a port of an earlier start; False if another program has it."""
        if port in self._held:
            return True
        # Connections of the earlier start may linger there: only a listener is in the way.
        probe = _bind(port, is_shared=True)
        if probe is None:
            return False
        with probe:
            try:
                probe.listen()
            except OSError:
                return False
        held = _bind(port, is_shared=True)
        if held is None:
            return False
        self._held[port] = held
        return True

    def hold_new(self, but: Collection[int]) -> int:
        """Hold a free port that is none of `but`. Raises NoPortError."""
        for _ in range(_TRIES_MAX):
            port = self._random.randint(*self._range)
            if port in but or port in self._held:
                continue
            held = _bind(port, is_shared=False)
            if held is not None:
                held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                self._held[port] = held
                return port
        lowest, highest = self._range
        raise NoPortError(f"No free port was met from {lowest} to {highest} of {_HOST}.")

    def release(self, port: int) -> None:
        """Hold a port no longer."""
        held = self._held.pop(port, None)
        if held is not None:
            held.close()

    def close(self) -> None:
        """Release all."""
        for port in list(self._held):
            self.release(port)


def _bind(port: int, *, is_shared: bool) -> socket.socket | None:
    """A socket that is bound to the port; None if it cannot be."""
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        if is_shared:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((_HOST, port))
    except OSError:
        bound.close()
        return None
    return bound


def _port_range(files: Files) -> tuple[int, int]:
    """The ports to choose from, both ends included."""
    highest = _HIGHEST
    try:
        if OUTGOING_PORTS is not None:
            highest = int(files.read(OUTGOING_PORTS).split()[0]) - 1
    except (OSError, ValueError, IndexError):
        highest = _HIGHEST
    return (_LOWEST, highest if highest > _LOWEST + _TRIES_MAX else _HIGHEST)
