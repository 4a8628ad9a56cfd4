"""Every sequence of what a client may send before it is authenticated, against a small oracle.

The oracle is written from the protocol's rules (KIP-43, KIP-152), not from the table.
"""

from itertools import product

import pytest

from tierlog.broker.security.sasl.authenticator import Reply, SaslAuthenticator
from tierlog.broker.security.sasl.transitions import SaslState
from tierlog.broker.security.session import ANONYMOUS

from .sasl_frames import (
    BAD,
    GOOD,
    Clock,
    authenticate,
    authenticator,
    handshake,
    joined,
    metadata,
    read_handshake,
    read_token,
    versions,
)

EVENTS: dict[str, bytes] = {
    "versions": versions(),
    "versions unknown": versions(wire_version=32767),
    "versions unnamed": versions(name=" "),
    "handshake": handshake(),
    "handshake bare": handshake(version=0),
    "handshake disabled": handshake("GSSAPI"),
    "handshake unknown": handshake(wire_version=32767),
    "token": authenticate(),
    "token bad": authenticate(BAD),
    "token unknown": authenticate(wire_version=32767),
    "bare token": GOOD,
    "metadata": metadata(),
}
assert len(EVENTS) == 12
CLOCK = Clock()
CLOSED = "closed"


class Oracle:
    """What a client may get, by what it has sent so far."""

    def __init__(self) -> None:
        self.said_versions = False
        self.waits_for = "handshake"

    def answer_to(self, event: str) -> str:
        if self.waits_for == "handshake":
            return self._before_handshake(event)
        if self.waits_for == "bare token":
            self.waits_for = "nothing"
            return "bare proof" if event == "bare token" else f"{CLOSED} silently, later"
        self.waits_for = "nothing"
        answers = {
            "token": "proof",
            "token bad": f"{CLOSED} with 58",
            "versions": f"{CLOSED} with 34",
            "handshake": f"{CLOSED} with 34",
            "handshake bare": f"{CLOSED} with 34",
            "handshake disabled": f"{CLOSED} with 34",
            "versions unnamed": f"{CLOSED} with 34",
            "metadata": f"{CLOSED} with 34",
        }
        return answers.get(event, CLOSED)

    def _before_handshake(self, event: str) -> str:
        if event.startswith("versions") and not self.said_versions:
            self.said_versions = event == "versions"
            return "versions"
        if event in ("handshake", "handshake bare"):
            self.waits_for = "token" if event == "handshake" else "bare token"
            return "mechanisms"
        return f"{CLOSED} with 33" if event == "handshake disabled" else CLOSED


def described(event: str, reply: Reply, is_bare: bool) -> str:
    """A reply in the oracle's words."""
    answer = joined(tuple(reply.answer))
    if not reply.failure:
        assert not reply.is_delayed
        if reply.asks_for_versions:
            assert not answer
            return "versions"
        if is_bare:
            assert answer == bytes(4)
            return "bare proof"
        if event.startswith("handshake"):
            assert read_handshake(answer).error_code == 0
            assert read_handshake(answer).mechanisms == ["PLAIN"]
            return "mechanisms"
        assert read_token(answer).error_code == 0
        return "proof"
    assert not reply.asks_for_versions
    assert "sesame" not in reply.failure
    if not answer:
        return f"{CLOSED} silently, later" if reply.is_delayed else CLOSED
    assert reply.is_delayed
    return f"{CLOSED} with {error_in(event, answer)}"


def error_in(event: str, answer: bytes) -> int:
    if event.startswith("token"):
        return read_token(answer).error_code
    behind_correlation_id = 8
    if event == "metadata":
        # Version 13 has the error behind the topics: it is the last field before the tags.
        return int.from_bytes(answer[-3:-1], "big")
    return int.from_bytes(answer[behind_correlation_id : behind_correlation_id + 2], "big")


def play(sequence: tuple[str, ...]) -> None:
    sasl, oracle = authenticator(), Oracle()
    for event in sequence:
        wanted = oracle.answer_to(event)
        is_bare = sasl.state is SaslState.BARE_TOKENS
        reply = sasl.receive(memoryview(EVENTS[event]), CLOCK.now)
        assert described(event, reply, is_bare) == wanted, (sequence, event)
        if reply.failure:
            check_end(sasl)
            return
        if wanted.endswith("proof"):
            assert sasl.state is SaslState.COMPLETE
            assert sasl.session.principal == "User:alice"
            return
        assert sasl.session.principal == ANONYMOUS


def check_end(sasl: SaslAuthenticator) -> None:
    """Nothing revives a failed connection."""
    assert sasl.state is SaslState.FAILED
    assert sasl.session.principal == ANONYMOUS
    for frame in EVENTS.values():
        assert sasl.receive(memoryview(frame), CLOCK.now).failure
        assert sasl.state is SaslState.FAILED


def sequences_up_to(length: int) -> int:
    count = 0
    for size in range(1, length + 1):
        for sequence in product(EVENTS, repeat=size):
            play(sequence)
            count += 1
    return count


def test_every_sequence_of_up_to_three_gets_what_the_protocol_allows() -> None:
    assert sequences_up_to(3) == 12 + 12**2 + 12**3


@pytest.mark.long
def test_every_sequence_of_up_to_five_gets_what_the_protocol_allows() -> None:
    assert sequences_up_to(5) == 271_452
