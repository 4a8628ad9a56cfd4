"""Unmodified clients with each mechanism, over plain text and TLS, and those who are not let in."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from tierlog.bench.harness.processes.kafka_peer import run_tool
from tierlog.tests.broker_process import BrokerThread
from tierlog.tests.security.tls.certificates import (
    broker_certificate,
    write_authority,
    write_identity,
)
from tierlog.tests.security.transfers import (
    VALUES,
    transfer_by_aiokafka,
    transfer_by_kafka_python,
    transfer_by_librdkafka,
)

from .logins import Door, refusal

AdminClient = import_module("confluent_kafka.admin").AdminClient  # its types name too little

pytestmark = pytest.mark.filterwarnings("ignore:.*_text is deprecated:DeprecationWarning")

PASSWORD = "open sesame"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
PROTOCOLS = ("SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


Settings = dict[str, str | int | float | bool]


class PasswordDoor(Door):
    """A listener whose clients log in with a name and a password."""

    __slots__ = ()

    def settings(self, mechanism: str, password: str = PASSWORD, user: str = "alice") -> Settings:
        return {
            "bootstrap.servers": self.address,
            "security.protocol": self.protocol,
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
            "ssl.ca.location": str(self.ca),
        }

    def python(self, mechanism: str, password: str = PASSWORD) -> dict[str, Any]:
        return {
            "bootstrap_servers": self.address,
            "security_protocol": self.protocol,
            "sasl_mechanism": mechanism,
            "sasl_plain_username": "alice",
            "sasl_plain_password": password,
            "ssl_context": self.context,
        }


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, PasswordDoor]]:
    folder = tmp_path_factory.mktemp("sasl")
    ca = write_authority(folder)
    identity = write_identity(folder, "broker", broker_certificate())
    properties = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0,SASL_SSL://127.0.0.1:0",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "connection.failed.authentication.delay.ms": "50",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(identity),
        # Meant for listeners without SASL: clients here have no certificate.
        "ssl.client.auth": "required",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(ca),
    }
    login = f'{MODULE} required user_alice="{PASSWORD}";'
    for name in ("sasl_plaintext", "sasl_ssl"):
        properties[f"listener.name.{name}.plain.sasl.jaas.config"] = login
        properties[f"listener.name.{name}.plain.connections.max.reauth.ms"] = "2500"
    with BrokerThread(folder / "data", properties) as running:
        assert running.broker is not None
        bound = {each.name: each.port for each in running.broker.listeners.bound}
        doors = {name: PasswordDoor(name, bound[name], ca) for name in PROTOCOLS}
        admin = AdminClient(doors["SASL_SSL"].settings("PLAIN"))
        for kind in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            info = ScramCredentialInfo(kind, 4096)
            change = UserScramCredentialUpsertion("alice", info, PASSWORD.encode())
            for future in admin.alter_user_scram_credentials([change]).values():
                future.result(30)
        yield doors


def with_confluent(door: PasswordDoor, mechanism: str, topic: str) -> list[bytes]:
    return transfer_by_librdkafka(door.settings(mechanism), topic)


def with_kafka_python(door: PasswordDoor, mechanism: str, topic: str) -> list[bytes]:
    return transfer_by_kafka_python(door.python(mechanism), topic)


def with_aiokafka(door: PasswordDoor, mechanism: str, topic: str) -> list[bytes]:
    return transfer_by_aiokafka(door.python(mechanism), topic)


Transfer = Callable[[PasswordDoor, str, str], list[bytes]]
WAYS: list[tuple[Transfer, str, str]] = [
    (with_confluent, "SASL_PLAINTEXT", "PLAIN"),
    (with_confluent, "SASL_SSL", "SCRAM-SHA-256"),
    (with_aiokafka, "SASL_PLAINTEXT", "SCRAM-SHA-512"),
]
MORE_WAYS = [
    (transfer, protocol, mechanism)
    for transfer in (with_confluent, with_kafka_python, with_aiokafka)
    for protocol in PROTOCOLS
    for mechanism in MECHANISMS
    if (transfer, protocol, mechanism) not in WAYS
]


def check_transfer(doors: dict[str, PasswordDoor], way: tuple[Transfer, str, str]) -> None:
    transfer, protocol, mechanism = way
    topic = f"{transfer.__name__}-{protocol}-{mechanism}"
    assert transfer(doors[protocol], mechanism, topic) == VALUES


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS, ids=lambda way: f"{way[0].__name__}-{way[1]}-{way[2]}")
def test_a_client_that_proves_who_it_is_writes_and_reads(
    doors: dict[str, PasswordDoor], way: tuple[Transfer, str, str]
) -> None:
    check_transfer(doors, way)


@pytest.mark.long
@pytest.mark.parametrize("way", MORE_WAYS, ids=lambda way: f"{way[0].__name__}-{way[1]}-{way[2]}")
def test_every_client_gets_in_by_every_way(
    doors: dict[str, PasswordDoor], way: tuple[Transfer, str, str]
) -> None:
    check_transfer(doors, way)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mechanism", "user", "password", "said"),
    [
        ("PLAIN", "alice", "wrong-hidden", "Invalid username or password"),
        ("PLAIN", "nobody", PASSWORD, "Invalid username or password"),
        ("SCRAM-SHA-256", "alice", "wrong-hidden", "invalid credentials with SASL mechanism SCRAM"),
        ("SCRAM-SHA-512", "nobody", PASSWORD, "invalid credentials with SASL mechanism SCRAM"),
    ],
)
def test_who_proves_nothing_learns_that_and_no_more(
    doors: dict[str, PasswordDoor],
    caplog: pytest.LogCaptureFixture,
    mechanism: str,
    user: str,
    password: str,
    said: str,
) -> None:
    caplog.set_level(logging.DEBUG)
    error = refusal(doors["SASL_PLAINTEXT"].settings(mechanism, password, user))
    assert error.code() == KafkaError._AUTHENTICATION
    assert said in error.str()
    assert password not in caplog.text


@pytest.mark.slow
def test_aiokafka_raises_its_error_of_authentication(doors: dict[str, PasswordDoor]) -> None:
    async def enter() -> None:
        login: Any = doors["SASL_PLAINTEXT"].python("SCRAM-SHA-512", "wrong")
        producer = AIOKafkaProducer(**login)
        try:
            await producer.start()
        finally:
            await producer.stop()

    with pytest.raises(AioKafkaError):
        asyncio.run(enter())


@pytest.mark.long
def test_a_client_proves_itself_again_while_it_works(doors: dict[str, PasswordDoor]) -> None:
    """Sessions last 2.5 seconds; librdkafka begins anew at 90 percent of that."""
    errors: list[KafkaError] = []
    settings = {**doors["SASL_PLAINTEXT"].settings("PLAIN"), "error_cb": errors.append}
    producer = Producer({**settings, "linger.ms": 0})
    delivered: list[object] = []
    for _ in range(30):
        producer.produce("again", b"x", on_delivery=lambda error, _: delivered.append(error))
        producer.poll(0.1)
        assert producer.flush(30) == 0
        producer.poll(0.1)
    assert delivered == [None] * 30
    assert not errors


@pytest.mark.slow
def test_a_user_that_is_removed_does_not_get_in_again(doors: dict[str, PasswordDoor]) -> None:
    admin = AdminClient(doors["SASL_PLAINTEXT"].settings("PLAIN"))
    kind = ScramMechanism.SCRAM_SHA_256
    info = ScramCredentialInfo(kind, 8192)
    change = UserScramCredentialUpsertion("bob", info, b"swordfish", b"salt of bob")
    admin.alter_user_scram_credentials([change])["bob"].result(30)
    described = admin.describe_user_scram_credentials(["bob"])["bob"].result(30)
    (shown,) = described.scram_credential_infos
    assert (shown.mechanism, shown.iterations) == (kind, 8192)
    bob = doors["SASL_PLAINTEXT"].settings("SCRAM-SHA-256", "swordfish", "bob")
    assert AdminClient(bob).list_topics(timeout=30).topics is not None
    removal = UserScramCredentialDeletion("bob", kind)
    admin.alter_user_scram_credentials([removal])["bob"].result(30)
    assert refusal(bob).code() == KafkaError._AUTHENTICATION
    with pytest.raises(KafkaException) as raised:
        admin.alter_user_scram_credentials([removal])["bob"].result(30)
    assert raised.value.args[0].code() == KafkaError.RESOURCE_NOT_FOUND


@pytest.mark.long
def test_a_client_that_was_refused_works_once_its_user_is_there(
    doors: dict[str, PasswordDoor],
) -> None:
    admin = AdminClient(doors["SASL_PLAINTEXT"].settings("PLAIN"))
    errors: list[KafkaError] = []
    dora = doors["SASL_SSL"].settings("SCRAM-SHA-256", "swordfish", "dora")
    producer = Producer({**dora, "error_cb": errors.append, "log_level": 0})
    delivered: list[object] = []
    producer.produce("late", b"x", on_delivery=lambda error, _: delivered.append(error))
    while not any(each.code() == KafkaError._AUTHENTICATION for each in errors):
        assert producer.flush(1.0) == 1
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    change = UserScramCredentialUpsertion("dora", info, b"swordfish")
    admin.alter_user_scram_credentials([change])["dora"].result(30)
    assert producer.flush(60) == 0
    assert delivered == [None]


@pytest.mark.long
@pytest.mark.requires("java", "mvn")
def test_kafkas_own_tool_sets_and_shows_users(
    doors: dict[str, PasswordDoor], tmp_path: Path
) -> None:
    def login(mechanism: str, module: str, user: str, password: str) -> str:
        path = tmp_path / f"{user}.properties"
        path.write_text(
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config="
            f'org.apache.kafka.common.security.{module} required username="{user}" '
            f'password="{password}";\n'
        )
        return str(path)

    server = ("--bootstrap-server", doors["SASL_PLAINTEXT"].address)
    admin = login("PLAIN", "plain.PlainLoginModule", "alice", PASSWORD)
    carol = login("SCRAM-SHA-512", "scram.ScramLoginModule", "carol", "hidden-word")
    entity = ("--entity-type", "users", "--entity-name", "carol")
    change = "SCRAM-SHA-512=[iterations=8192,password=hidden-word]"
    configs = ("kafka-configs", *server, "--command-config")
    run_tool(*configs, admin, "--alter", *entity, "--add-config", change)
    shown = run_tool(*configs, admin, "--describe", *entity).stdout
    assert (
        "SCRAM credential configs for user-principal 'carol' are SCRAM-SHA-512=iterations=8192"
        in shown
    )
    topics = ("kafka-topics", *server, "--command-config", carol)
    run_tool(*topics, "--create", "--topic", "carols")
    assert "carols" in run_tool(*topics, "--list").stdout
