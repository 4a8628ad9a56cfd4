"""The authenticator: sentences, lifetimes, re-authentication (KIP-152, KIP-368)."""

import pytest

from tierlog.security.sasl.authenticator import LIFETIME_MAX_MS, Now, SaslAuthenticator
from tierlog.security.sasl.exchange import Mechanism, Proven, SaslFailure, Step
from tierlog.security.sasl.transitions import SaslState
from tierlog.security.session import Session

from .sasl_frames import (
    BAD,
    GOOD,
    Clock,
    authenticate,
    authenticator,
    handshake,
    joined,
    plain,
    read_handshake,
    read_token,
    versions,
)

HOUR_MS = 3_600_000


class Twostep:
    """A mechanism of two tokens: the name, then an empty one. Its credential may expire."""

    def __init__(self, name: str = "TWOSTEP", expires_at_ms: float | None = None) -> None:
        self.name = name
        self.expires_at_ms = expires_at_ms
        self._user = ""

    def begin(self) -> "Twostep":
        return Twostep(self.name, self.expires_at_ms)

    def evaluate(self, token: bytes) -> Step:
        if token == b"fail":
            raise SaslFailure("a cause for the log")
        if not self._user:
            self._user = token.decode()
            return Step(b"go on")
        return Step(b"welcome", Proven(self._user, self.expires_at_ms))


def log_in(sasl: SaslAuthenticator, clock: Clock, token: bytes = GOOD, version: int = 2) -> int:
    """Handshake and PLAIN; returns the lifetime that the client is given, in ms."""
    assert not sasl.receive(memoryview(handshake()), clock.now).failure
    reply = sasl.receive(memoryview(authenticate(token, version)), clock.now)
    assert not reply.failure
    return read_token(joined(tuple(reply.answer)), version).session_lifetime_ms


def failure_text(sasl: SaslAuthenticator, clock: Clock, frame: bytes) -> str | None:
    reply = sasl.receive(memoryview(frame), clock.now)
    assert reply.failure
    assert reply.is_delayed
    answer = read_token(joined(tuple(reply.answer)))
    assert answer.error_code == 58
    return answer.error_message


def test_a_session_is_the_users_and_ends_never_by_default() -> None:
    sasl, clock = authenticator(), Clock()
    assert log_in(sasl, clock) == 0
    assert sasl.session == Session("User:alice", "SASL_PLAINTEXT", "PLAIN", None, 1)
    assert not sasl.may_authenticate_again(clock.now)


def test_several_tokens_are_answered_one_by_one() -> None:
    sasl, clock = authenticator(plain(), Twostep()), Clock()
    listed = joined(tuple(sasl.receive(memoryview(handshake("TWOSTEP")), clock.now).answer))
    assert read_handshake(listed).mechanisms == ["PLAIN", "TWOSTEP"]
    for token, wanted in ((b"carol", b"go on"), (b"", b"welcome")):
        assert sasl.state is SaslState.TOKENS
        reply = sasl.receive(memoryview(authenticate(token)), clock.now)
        assert read_token(joined(tuple(reply.answer))).auth_bytes == wanted
    assert sasl.session.principal == "User:carol"


def test_bare_tokens_are_answered_bare() -> None:
    sasl, clock = authenticator(Twostep()), Clock()
    sasl.receive(memoryview(handshake("TWOSTEP", version=0)), clock.now)
    answers = [
        joined(tuple(sasl.receive(memoryview(token), clock.now).answer))
        for token in (b"carol", b"")
    ]
    assert answers == [b"\0\0\0\5go on", b"\0\0\0\7welcome"]
    assert sasl.state is SaslState.COMPLETE


def test_a_mechanism_without_a_sentence_gets_the_general_one() -> None:
    sasl, clock = authenticator(Twostep()), Clock()
    sasl.receive(memoryview(handshake("TWOSTEP")), clock.now)
    reply = sasl.receive(memoryview(authenticate(b"fail")), clock.now)
    assert "a cause for the log" in reply.failure
    text = read_token(joined(tuple(reply.answer))).error_message
    assert text == (
        "Authentication failed during authentication due to invalid credentials with SASL "
        "mechanism TWOSTEP"
    )


def test_the_reason_of_a_failure_holds_no_token() -> None:
    for token in (BAD, b"\0secret-user", b"\xffsecret"):
        sasl, clock = authenticator(), Clock()
        sasl.receive(memoryview(handshake()), clock.now)
        reply = sasl.receive(memoryview(authenticate(token)), clock.now)
        assert "barley" not in reply.failure
        assert "secret" not in reply.failure


@pytest.mark.parametrize(
    ("max_reauth_ms", "expires_in_ms", "lifetime_ms"),
    [
        (0, None, 0),
        (HOUR_MS, None, HOUR_MS),
        (0, 5_000, 5_000),
        (HOUR_MS, 5_000, 5_000),
        (4_000, 5_000, 4_000),
        (4_000, -1, 0),
        (1 << 70, None, LIFETIME_MAX_MS),
        (1 << 70, 1 << 80, LIFETIME_MAX_MS),
    ],
)
def test_a_session_lasts_as_long_as_listener_and_credential_allow(
    max_reauth_ms: int, expires_in_ms: int | None, lifetime_ms: int
) -> None:
    clock = Clock()
    expires_at = None if expires_in_ms is None else clock.now.wall_ms + expires_in_ms
    sasl = authenticator(Twostep(expires_at_ms=expires_at), max_reauth_ms=max_reauth_ms)
    sasl.receive(memoryview(handshake("TWOSTEP")), clock.now)
    sasl.receive(memoryview(authenticate(b"carol")), clock.now)
    reply = sasl.receive(memoryview(authenticate(b"")), clock.now)
    assert read_token(joined(tuple(reply.answer))).session_lifetime_ms == lifetime_ms
    ends = max_reauth_ms > 0 or expires_in_ms is not None
    wanted = clock.seconds + lifetime_ms / 1_000 if ends else None
    assert sasl.session.expires_at == wanted


def test_an_old_client_does_not_get_the_lifetime_of_its_session() -> None:
    sasl, clock = authenticator(max_reauth_ms=HOUR_MS), Clock()
    assert log_in(sasl, clock, version=0) == 0
    assert sasl.session.expires_at == clock.seconds + 3_600


def test_the_same_user_may_prove_itself_again_every_second() -> None:
    sasl, clock = authenticator(max_reauth_ms=HOUR_MS), Clock()
    log_in(sasl, clock)
    for _ in range(3):
        assert sasl.may_authenticate_again(clock.now)
        assert log_in(sasl, clock) == HOUR_MS
        assert sasl.session.expires_at == clock.seconds + 3_600
        assert sasl.session.authority == 1
        assert not sasl.may_authenticate_again(clock.now)
        clock.seconds += 1


def test_another_user_may_not_take_over() -> None:
    sasl, clock = authenticator(max_reauth_ms=HOUR_MS), Clock()
    log_in(sasl, clock)
    sasl.receive(memoryview(handshake()), clock.now)
    text = failure_text(sasl, clock, authenticate(b"\0bob\0swordfish"))
    assert text == "Cannot change principals during re-authentication from User.alice: User.bob"
    assert sasl.session.principal == "User:alice"


def test_another_mechanism_fails_at_its_first_token() -> None:
    sasl, clock = authenticator(plain(), Twostep(), max_reauth_ms=HOUR_MS), Clock()
    log_in(sasl, clock)
    reply = sasl.receive(memoryview(handshake("TWOSTEP")), clock.now)
    assert read_handshake(joined(tuple(reply.answer))).error_code == 0
    text = failure_text(sasl, clock, authenticate(b"alice"))
    assert text == (
        "SASL mechanism 'TWOSTEP' requested by client is not supported for re-authentication of "
        "mechanism 'PLAIN'"
    )


def test_a_mechanism_that_is_not_enabled_is_not_answered_once_the_client_was_let_in() -> None:
    sasl, clock = authenticator(max_reauth_ms=HOUR_MS), Clock()
    log_in(sasl, clock)
    reply = sasl.receive(memoryview(handshake("GSSAPI")), clock.now)
    assert reply.failure
    assert not reply.answer
    assert not reply.is_delayed


def test_a_failed_re_authentication_says_so() -> None:
    sasl, clock = authenticator(Twostep(), max_reauth_ms=HOUR_MS), Clock()
    sasl.receive(memoryview(handshake("TWOSTEP")), clock.now)
    for token in (b"carol", b""):
        sasl.receive(memoryview(authenticate(token)), clock.now)
    sasl.receive(memoryview(handshake("TWOSTEP")), clock.now)
    text = failure_text(sasl, clock, authenticate(b"fail"))
    assert text
    assert text.startswith("Authentication failed during re-authentication due to")


def test_what_is_no_handshake_ends_a_re_authentication() -> None:
    for frame in (versions(), authenticate(), b"", b"\0\x11"):
        sasl, clock = authenticator(max_reauth_ms=HOUR_MS), Clock()
        log_in(sasl, clock)
        assert sasl.receive(memoryview(frame), clock.now).failure


def test_a_frame_may_be_overwritten_after_it_was_received() -> None:
    sasl, clock = authenticator(Twostep()), Clock()
    sasl.receive(memoryview(handshake("TWOSTEP")), clock.now)
    buffer = bytearray(authenticate(b"carol"))
    sasl.receive(memoryview(buffer), clock.now)
    buffer[:] = bytes(len(buffer))
    sasl.receive(memoryview(authenticate(b"")), Now(0, 0))
    assert sasl.session.principal == "User:carol"


def test_a_mechanism_is_what_the_protocol_of_mechanisms_says() -> None:
    mechanisms: list[Mechanism] = [plain(), Twostep()]
    assert [each.name for each in mechanisms] == ["PLAIN", "TWOSTEP"]
