"""The stores of the listener between brokers shake hands before their use (`SslFactoryTest`)."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from tierlog.broker.config.config import BrokerConfig, read_config
from tierlog.broker.config.tls_listeners import TlsListeners, tls_listeners
from tierlog.clients.errors import KafkaError
from tierlog.tests.security.tls.certificates import (
    authority,
    broker_certificate,
    person,
    write_authority,
    write_identity,
)


def configured(folder: Path, more: Mapping[str, str] | None = None) -> BrokerConfig:
    """A broker for which other brokers have a listener with TLS."""
    write_authority(folder)
    write_authority(folder, "theirs")
    if not (folder / "node.pem").exists():
        write_identity(folder, "node", broker_certificate())
    return read_config(
        {
            "listeners": "NODES://127.0.0.1:0,SSL://127.0.0.1:0",
            "inter.broker.listener.name": "NODES",
            "listener.security.protocol.map": "NODES:SSL,SSL:SSL",
            "ssl.client.auth": "required",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(folder / "node.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(folder / "ca-ours.pem"),
            **(more or {}),
        }
    )


def started(config: BrokerConfig) -> TlsListeners:
    listeners = tls_listeners(config)
    assert listeners is not None
    listeners.apply(config.values)
    return listeners


def refusal(config: BrokerConfig) -> str:
    with pytest.raises(KafkaError) as caught:
        tls_listeners(config)
    return caught.value.message


def test_a_key_that_the_own_trust_store_vouches_for_starts(tmp_path: Path) -> None:
    started(configured(tmp_path))
    started(configured(tmp_path, {"ssl.client.auth": "none", "ssl.enabled.protocols": "TLSv1.2"}))


@pytest.mark.parametrize("client_auth", ["none", "required"])
def test_a_stranger_to_the_own_trust_store_does_not_start(tmp_path: Path, client_auth: str) -> None:
    strangers = {"ssl.truststore.location": str(tmp_path / "ca-theirs.pem")}
    sentence = refusal(configured(tmp_path, {**strangers, "ssl.client.auth": client_auth}))
    assert sentence.startswith("Listener NODES cannot use TLS: brokers connect to each other")
    assert "(unable to get local issuer certificate)" in sentence
    assert "\n" not in sentence


def test_clients_may_have_another_authority(tmp_path: Path) -> None:
    path = str(tmp_path / "ca-theirs.pem")
    started(configured(tmp_path, {"listener.name.ssl.ssl.truststore.location": path}))


def test_a_certificate_that_has_expired_does_not_start(tmp_path: Path) -> None:
    write_identity(tmp_path, "node", person("node", has_expired=True))
    assert "(certificate has expired)" in refusal(configured(tmp_path))


def test_a_broker_may_be_known_by_names_that_are_not_in_its_certificate(tmp_path: Path) -> None:
    named = authority("ours").issue_cert("elsewhere.example.org", common_name="node")
    write_identity(tmp_path, "node", named)
    started(configured(tmp_path))


def test_new_stores_have_to_get_on_with_the_old_ones(tmp_path: Path) -> None:
    """A new authority comes in two steps: first both are trusted, then keys change."""
    config = configured(tmp_path)
    listeners = started(config)
    before = listeners.acceptors["NODES"].current
    trusted = tmp_path / "ca-ours.pem"
    ours, theirs = trusted.read_text(), (tmp_path / "ca-theirs.pem").read_text()

    def written(trust: str, issuer: str, second: int) -> None:
        trusted.write_text(trust)
        path = write_identity(tmp_path, "node", broker_certificate(issuer))
        for each in (trusted, path):
            os.utime(each, (2_000_000_000 + second, 2_000_000_000 + second))

    changes = {"ssl.allow.dn.changes": "true", "ssl.allow.san.changes": "true"}
    values = configured(tmp_path, changes).values
    written(theirs, "theirs", 1)
    with pytest.raises(KafkaError, match="could not with the old and the new stores"):
        listeners.check(values)
    listeners.apply(values)
    assert listeners.acceptors["NODES"].current is before
    written(ours + theirs, "ours", 2)
    listeners.apply(values)
    assert listeners.acceptors["NODES"].current is not before
    written(ours + theirs, "theirs", 3)
    listeners.check(values)
    listeners.apply(values)
    assert listeners.acceptors["NODES"].current.subject.startswith("CN=broker,")
