"""Unmodified clients that log in with tokens, and those whose tokens are refused."""

import logging
import os
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer

from tierlog.bench.harness.processes.kafka_peer import run_tool
from tierlog.tests.broker_process import BrokerThread
from tierlog.tests.security.transfers import (
    VALUES,
    transfer_by_aiokafka,
    transfer_by_kafka_python,
    transfer_by_librdkafka,
)
from tierlog.tests.waiting import wait_until

from ...tls.certificates import broker_certificate, write_authority, write_identity
from ..logins import Door, refusal
from .tokens import AUDIENCE, BOTH, ISSUER, claims, key_set, signed, unsecured

pytestmark = pytest.mark.filterwarnings("ignore:.*_text is deprecated:DeprecationWarning")

PACKAGE = "org.apache.kafka.common.security.oauthbearer"
MODULE = f"{PACKAGE}.OAuthBearerLoginModule"
UNSECURED = "TESTS"


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Door]]:
    folder = tmp_path_factory.mktemp("oauth")
    ca = write_authority(folder)
    keys = folder / "keys.json"
    keys.write_bytes(key_set("rsa-1"))
    handler = "oauthbearer.sasl.server.callback.handler.class"
    properties = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0,"
        f"SASL_SSL://127.0.0.1:0,{UNSECURED}://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,"
        f"SASL_SSL:SASL_SSL,{UNSECURED}:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "connection.failed.authentication.delay.ms": "20",
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "org.apache.kafka.sasl.oauthbearer.allowed.urls": keys.as_uri(),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(write_identity(folder, "broker", broker_certificate())),
        f"listener.name.{UNSECURED.lower()}.{handler}": (
            f"{PACKAGE}.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
        ),
        f"listener.name.{UNSECURED.lower()}.oauthbearer.sasl.jaas.config": (
            f'{MODULE} required unsecuredValidatorRequiredScope="read write";'
        ),
    }
    for name in ("sasl_plaintext", "sasl_ssl"):
        signed_handler = f"{PACKAGE}.OAuthBearerValidatorCallbackHandler"
        properties[f"listener.name.{name}.{handler}"] = signed_handler
    with BrokerThread(folder / "data", properties) as running:
        assert running.broker is not None
        bound = {each.name: each.port for each in running.broker.listeners.bound}
        doors = {name: Door(name, bound[name], ca) for name in ("SASL_PLAINTEXT", "SASL_SSL")}
        yield doors | {UNSECURED: Door("SASL_PLAINTEXT", bound[UNSECURED], ca)}


def good_token(lasts_s: int = 600) -> str:
    now = int(time.time())
    return signed(claims(now, exp=now + lasts_s))


Tokens = Callable[[], str]


def librdkafka(door: Door, tokens: Tokens, lasts_s: float = 600) -> dict[str, Any]:
    def fresh(_: str) -> tuple[str, float]:
        return tokens(), time.time() + lasts_s

    return {
        "bootstrap.servers": door.address,
        "security.protocol": door.protocol,
        "sasl.mechanism": "OAUTHBEARER",
        "ssl.ca.location": str(door.ca),
        "oauth_cb": fresh,
    }


def with_confluent(door: Door, tokens: Tokens, topic: str) -> list[bytes]:
    return transfer_by_librdkafka(librdkafka(door, tokens), topic)


def python_login(door: Door, provider: object) -> dict[str, Any]:
    return {
        "bootstrap_servers": door.address,
        "security_protocol": door.protocol,
        "sasl_mechanism": "OAUTHBEARER",
        "ssl_context": door.context,
        "sasl_oauth_token_provider": provider,
    }


def with_kafka_python(door: Door, tokens: Tokens, topic: str) -> list[bytes]:
    oauth = import_module("kafka.net.sasl.oauth")

    class Provider(oauth.AbstractTokenProvider):  # type: ignore[misc, name-defined]  # it has no types
        def token(self) -> str:
            return tokens()

    return transfer_by_kafka_python(python_login(door, Provider()), topic)


def with_aiokafka(door: Door, tokens: Tokens, topic: str) -> list[bytes]:
    oauth = import_module("aiokafka.abc")

    class Provider(oauth.AbstractTokenProvider):  # type: ignore[misc, name-defined]  # it has no types
        async def token(self) -> str:
            return tokens()

    return transfer_by_aiokafka(python_login(door, Provider()), topic)


Transfer = Callable[[Door, Tokens, str], list[bytes]]
WAYS: list[tuple[Transfer, str]] = [
    (with_aiokafka, "SASL_SSL"),
    (with_kafka_python, "SASL_PLAINTEXT"),
]
MORE_WAYS: list[tuple[Transfer, str]] = [
    (with_confluent, "SASL_PLAINTEXT"),
    (with_confluent, "SASL_SSL"),
    (with_kafka_python, "SASL_SSL"),
    (with_aiokafka, "SASL_PLAINTEXT"),
]


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS, ids=lambda way: f"{way[0].__name__}-{way[1]}")
def test_a_client_with_a_token_writes_and_reads(
    doors: dict[str, Door], way: tuple[Transfer, str]
) -> None:
    transfer, protocol = way
    topic = f"{transfer.__name__}-{protocol}"
    assert transfer(doors[protocol], good_token, topic) == VALUES


@pytest.mark.long
@pytest.mark.parametrize("way", MORE_WAYS, ids=lambda way: f"{way[0].__name__}-{way[1]}")
def test_every_client_gets_in_with_a_token(
    doors: dict[str, Door], way: tuple[Transfer, str]
) -> None:
    transfer, protocol = way
    topic = f"{transfer.__name__}-{protocol}"
    assert transfer(doors[protocol], good_token, topic) == VALUES


@pytest.mark.slow
def test_a_refused_token_is_reported_only_to_the_client(
    doors: dict[str, Door], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    forged = signed(claims(int(time.time()), sub="mallory"), "rsa-2", kid="rsa-1")
    error = refusal(librdkafka(doors["SASL_PLAINTEXT"], lambda: forged))
    assert error.code() == KafkaError._AUTHENTICATION
    assert '{"status":"invalid_token"}' in error.str()
    narrow = unsecured(claims(int(time.time()), sub="mallory", scope=["read"]))
    error = refusal(librdkafka(doors[UNSECURED], lambda: narrow))
    assert '{"status":"insufficient_scope", "scope":"[read, write]"}' in error.str()
    assert "the token's signature is not that of its key" in caplog.text
    for secret in (*forged.split("."), *narrow.split("."), "mallory"):
        assert not secret or secret not in caplog.text


@pytest.mark.long
def test_whoever_needs_no_signature_gets_in_only_where_that_is_said(doors: dict[str, Door]) -> None:
    token = unsecured(claims(int(time.time()), scope=BOTH))
    assert with_confluent(doors[UNSECURED], lambda: token, "unsecured") == VALUES
    error = refusal(librdkafka(doors["SASL_PLAINTEXT"], lambda: token))
    assert '{"status":"invalid_token"}' in error.str()


@pytest.mark.long
def test_a_client_shows_new_tokens_while_it_works(doors: dict[str, Door]) -> None:
    """Sessions last as long as their tokens, here four seconds.

    librdkafka would show the old token at 90 percent of that, and again within a second, which no
    broker allows: so it is told that its tokens last less.
    """
    tokens: list[str] = []

    def next_token() -> str:
        tokens.append(good_token(4))
        return tokens[-1]

    errors: list[KafkaError] = []
    settings = librdkafka(doors["SASL_PLAINTEXT"], next_token, 1.5)
    producer = Producer({**settings, "error_cb": errors.append, "linger.ms": 0})
    delivered: list[object] = []

    def has_shown_several() -> bool:
        producer.produce("again", b"x", on_delivery=lambda error, _: delivered.append(error))
        assert producer.flush(30) == 0
        return len(tokens) > 7

    wait_until(has_shown_several, 60, lambda: f"{len(tokens)} tokens")
    assert set(delivered) == {None}
    assert not errors


@pytest.mark.long
@pytest.mark.requires("java", "mvn")
def test_kafkas_own_tools_get_in(
    doors: dict[str, Door], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tmp_path / "token"
    token.write_text(good_token())
    os.chmod(token, 0o600)
    allowed = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-D{allowed}={token.as_uri()}")
    common = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
    logins = {
        "SASL_PLAINTEXT": f"{common}sasl.jaas.config={MODULE} required;\n"
        f"sasl.login.callback.handler.class={PACKAGE}.OAuthBearerLoginCallbackHandler\n"
        f"sasl.oauthbearer.token.endpoint.url={token.as_uri()}\n",
        UNSECURED: f'{common}sasl.jaas.config={MODULE} required unsecuredLoginStringClaim_sub="al" '
        'unsecuredLoginListClaim_scope=",read,write";\n',
    }
    for name, login in logins.items():
        path = tmp_path / f"{name}.properties"
        path.write_text(login)
        topics = (
            "kafka-topics",
            "--bootstrap-server",
            doors[name].address,
            "--command-config",
            str(path),
        )
        made = run_tool(*topics, "--create", "--topic", f"of-{name}")
        assert f"Created topic of-{name}" in made.stdout
