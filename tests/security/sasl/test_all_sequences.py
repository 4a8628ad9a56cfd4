"""Every sequence of what a client may send before it is authenticated, against a small oracle."""

from itertools import product

import pytest

from tierlog.security.sasl.authenticator import Reply, SaslAuthenticator
from tierlog.security.sasl.transitions import SaslState
from tierlog.security.session import ANONYMOUS

from .sasl_frames import Clock, authenticator, joined, read_handshake, read_token
from .sasl_oracle import CLOSED, EVENTS, Oracle

CLOCK = Clock()


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
