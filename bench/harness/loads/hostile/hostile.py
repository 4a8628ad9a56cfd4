"""A hostile client, in a separate process so that its work is not counted as the broker's.

Run as `python -m tierlog.bench.harness.loads.hostile.hostile ATTACK --bootstrap … --seconds …`;
prints one JSON object: connections opened, megabytes sent. The attacks are in `attacks.py`.
"""

import argparse
import json
import selectors
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import cast

from .attack import Again, Attack
from .attacks import ATTACKS, attack_named

_RECEIVE_BYTES = 1 << 20
_SEND_BYTES = 1 << 20
_POLL_S = 0.05
_RECEIVE_BUFFER = 4_096
"""The receive buffer of connections that are not read."""


class _Caller:
    """One connection of an attack, and its position in the bytes to send."""

    def __init__(self, attack: Attack, address: tuple[str, int], content: bytes) -> None:
        self.opened = time.monotonic()
        self.at = 0
        self._attack = attack
        self._content = memoryview(content)
        self._until = len(content) if attack.pace is None else attack.pace.at_once
        """What it may send by now."""
        self.socket = socket.socket()
        if not attack.reads:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
        self.socket.settimeout(1.0)
        try:
            self.socket.connect(address)
        except OSError:
            self.socket.close()
            raise
        self.socket.setblocking(False)

    @property
    def events(self) -> int:
        """The events to wait for, which always include the end of the connection."""
        is_sending = self.at < self._until
        if self._attack.reads or not is_sending:
            return selectors.EVENT_READ | (selectors.EVENT_WRITE if is_sending else 0)
        return selectors.EVENT_WRITE

    def receive(self) -> bool:
        """Read a response; returns False if the connection has ended."""
        try:
            received = self.socket.recv(_RECEIVE_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if self._attack.again is Again.ANSWERED and self.at == len(self._content):
            self.at = 0
        return bool(received)

    def go_on(self, size: int) -> None:
        """Of a slow connection: it may send this many more bytes."""
        self._until = min(self._until + size, len(self._content))

    def send(self, size: int) -> int:
        """Send up to `size` bytes; returns -1 if the connection has ended."""
        try:
            sent = self.socket.send(self._content[self.at : min(self.at + size, self._until)])
        except BlockingIOError:
            return 0
        except OSError:
            return -1
        self.at += sent
        if self.at == len(self._content) and self._attack.again is Again.ALWAYS:
            self.at = 0
        return sent


class _Attacker:
    """All connections of an attack."""

    def __init__(self, attack: Attack, address: tuple[str, int]) -> None:
        self._attack = attack
        self._address = address
        self._callers: set[_Caller] = set()
        self._contents: dict[int, bytes] = {}
        self._selector = selectors.DefaultSelector()
        self._next_s = 0.0
        self.opened = 0
        self.sent_bytes = 0

    def run(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self._open_missing()
            for key, events in self._selector.select(_POLL_S):
                self._serve(cast("_Caller", key.data), key.events, events)
            self._trickle()
            self._leave()

    def _open_missing(self) -> None:
        missing = self._attack.connections - len(self._callers)
        for _ in range(missing):
            number = self.opened % max(self._attack.connections, 80)
            if number not in self._contents:
                self._contents[number] = self._attack.content(number)
            try:
                caller = _Caller(self._attack, self._address, self._contents[number])
            except OSError:
                # The broker accepts no more connections for now.
                time.sleep(_POLL_S)
                return
            self.opened += 1
            self._callers.add(caller)
            self._selector.register(caller.socket, caller.events, caller)

    def _serve(self, caller: _Caller, waited: int, events: int) -> None:
        if events & selectors.EVENT_READ and not caller.receive():
            self._close(caller)
            return
        if events & selectors.EVENT_WRITE:
            sent = caller.send(_SEND_BYTES)
            if sent < 0:
                self._close(caller)
                return
            self.sent_bytes += sent
        if caller.events != waited:
            self._selector.modify(caller.socket, caller.events, caller)

    def _trickle(self) -> None:
        """Let slow connections send a little more."""
        pace, now = self._attack.pace, time.monotonic()
        if pace is None or now < self._next_s:
            return
        self._next_s = now + pace.every_s
        for caller in list(self._callers):
            caller.go_on(pace.then)
            registered = self._selector.get_key(caller.socket).events
            self._serve(caller, registered, selectors.EVENT_WRITE)

    def _leave(self) -> None:
        stays_s = self._attack.stays_s
        if stays_s is not None:
            now = time.monotonic()
            for caller in [each for each in self._callers if now - each.opened > stays_s]:
                self._close(caller)

    def _close(self, caller: _Caller) -> None:
        self._callers.discard(caller)
        with suppress(KeyError):
            self._selector.unregister(caller.socket)
        caller.socket.close()


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser("hostile")
    parser.add_argument("attack", choices=ATTACKS)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--weight", type=float, default=1.0)
    stated = parser.parse_args(arguments)
    host, _, port = stated.bootstrap.rpartition(":")
    attacker = _Attacker(attack_named(stated.attack, stated.weight), (host, int(port)))
    attacker.run(stated.seconds)
    print(json.dumps({"opened": attacker.opened, "sent_mb": attacker.sent_bytes / 1e6}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
