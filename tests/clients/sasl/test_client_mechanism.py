"""Who logs in: PLAIN's token, SCRAM by RFC 7677's vector, and brokers that lie."""

from collections.abc import Callable

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.runtime.environment import SystemEnvironment
from tierlog.clients.sasl.client_mechanism import client_mechanism
from tierlog.clients.sasl.scram_keys import (
    SCRAM_BY_NAME,
    SCRAM_SHA_256,
    credential_of,
    decode64,
    salted_password,
)
from tierlog.clients.sasl.scram_login import MESSAGE_BYTES_MAX, ScramLogin, ScramProof
from tierlog.clients.sasl.secret import Secret
from tierlog.security.sasl.exchange import Proven, SaslFailure
from tierlog.security.sasl.scram import ScramServer

RANDOM = SystemEnvironment().random_uuid
NONCE = "rOprNGfwEbeRWgbNEkqO"
WHOLE_NONCE = f"{NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SALT = "W22ZaJ0SNY7soEsUEjb6gQ=="
CHALLENGE = f"r={WHOLE_NONCE},s={SALT},i=4096".encode()
SIGNATURE = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def rfc_proof() -> ScramProof:
    def salted(salt: bytes, iterations: int) -> bytes:
        return salted_password(SCRAM_SHA_256, "pencil", salt, iterations)

    return ScramProof(SCRAM_SHA_256, "user", NONCE, salted)


def failure(act: Callable[[], object]) -> str:
    with pytest.raises(KafkaError) as raised:
        act()
    assert raised.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "pencil" not in raised.value.message
    return raised.value.message


def test_plain_sends_the_name_and_the_password() -> None:
    mechanism = client_mechanism("PLAIN", "élise", Secret("s,=cret"))
    exchange = mechanism.begin(RANDOM)
    assert mechanism.name == "PLAIN"
    assert exchange.first() == "\0élise\0s,=cret".encode()
    assert exchange.answer(b"") is None
    with pytest.raises(KafkaError, match="cannot hold a NUL"):
        client_mechanism("PLAIN", "a\0b", Secret("x"))


def test_scram_is_that_of_the_rfc() -> None:
    proof = rfc_proof()
    assert proof.first() == f"n,,n=user,r={NONCE}".encode()
    final = proof.answer(CHALLENGE)
    assert final == (
        f"c=biws,r={WHOLE_NONCE},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()
    )
    assert proof.answer(SIGNATURE) is None


@pytest.mark.parametrize("name", SCRAM_BY_NAME)
@pytest.mark.parametrize("user", ["alice", "a,b=c", "Zoë"])
def test_scram_logs_in_at_our_own_server(name: str, user: str) -> None:
    mechanism = SCRAM_BY_NAME[name]
    salt = b"sea salt"
    kept = credential_of(mechanism, salted_password(mechanism, "pencil", salt, 8192), salt, 8192)
    server = ScramServer(mechanism, lambda _, who: kept if who == user else None, b"x", RANDOM)

    def log_in(password: str) -> Proven | None:
        theirs = server.begin()
        ours = client_mechanism(name, user, Secret(password)).begin(RANDOM)
        final = ours.answer(theirs.evaluate(ours.first()).token)
        assert final is not None
        step = theirs.evaluate(final)
        assert ours.answer(step.token) is None
        return step.proven

    assert log_in("pencil") == Proven(user)
    with pytest.raises(SaslFailure):
        log_in("pencils")


def test_the_password_is_salted_once_for_all_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    salts: list[bytes] = []

    def salted(_: object, password: str, salt: bytes, iterations: int) -> bytes:
        salts.append(salt)
        return salted_password(SCRAM_SHA_256, password, salt, iterations)

    monkeypatch.setattr("tierlog.clients.sasl.scram_login.salted_password", salted)
    login = ScramLogin(SCRAM_SHA_256, "user", Secret("pencil"))
    nonces: set[bytes] = set()
    for salt in (SALT, SALT, "AAAA", SALT):
        exchange = login.begin(RANDOM)
        nonce = exchange.first().removeprefix(b"n,,n=user,r=")
        nonces.add(nonce)
        exchange.answer(b"r=%sx,s=%s,i=4096" % (nonce, salt.encode()))
    assert salts == [decode64(SALT), decode64("AAAA"), decode64(SALT)]
    assert len(nonces) == 4
    assert "pencil" not in repr(vars(login))


@pytest.mark.parametrize(
    ("challenge", "words"),
    [
        (CHALLENGE.replace(b"rOpr", b"rOpq"), "nonce does not continue"),
        (f"r={NONCE},s={SALT},i=4096".encode(), "nonce does not continue"),
        (CHALLENGE.replace(b"4096", b"4095"), "asks for 4095 iterations"),
        (CHALLENGE.replace(b"4096", b"16385"), "asks for 16385 iterations"),
        (CHALLENGE.replace(b"4096", b"9" * 4_000), "malformed"),
        (CHALLENGE.replace(b"gQ==", b"gQ="), "salt is malformed"),
        (b"m=future," + CHALLENGE, "first message of SCRAM is malformed"),
        (b"e=other-error", "malformed"),
        (b"", "malformed"),
        (b"\xff", "not UTF-8"),
        (CHALLENGE + b",a=" + b"x" * MESSAGE_BYTES_MAX, "longer than 8192 bytes"),
    ],
)
def test_a_broker_with_a_bad_challenge_gets_no_proof(challenge: bytes, words: str) -> None:
    assert words in failure(lambda: rfc_proof().answer(challenge))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"v=" + b"A" * 43 + b"=", "the broker does not know the user's password"),
        (SIGNATURE[:-2] + b"=", "signature is malformed"),
        (SIGNATURE[:-4], "does not know the user's password"),
        (SIGNATURE + b"=", "signature is malformed"),
        (b"", "final message of SCRAM is malformed"),
        (b"e=invalid-proof", "malformed"),
    ],
)
def test_who_cannot_sign_is_not_the_broker(answer: bytes, words: str) -> None:
    proof = rfc_proof()
    proof.answer(CHALLENGE)
    assert words in failure(lambda: proof.answer(answer))
