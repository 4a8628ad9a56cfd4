"""Unmodified clients over TLS, with certificates of their own, and those who are not let in."""

import ssl
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from tierlog.tests.broker_process import BrokerThread
from tierlog.tests.security.tls.certificates import (
    broker_certificate,
    person,
    write_authority,
    write_identity,
)
from tierlog.tests.security.transfers import (
    VALUES,
    transfer_by_aiokafka,
    transfer_by_kafka_python,
    transfer_by_librdkafka,
)

Transfer = Callable[[str, str, Path, Path], list[bytes]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    write_authority(folder)
    write_authority(folder, "theirs")
    write_identity(folder, "broker", broker_certificate())
    write_identity(folder, "alice", person("alice"))
    write_identity(folder, "expired", person("old", has_expired=True))
    write_identity(folder, "stranger", person("eve", "theirs"))
    return folder


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    properties = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SECURE://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURE:SSL",
        "ssl.keystore.type": "PEM",
        "listener.name.secure.ssl.keystore.location": str(folder / "broker.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca-ours.pem"),
        "listener.name.secure.ssl.client.auth": "required",
    }
    with BrokerThread(folder / "data", properties) as running:
        assert running.broker is not None
        (secure,) = (each for each in running.broker.listeners.bound if each.name == "SECURE")
        yield f"127.0.0.1:{secure.port}"


def with_confluent(address: str, topic: str, ca: Path, identity: Path) -> list[bytes]:
    settings = {
        "bootstrap.servers": address,
        "security.protocol": "SSL",
        "ssl.ca.location": str(ca),
        "ssl.certificate.location": str(identity),
        "ssl.key.location": str(identity),
    }
    return transfer_by_librdkafka(settings, topic)


def with_kafka_python(address: str, topic: str, ca: Path, identity: Path) -> list[bytes]:
    settings = {
        "bootstrap_servers": address,
        "security_protocol": "SSL",
        "ssl_cafile": str(ca),
        "ssl_certfile": str(identity),
        "ssl_keyfile": str(identity),
    }
    return transfer_by_kafka_python(settings, topic)


def with_aiokafka(address: str, topic: str, ca: Path, identity: Path) -> list[bytes]:
    context = ssl.create_default_context(cafile=str(ca))
    context.load_cert_chain(identity)
    settings = {"bootstrap_servers": address, "security_protocol": "SSL", "ssl_context": context}
    return transfer_by_aiokafka(settings, topic)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*_text is deprecated:DeprecationWarning")  # kafka-python's
@pytest.mark.parametrize("transfer", [with_confluent, with_kafka_python, with_aiokafka])
def test_a_client_with_a_certificate_produces_and_consumes(
    transfer: Transfer, address: str, folder: Path
) -> None:
    topic = transfer.__name__
    values = transfer(address, topic, folder / "ca-ours.pem", folder / "alice.pem")
    assert sorted(values) == VALUES


@pytest.mark.long
@pytest.mark.parametrize(
    ("ca", "identity", "words"),
    [
        ("ours", "expired", "expired"),
        ("ours", "stranger", "unknown ca"),
        ("ours", "", "certificate required"),
        ("theirs", "alice", "certificate verify failed"),
    ],
)
def test_librdkafka_says_why_it_is_not_let_in(
    ca: str, identity: str, words: str, address: str, folder: Path
) -> None:
    errors: list[str] = []

    def note(error: object) -> None:
        errors.append(str(error))

    settings: dict[str, Any] = {
        "bootstrap.servers": address,
        "security.protocol": "SSL",
        "ssl.ca.location": str(folder / f"ca-{ca}.pem"),
        "error_cb": note,
    }
    if identity:
        path = str(folder / f"{identity}.pem")
        settings |= {"ssl.certificate.location": path, "ssl.key.location": path}
    admin = import_module("confluent_kafka.admin").AdminClient(settings)
    with pytest.raises(KafkaException) as caught:
        admin.list_topics(timeout=0.5)
    assert isinstance(caught.value.args[0], KafkaError)
    while not errors:
        admin.poll(1)
    assert any(words in each.lower() for each in errors), errors
