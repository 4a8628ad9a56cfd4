"""The messages of OAUTHBEARER, and how long a session with a token lasts."""

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.security.sasl.exchange import SaslFailure
from tierlog.security.sasl.oauth.exchange import OAuthBearerMechanism
from tierlog.security.sasl.oauth.message import (
    MESSAGE_BYTES_MAX,
    BearerMessage,
    MalformedMessage,
    parse_message,
)
from tierlog.security.sasl.oauth.token import TokenRefused, ValidToken
from tierlog.security.sasl.transitions import SaslState

from ..sasl_frames import Clock, authenticate, authenticator, handshake, joined, read_token
from .tokens import message

INVALID = '{"status":"invalid_token"}'


def validate(token: str) -> ValidToken:
    """A token is the name, and how many seconds it has left."""
    name, _, seconds = token.partition(".")
    if name == "bad":
        raise TokenRefused("it is bad")
    if name == "narrow":
        raise TokenRefused("it is narrow", "[read]")
    return ValidToken(name, Clock().now.wall_ms + 1_000 * float(seconds or "60"))


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        (b"n,,\x01auth=Bearer abc\x01\x01", BearerMessage("abc", "")),
        (b"n,,\x01auth=bEARER  a-b_c~+/.9==\x01\x01", BearerMessage("a-b_c~+/.9==", "")),
        (b"n,a=alice,\x01auth=Bearer abc\x01\x01", BearerMessage("abc", "alice")),
        (b"n,a=a=2Cb=3D,\x01auth=Bearer abc\x01\x01", BearerMessage("abc", "a=2Cb=3D")),
        (b"n,,\x01host=x=y\x01auth=Bearer abc\x01port= 1\t\x01\x01", BearerMessage("abc", "")),
    ],
)
def test_a_message_holds_a_token(sent: bytes, read: BearerMessage) -> None:
    assert parse_message(sent) == read


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"\x01",
        b"n,,auth=Bearer abc\x01\x01",
        b"n,,\x01auth=Bearer abc\x01",
        b"n,,\x01auth=Bearer abc\x01\x01\x01",
        b"y,,\x01auth=Bearer abc\x01\x01",
        b"n,a=,\x01auth=Bearer abc\x01\x01",
        b"n,a=a=b,\x01auth=Bearer abc\x01\x01",
        b"n,,\x01auth=Basic abc\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Bearer a b\x01\x01",
        b"n,,\x01auth=Bearer =\x01\x01",
        b"n,,\x01other=x\x01\x01",
        b"n,,\x01a1=x\x01auth=Bearer abc\x01\x01",
        b"n,,\x01\x01",
        b"n,,\x01auth=Bearer \xff\x01\x01",
        b"n,,\x01auth=Bearer " + b"a" * MESSAGE_BYTES_MAX + b"\x01\x01",
    ],
)
def test_what_is_no_message_is_refused(sent: bytes) -> None:
    with pytest.raises(MalformedMessage):
        parse_message(sent)


def test_a_good_token_is_one_message() -> None:
    step = OAuthBearerMechanism(validate).begin().evaluate(message("alice", "alice"))
    assert step.token == b""
    assert step.proven is not None
    assert step.proven.name == "alice"


@pytest.mark.parametrize(
    ("token", "said"),
    [("bad", INVALID), ("narrow", '{"status":"insufficient_scope", "scope":"[read]"}')],
)
def test_a_refused_token_takes_two(token: str, said: str) -> None:
    exchange = OAuthBearerMechanism(validate).begin()
    step = exchange.evaluate(message(token))
    assert (step.token.decode(), step.proven) == (said, None)
    with pytest.raises(SaslFailure) as raised:
        exchange.evaluate(b"\x01")
    assert raised.value.text == said


def test_whoever_does_not_acknowledge_a_refusal_gets_no_other_try() -> None:
    exchange = OAuthBearerMechanism(validate).begin()
    exchange.evaluate(message("bad"))
    with pytest.raises(SaslFailure) as raised:
        exchange.evaluate(message("alice"))
    assert raised.value.text is None


def test_a_token_is_for_its_subject_only() -> None:
    with pytest.raises(SaslFailure) as raised:
        OAuthBearerMechanism(validate).begin().evaluate(message("alice", "root"))
    assert raised.value.text == (
        "Authentication failed: Client requested an authorization id (root) that is different from"
        " the token's principal name (alice)"
    )


@pytest.mark.parametrize(
    ("token", "max_reauth_ms", "lifetime_ms"),
    [
        ("alice.60", 0, 60_000),
        ("alice.60", 5_000, 5_000),
        ("alice.2", 5_000, 2_000),
        ("alice.-20", 0, 0),
        ("alice.1e300", 0, (1 << 63) - 1),
    ],
)
def test_a_session_ends_with_its_token(token: str, max_reauth_ms: int, lifetime_ms: int) -> None:
    clock = Clock()
    sasl = authenticator(OAuthBearerMechanism(validate), max_reauth_ms=max_reauth_ms)
    sasl.receive(memoryview(handshake("OAUTHBEARER")), clock.now)
    # A + in a token is no exponent's sign.
    reply = sasl.receive(memoryview(authenticate(message(token))), clock.now)
    answer = read_token(joined(tuple(reply.answer)))
    assert answer.session_lifetime_ms == lifetime_ms
    assert sasl.state is SaslState.COMPLETE
    assert sasl.session.expires_at == clock.seconds + lifetime_ms / 1_000


def test_the_client_learns_of_the_refusal_twice() -> None:
    sasl, clock = authenticator(OAuthBearerMechanism(validate)), Clock()
    sasl.receive(memoryview(handshake("OAUTHBEARER")), clock.now)
    first = sasl.receive(memoryview(authenticate(message("bad"))), clock.now)
    answer = read_token(joined(tuple(first.answer)))
    assert (answer.error_code, answer.auth_bytes) == (ErrorCode.NONE, INVALID.encode())
    assert not first.failure
    second = sasl.receive(memoryview(authenticate(b"\x01")), clock.now)
    answer = read_token(joined(tuple(second.answer)))
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == INVALID
    assert second.is_delayed
    assert "it is bad" in second.failure


@pytest.mark.parametrize(("name", "is_same"), [("alice", True), ("bob", False)])
def test_a_session_goes_on_with_a_newer_token_of_the_same_subject(name: str, is_same: bool) -> None:
    sasl, clock = authenticator(OAuthBearerMechanism(validate)), Clock()
    for token in ("alice.60", f"{name}.3600"):
        clock.seconds += 30
        sasl.receive(memoryview(handshake("OAUTHBEARER")), clock.now)
        reply = sasl.receive(memoryview(authenticate(message(token))), clock.now)
    answer = read_token(joined(tuple(reply.answer)))
    assert (sasl.state is SaslState.COMPLETE) == is_same
    if is_same:
        assert sasl.session.expires_at == 100 + 3600
    else:
        assert answer.error_message == (
            "Cannot change principals during re-authentication from User.alice: User.bob"
        )
