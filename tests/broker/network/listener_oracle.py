"""What clients may get on each kind of listener, whatever they send: an oracle, and its plans."""

import asyncio
import ssl
from contextlib import suppress
from typing import NamedTuple

from tierlog.security.session import SecurityProtocol
from tierlog.tests.broker.socket_peers import Peer, frame
from tierlog.tests.security.sasl.sasl_oracle import CLOSED, EVENTS, Oracle
from tierlog.tests.security.tls.certificates import client_context

from .listener_kinds import BROKER

Sequence = tuple[str, ...]
OPEN: dict[str, int | None] = {
    "versions": 0,
    "versions unknown": 35,
    "versions unnamed": 42,
    "handshake": 34,
    "handshake bare": 34,
    "handshake disabled": 34,
    "handshake unknown": None,
    "token": 34,
    "token bad": 34,
    "token unknown": None,
    "bare token": None,
    "metadata": 0,
}
"""The error that an open connection gets for each event, and None if it is closed (`KafkaApis`)."""
VERSIONS = {event: error for event, error in OPEN.items() if event.startswith("versions")}


class Outcome(NamedTuple):
    """What an event leads to."""

    error: int | None
    """In the answer; None if there is no answer, 0 also for a token that is no request."""
    is_end: bool


class KindOracle:
    """What a client of one kind of listener may get, by what it has sent so far."""

    def __init__(self, name: str, protocol: SecurityProtocol) -> None:
        self._has_metadata = name == BROKER
        self._sasl = Oracle() if protocol.startswith("SASL_") else None

    def outcome_of(self, event: str) -> Outcome:
        if self._sasl is None:
            return self._open(event)
        said = self._sasl.answer_to(event)
        match said.partition(" with "):
            case ("versions", _, _):
                return Outcome(VERSIONS[event], False)
            case ("mechanisms", _, _):
                return Outcome(0, False)
            case ("proof" | "bare proof", _, _):
                self._sasl = None
                return Outcome(0, False)
            case (_, _, ""):
                assert said.startswith(CLOSED)
                return Outcome(None, True)
            case (_, _, code):
                return Outcome(int(code), True)

    def _open(self, event: str) -> Outcome:
        error = OPEN[event]
        if event == "metadata" and not self._has_metadata:
            # Controllers do not serve it.
            error = None
        return Outcome(error, error is None)


def error_of(event: str, answer: bytes) -> int:
    """The error in an answer, a frame without its size."""
    if not answer:
        # The proof of a token without a header.
        return 0
    if event == "metadata":
        return int.from_bytes(answer[-3:-1], "big")
    behind_header = 5 if event.startswith("token") else 4
    return int.from_bytes(answer[behind_header : behind_header + 2], "big")


def plan(name: str, protocol: SecurityProtocol, length: int) -> tuple[list[Sequence], int]:
    """The sequences to be played, and how many of up to this length they stand for."""
    plays: list[Sequence] = []
    count = 0
    beginnings: list[Sequence] = [()]
    while beginnings:
        beginning = beginnings.pop()
        for event in EVENTS:
            sequence = (*beginning, event)
            oracle = KindOracle(name, protocol)
            *_, last = (oracle.outcome_of(each) for each in sequence)
            left = length - len(sequence)
            if last.is_end or not left:
                plays.append(sequence)
                count += sum(len(EVENTS) ** more for more in range(left + 1))
            else:
                beginnings.append(sequence)
                count += 1
    return plays, count


async def play_on_socket(
    name: str, protocol: SecurityProtocol, port: int, sequence: Sequence
) -> None:
    """Play a sequence through the system's sockets, all its events at once."""
    tls = client_context() if protocol.endswith("SSL") else None
    peer = Peer(*await asyncio.open_connection("127.0.0.1", port, ssl=tls))
    peer.writer.write(b"".join(frame(EVENTS[event]) for event in sequence))
    oracle = KindOracle(name, protocol)
    expected = [oracle.outcome_of(event) for event in sequence]
    for event, outcome in zip(sequence, expected, strict=True):
        if outcome.error is not None:
            assert error_of(event, await peer.answer()) == outcome.error, sequence
    if expected[-1].is_end:
        assert await peer.is_closed_by_the_server(), sequence
    peer.writer.close()
    with suppress(ConnectionError, ssl.SSLError):
        await peer.writer.wait_closed()
