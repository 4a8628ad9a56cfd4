"""SCRAM: the vector of RFC 7677, and what a hostile or unusual client may send."""

import re

import pytest

from tierlog.clients.runtime.environment import SystemEnvironment
from tierlog.clients.sasl.scram_keys import (
    SCRAM_BY_NAME,
    SCRAM_SHA_256,
    SCRAM_SHA_512,
    ScramCredential,
    ScramMechanism,
    credential_of,
    decode64,
    encode64,
    proof_of,
    salted_password,
)
from tierlog.security.sasl.exchange import Proven, SaslFailure
from tierlog.security.sasl.scram import MESSAGE_BYTES_MAX, ScramExchange, ScramServer

_SALT = decode64("W22ZaJ0SNY7soEsUEjb6gQ==")
_FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
_FINAL = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p="
_PROOF = b"dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
_CLUSTER_SECRET = b"the same on all brokers"


def credential(mechanism: ScramMechanism, password: str = "pencil") -> ScramCredential:
    salted = salted_password(mechanism, password, _SALT, 4096)
    return credential_of(mechanism, salted, _SALT, 4096)


def server(mechanism: ScramMechanism = SCRAM_SHA_256, user: str = "user") -> ScramServer:
    kept = credential(mechanism)
    return ScramServer(
        mechanism,
        lambda _, name: kept if name == user else None,
        _CLUSTER_SECRET,
        SystemEnvironment().random_uuid,
    )


def rfc_exchange() -> ScramExchange:
    kept = credential(SCRAM_SHA_256)
    nonce = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    return ScramExchange(SCRAM_SHA_256, lambda _: (kept, True), nonce)


class Client:
    """A client that signs whatever messages it is made to send."""

    def __init__(
        self, mechanism: ScramMechanism = SCRAM_SHA_256, first: str = "n,,n=user,r=mine"
    ) -> None:
        self.mechanism = mechanism
        self.first = first
        self.challenge = ""

    def final(self, password: str = "pencil", binding: str = "biws", nonce: str = "") -> bytes:
        fields = dict(re.findall(r"(\w)=([^,]*)", self.challenge))
        unproven = f"c={binding},r={nonce or fields['r']}"
        bare = self.first.split(",", 2)[2]
        signed = f"{bare},{self.challenge},{unproven}".encode()
        salt, iterations = decode64(fields["s"]), int(fields["i"])
        salted = salted_password(self.mechanism, password, salt, iterations)
        proof = proof_of(self.mechanism, salted, signed)
        return f"{unproven},p={encode64(proof)}".encode()

    def begin(self, exchange: ScramExchange) -> None:
        step = exchange.evaluate(self.first.encode())
        assert step.proven is None
        self.challenge = step.token.decode()


def test_the_vector_of_rfc_7677() -> None:
    exchange = rfc_exchange()
    first = exchange.evaluate(_FIRST)
    assert first.token == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    last = exchange.evaluate(_FINAL + _PROOF)
    assert last.token == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert last.proven == Proven("user")


@pytest.mark.parametrize("name", SCRAM_BY_NAME)
def test_a_client_of_either_mechanism_gets_in_with_a_new_nonce_each_time(name: str) -> None:
    mechanism, challenges = SCRAM_BY_NAME[name], set[str]()
    for _ in range(3):
        exchange, client = server(mechanism).begin(), Client(mechanism)
        client.begin(exchange)
        challenges.add(client.challenge)
        assert exchange.evaluate(client.final()).proven == Proven("user")
    assert len(challenges) == 3
    assert all(len(each.split(",")[0]) >= len("r=mine") + 22 for each in challenges)


@pytest.mark.parametrize(
    ("first", "user", "binding"),
    [
        ("n,,n=a=2Cb=3Dc,r=mine", "a,b=c", "biws"),
        ("n,a=user,n=user,r=mine", "user", encode64(b"n,a=user,")),
        ("n,a=user,n=user,r=mine", "user", "biws"),
        ("n,,n=user,r=a=b=c,other=x", "user", "biws"),
        ("n,,n=jürgen,r=mine", "jürgen", "biws"),
    ],
)
def test_what_real_clients_send_is_understood(first: str, user: str, binding: str) -> None:
    exchange, client = server(user=user).begin(), Client(first=first)
    client.begin(exchange)
    assert exchange.evaluate(client.final(binding=binding)).proven == Proven(user)


@pytest.mark.parametrize(
    "first",
    [
        "",
        "n,,n=user",
        "n,,n=user,r=",
        "n,,n=,r=mine",
        "n,,r=mine,n=user",
        "y,,n=user,r=mine",
        "p=tls-unique,,n=user,r=mine",
        "n,,m=ext,n=user,r=mine",
        "n,,n=us=er,r=mine",
        "n,,n=us=2cer,r=mine",
        "n,,n=user,r=mi ne",
        "n,a=other,n=user,r=mine",
        "n,,n=user,r=mine,tokenauth=true",
        "n,,n=user,r=mine,",
        "n,,n=us\0er,r=mine",
    ],
)
def test_a_bad_first_message_fails(first: str) -> None:
    with pytest.raises(SaslFailure) as raised:
        server().begin().evaluate(first.encode())
    assert raised.value.text is None


@pytest.mark.parametrize(
    "final",
    [
        b"",
        _FINAL,
        _FINAL + b"====",
        _FINAL + b"AAAA",
        _FINAL + _PROOF[:-4] + b"AAA=",
        _FINAL.replace(b"%hvY", b"%hvZ") + _PROOF,
        _FINAL.replace(b"%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0", b"") + _PROOF,
        _FINAL.replace(b"biws", b"eSws") + _PROOF,
        _FINAL[:-3] + b",x=y,p=" + _PROOF,
        _FINAL + _PROOF + b",x=y",
        b"\xff",
    ],
)
def test_a_bad_final_message_fails(final: bytes) -> None:
    exchange = rfc_exchange()
    exchange.evaluate(_FIRST)
    with pytest.raises(SaslFailure) as raised:
        exchange.evaluate(final)
    assert raised.value.text is None


def test_a_wrong_password_fails() -> None:
    exchange, client = server().begin(), Client()
    client.begin(exchange)
    with pytest.raises(SaslFailure, match="the user is unknown or the password is wrong"):
        exchange.evaluate(client.final("pencils"))


@pytest.mark.parametrize("password", ["pencil", "pencils"])
@pytest.mark.parametrize("user", ["user", "nobody"])
def test_the_error_for_an_old_librdkafka_says_to_replace_it(user: str, password: str) -> None:
    """Its final message has the client's nonce twice; whose it is makes no difference."""
    client = Client(first=f"n,,n={user},r=mine")
    exchange = server().begin()
    client.begin(exchange)
    ours = client.challenge.split(",")[0].removeprefix("r=mine")
    with pytest.raises(SaslFailure) as raised:
        exchange.evaluate(client.final(password, nonce=f"minemine{ours}"))
    assert raised.value.cause == raised.value.text
    assert raised.value.text == (
        "The client has sent its nonce twice, as librdkafka does before version 2.6.1, so that"
        " no password is accepted: use 2.6.1 or newer (kcat and confluent-kafka are built on it)."
    )


def test_an_unknown_user_looks_like_a_known_one_until_the_end() -> None:
    def challenge_of(who: str, broker: ScramServer) -> tuple[str, str]:
        client = Client(first=f"n,,n={who},r=mine")
        exchange = broker.begin()
        client.begin(exchange)
        with pytest.raises(SaslFailure, match="the user is unknown or the password is wrong"):
            exchange.evaluate(client.final("guess"))
        _, salt, iterations = client.challenge.split(",")
        return salt, iterations

    first, second = server(), server()
    assert challenge_of("nobody", first) == challenge_of("nobody", second)
    assert challenge_of("nobody", first) != challenge_of("somebody", first)
    assert challenge_of("nobody", first)[1] == challenge_of("user", first)[1] == "i=4096"
    # Both mechanisms' salts differ too, as a user's own do.
    assert challenge_of("nobody", first) != challenge_of("nobody", server(SCRAM_SHA_512))


def test_no_key_proves_an_unknown_user() -> None:
    """The keys of an unknown user are zeros: who sends the matching proof still fails."""
    exchange, client = server().begin(), Client(first="n,,n=nobody,r=mine")
    client.begin(exchange)
    final = f"c=biws,r={client.challenge.split(',')[0][2:]}".encode()
    signed = f"n=nobody,r=mine,{client.challenge},".encode() + final
    signature = SCRAM_SHA_256.hmac(bytes(32), signed)
    with pytest.raises(SaslFailure):
        exchange.evaluate(final + b",p=" + encode64(signature).encode())


def test_a_credential_shows_no_key() -> None:
    kept = credential(SCRAM_SHA_256)
    assert repr(kept) == str(kept) == "ScramCredential(iterations=4096, keys=********)"


@pytest.mark.parametrize("first", [b"n,,n=%s,r=mine", b"n,,n=user,r=%s", b"n,,n=user,r=a,x=%s"])
def test_a_message_of_a_stranger_is_short(first: bytes) -> None:
    """Half a megabyte, which SASL's limit lets through, would take seconds to parse."""
    server().begin().evaluate(first % (b"a" * 1_000))
    with pytest.raises(SaslFailure, match="longer than 8192 bytes"):
        server().begin().evaluate(first % (b"a" * MESSAGE_BYTES_MAX))


def test_the_final_message_is_short_too() -> None:
    exchange = rfc_exchange()
    exchange.evaluate(_FIRST)
    with pytest.raises(SaslFailure, match="longer than 8192 bytes"):
        exchange.evaluate(_FINAL[:-3] + b",x=" + b"a" * MESSAGE_BYTES_MAX + b",p=" + _PROOF)
