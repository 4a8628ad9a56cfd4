"""OAUTHBEARER at a real Kafka and at ours: the same answers to the same tokens and messages."""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tierlog.bench.harness.processes.kafka_peer import KafkaNode, run_tool
from tierlog.bench.harness.requests.probe import free_port
from tierlog.clients.errors import ErrorCode
from tierlog.clients.protocol.codec import decode
from tierlog.clients.protocol.header import RequestHeader, decode_response_header
from tierlog.clients.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from tierlog.clients.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tierlog.tests.broker_process import BrokerThread, RawClient
from tierlog.tests.security.sasl.logins import refusal
from tierlog.tests.security.sasl.oauth.tokens import (
    AUDIENCE,
    BAD_SIGNED,
    BAD_UNSECURED,
    BOTH,
    GOOD_SIGNED,
    GOOD_UNSECURED,
    ISSUER,
    REQUIRED_SCOPE,
    SHORT_OF_SCOPE,
    Make,
    claims,
    key_set,
    message,
    signed,
    unsecured,
)

pytestmark = [pytest.mark.long, pytest.mark.requires("java", "mvn")]

SIGNED, UNSECURED = "SIGNED", "UNSECURED"
PACKAGE = "org.apache.kafka.common.security.oauthbearer"
MODULE = f"{PACKAGE}.OAuthBearerLoginModule"
HANDLERS = {
    SIGNED: f"{PACKAGE}.OAuthBearerValidatorCallbackHandler",
    UNSECURED: f"{PACKAGE}.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler",
}
ALLOWED = "org.apache.kafka.sasl.oauthbearer.allowed.urls"


def properties(keys: Path) -> dict[str, str]:
    """What both have in their files."""
    stated = {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "connection.failed.authentication.delay.ms": "0",
    }
    for listener, handler in HANDLERS.items():
        own = f"listener.name.{listener.lower()}.oauthbearer."
        stated[f"{own}sasl.server.callback.handler.class"] = handler
        stated[f"{own}sasl.jaas.config"] = f"{MODULE} required;"
    # With any option Kafka logs in itself, for which it needs the name.
    stated[f"listener.name.{UNSECURED.lower()}.oauthbearer.sasl.jaas.config"] = (
        f'{MODULE} required unsecuredValidatorRequiredScope="{REQUIRED_SCOPE}"'
        ' unsecuredLoginStringClaim_sub="broker";'
    )
    own = f"listener.name.{SIGNED.lower()}.sasl.oauthbearer."
    return stated | {
        f"{own}jwks.endpoint.url": keys.as_uri(),
        f"{own}expected.audience": f"else,{AUDIENCE}",
        f"{own}expected.issuer": ISSUER,
    }


class OAuthKafka(KafkaNode):
    """A Kafka that may read that file of keys."""

    def __init__(self, directory: Path, keys: Path) -> None:
        self.ports = {SIGNED: free_port(), UNSECURED: free_port()}
        super().__init__(directory, properties=properties(keys))
        self._keys = keys
        own = {f"{name}://127.0.0.1:{port}" for name, port in self.ports.items()}
        for name in ("listeners", "advertised.listeners"):
            self._stated[name] = ",".join([self._stated[name], *sorted(own)])
        self._stated["listener.security.protocol.map"] = (
            f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,{SIGNED}:SASL_PLAINTEXT,"
            f"{UNSECURED}:SASL_PLAINTEXT"
        )

    def command(self, configuration: Path) -> list[str]:
        java, *rest = super().command(configuration)
        return [java, f"-D{ALLOWED}={self._keys.as_uri()}", *rest]


class Both(NamedTuple):
    ours: Mapping[str, int]
    kafkas: Mapping[str, int]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    folder = tmp_path_factory.mktemp("oauth")
    keys = folder / "keys.json"
    keys.write_bytes(key_set())
    stated = properties(keys) | {
        "listeners": f"PLAINTEXT://127.0.0.1:0,{SIGNED}://127.0.0.1:0,{UNSECURED}://127.0.0.1:0",
        "listener.security.protocol.map": (
            f"PLAINTEXT:PLAINTEXT,{SIGNED}:SASL_PLAINTEXT,{UNSECURED}:SASL_PLAINTEXT"
        ),
        ALLOWED: keys.as_uri(),
    }
    with OAuthKafka(folder / "kafka", keys) as kafka, BrokerThread(folder / "d", stated) as ours:
        assert ours.broker is not None
        bound = {each.name: each.port for each in ours.broker.listeners.bound}
        yield Both(bound, kafka.ports)


def answers(port: int, messages: list[bytes]) -> list[str]:
    """What is answered to each message, until the end of the connection."""
    seen: list[str] = []
    with RawClient(port) as client:
        client.send(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1)
        client.receive_frame()
        for each in messages:
            try:
                header = client.send(SaslAuthenticateRequest(auth_bytes=each), 2)
                answer = read(header, client.receive_frame())
            except (EOFError, ConnectionError):
                return [*seen, "closed"]
            code = ErrorCode(answer.error_code).name
            lasts = "for ever" if not answer.session_lifetime_ms else "until its end"
            said = answer.error_message or answer.auth_bytes.decode() or "welcome"
            seen.append(f"{code} {said} {lasts}")
    return seen


def read(header: RequestHeader, frame: bytes) -> SaslAuthenticateResponse:
    view = memoryview(frame)
    _, position = decode_response_header(header.api_key, header.api_version, view)
    return decode(SaslAuthenticateResponse, header.api_version, view, position)[0]


def compare(both: Both, listener: str, messages: list[bytes]) -> list[str]:
    ours = answers(both.ours[listener], messages)
    assert ours == answers(both.kafkas[listener], messages)
    return ours


@pytest.mark.parametrize("make", GOOD_SIGNED.values(), ids=GOOD_SIGNED)
def test_signed_tokens_that_are_accepted(both: Both, make: Make) -> None:
    (only,) = compare(both, SIGNED, [message(make(int(time.time())), "alice")])
    assert only.startswith("NONE welcome")


@pytest.mark.parametrize("make", BAD_SIGNED.values(), ids=BAD_SIGNED)
def test_signed_tokens_that_are_refused(both: Both, make: Make) -> None:
    first, second = compare(both, SIGNED, [message(make(int(time.time()))), b"\x01"])
    assert "invalid_token" in first
    assert second.startswith('SASL_AUTHENTICATION_FAILED {"status":"invalid_token"}')


@pytest.mark.parametrize("make", GOOD_UNSECURED.values(), ids=GOOD_UNSECURED)
def test_unsecured_tokens_that_are_accepted(both: Both, make: Make) -> None:
    (only,) = compare(both, UNSECURED, [message(make(int(time.time())))])
    assert only.startswith("NONE welcome")


@pytest.mark.parametrize("make", BAD_UNSECURED.values(), ids=BAD_UNSECURED)
def test_unsecured_tokens_that_are_refused(both: Both, make: Make) -> None:
    first, second = compare(both, UNSECURED, [message(make(int(time.time()))), b"\x01"])
    assert "invalid_token" in first
    assert "invalid_token" in second


@pytest.mark.parametrize("make", SHORT_OF_SCOPE.values(), ids=SHORT_OF_SCOPE)
def test_unsecured_tokens_without_the_scope(both: Both, make: Make) -> None:
    first, second = compare(both, UNSECURED, [message(make(int(time.time()))), b"\x01"])
    assert '"insufficient_scope", "scope":"[read, write]"' in first
    assert '"insufficient_scope", "scope":"[read, write]"' in second


def good() -> str:
    return signed(claims(int(time.time())))


def bad() -> bytes:
    return message(signed(claims(0)))


MESSAGES: Mapping[str, Callable[[], list[bytes]]] = {
    "another id": lambda: [message(good(), "root")],
    "an escaped id": lambda: [message(good(), "al=2Cice")],
    "extensions": lambda: [message(good(), extensions="host=a\x01port=9\x01")],
    "auth twice": lambda: [message(good(), extensions="auth=Bearer x\x01")],
    "scheme in capitals": lambda: [message(good()).replace(b"Bearer", b"BEARER")],
    "no message": lambda: [b"hello"],
    "an empty message": lambda: [b""],
    "no auth": lambda: [b"n,,\x01host=a\x01\x01"],
    "no pairs": lambda: [b"n,,\x01\x01"],
    "a malformed auth": lambda: [b"n,,\x01auth=Bearer\x01\x01"],
    "a malformed extension": lambda: [message(good(), extensions="1a=b\x01")],
    "channel binding": lambda: [message(good()).replace(b"n,", b"y,", 1)],
    "acknowledges nothing": lambda: [b"\x01"],
    "no acknowledgement": lambda: [bad(), b"\x02"],
    "an empty acknowledgement": lambda: [bad(), b""],
    "two acknowledgements": lambda: [bad(), b"\x01\x01"],
}


@pytest.mark.parametrize("make", MESSAGES.values(), ids=MESSAGES)
def test_messages(both: Both, make: Callable[[], list[bytes]]) -> None:
    compare(both, SIGNED, make())


def test_what_differs_on_purpose(both: Both) -> None:
    """Ours answers another scheme, and takes one token a connection, and no secret keys."""
    basic = [message(good()).replace(b"Bearer", b"Basic")]
    generic = "Authentication failed during authentication due to invalid credentials with SASL"
    assert answers(both.kafkas[SIGNED], basic) == ["closed"]
    (ours,) = answers(both.ours[SIGNED], basic)
    assert generic in ours
    again = [bad(), message(good())]
    assert answers(both.kafkas[SIGNED], again)[1].startswith("NONE")
    assert generic in answers(both.ours[SIGNED], again)[1]
    secret = [message(signed(claims(int(time.time())), "oct-1", "HS256"))]
    assert answers(both.kafkas[SIGNED], secret)[0].startswith("NONE welcome")
    assert "invalid_token" in answers(both.ours[SIGNED], secret)[0]
    # Kafka's nanoseconds end after 292 years.
    long = [message(signed(claims(int(time.time()), exp=86_400 * 365_000)))]
    assert answers(both.kafkas[SIGNED], long) == ["closed"]
    assert answers(both.ours[SIGNED], long)[0].startswith("NONE welcome")
    odd = [message(unsecured(claims(int(time.time()), scope=BOTH, sub=True)))]
    assert answers(both.kafkas[UNSECURED], odd)[0].startswith("NONE welcome")
    assert "invalid_token" in answers(both.ours[UNSECURED], odd)[0]


def error_of_librdkafka(port: int, token: str) -> str:
    def same(_: str) -> tuple[str, float]:
        return token, time.time() + 600

    settings: dict[str, Any] = {
        "bootstrap.servers": f"127.0.0.1:{port}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": same,
    }
    return without_port(refusal(settings).str(), port)


def error_of_java(port: int, folder: Path) -> str:
    path = folder / f"{port}.properties"
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
        f'sasl.jaas.config={MODULE} required unsecuredLoginStringClaim_sub="alice" '
        'unsecuredLoginListClaim_scope=",read";\n'
    )
    server = ("--bootstrap-server", f"127.0.0.1:{port}", "--command-config", str(path))
    answer = run_tool("kafka-topics", *server, "--list", check=False)
    said = (answer.stdout + answer.stderr).splitlines()
    return without_port(next(each for each in said if "SaslAuthenticationException" in each), port)


def without_port(text: str, port: int) -> str:
    return re.sub(r"after \d+ms", "after a while", text.replace(str(port), "PORT"))


def test_clients_show_the_same_error(both: Both, tmp_path: Path) -> None:
    now = int(time.time())
    for listener, token, said in (
        (SIGNED, signed(claims(now, aud="other")), "invalid_token"),
        (SIGNED, unsecured(claims(now)), "invalid_token"),
        (UNSECURED, unsecured(claims(now, scope=["read"])), "insufficient_scope"),
    ):
        ours = error_of_librdkafka(both.ours[listener], token)
        assert ours == error_of_librdkafka(both.kafkas[listener], token)
        assert said in ours
    ours = error_of_java(both.ours[UNSECURED], tmp_path)
    assert ours == error_of_java(both.kafkas[UNSECURED], tmp_path)
    assert "insufficient_scope" in ours
