"""Key and trust stores that Kafka's `SslFactory` accepts or refuses, and what we do with the same.

Where we refuse and Kafka does not, Kafka would start a listener that nobody can use. Whether Java
opens an encrypted key in PEM depends on its version; those are in test_context.py.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption
from cryptography.hazmat.primitives.serialization.pkcs12 import (
    PKCS12Certificate,
    serialize_java_truststore,
)

from tierlog.broker.config.config import read_config
from tierlog.broker.config.tls_listeners import tls_listeners
from tierlog.clients.errors import KafkaError
from tierlog.tests.conformance.java_programs import run_java
from tierlog.tests.security.tls.certificates import (
    authority,
    authority_text,
    broker_certificate,
    chain_text,
    encrypted_key_text,
    key_text,
    person,
    write_authority,
    write_identity,
)
from tierlog.tests.security.tls.pkcs12_stores import PASSWORD, key_store

pytestmark = [pytest.mark.long, pytest.mark.requires("java", "mvn")]

OURS = broker_certificate()


class Case(NamedTuple):
    """Properties without their prefix ``ssl.``, and what both make of them."""

    stated: dict[str, str]
    kafka: str
    ours: str
    between_brokers: bool = False


def write_stores(folder: Path) -> None:
    """Write all the stores that the cases name."""
    write_authority(folder)
    write_authority(folder, "theirs")
    write_identity(folder, "keys", OURS)
    write_identity(folder, "expired", person("node", has_expired=True))
    (folder / "locked.pem").write_text(encrypted_key_text(OURS, PASSWORD) + chain_text(OURS))
    (folder / "alien.pem").write_text(key_text(OURS) + chain_text(person("alice")))
    department = authority("ours").create_child_ca()
    write_identity(folder, "department", department.issue_cert("localhost"))
    department.cert_pem.write_to_path(folder / "ca-department.pem")
    OURS.cert_chain_pems[0].write_to_path(folder / "own.pem")
    (folder / "empty.pem").write_text("no block at all\n")
    (folder / "keys.p12").write_bytes(key_store(OURS, []))
    for name, author in (("trust", "ours"), ("others", "theirs")):
        trusted = x509.load_pem_x509_certificate(authority_text(author).encode())
        entries = [PKCS12Certificate(trusted, b"authority")]
        how = BestAvailableEncryption(PASSWORD.encode())
        (folder / f"{name}.p12").write_bytes(serialize_java_truststore(entries, how))


def pem(name: str = "keys", **more: str) -> dict[str, str]:
    return {"keystore.type": "PEM", "keystore.location": f"{name}.pem", **named(more)}


def p12(**more: str) -> dict[str, str]:
    stores = {"keystore.type": "PKCS12", "keystore.location": "keys.p12"}
    return {**stores, "keystore.password": PASSWORD, **named(more)}


def named(more: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "."): text for name, text in more.items()}


def trusting(kind: str, name: str, password: str = "") -> dict[str, str]:
    store = {"truststore.type": kind, "truststore.location": name}
    return {**store, "truststore.password": password} if password else store


def without(stated: dict[str, str], name: str) -> dict[str, str]:
    return {key: text for key, text in stated.items() if key != name}


ACCEPTED, REFUSED = ("accepted", "accepted"), ("refused", "refused")
STRICTER = ("accepted", "refused")
TRUST = trusting("PKCS12", "trust.p12", PASSWORD)
CASES = [
    Case(pem(), *ACCEPTED),
    Case(pem("locked", key_password="guess"), *REFUSED),
    Case(pem("locked"), *REFUSED),
    Case(pem("empty"), *REFUSED),
    Case(pem("absent"), *REFUSED),
    Case(pem("expired"), *ACCEPTED),
    Case(pem(keystore_password=PASSWORD), *REFUSED),
    Case({**pem(), "keystore.key": "k", "keystore.certificate.chain": "c"}, *REFUSED),
    Case({"keystore.type": "PEM", "keystore.key": "k"}, *REFUSED),
    Case(p12(), *ACCEPTED),
    Case(p12(keystore_type="JKS"), *ACCEPTED),
    Case(without(p12(), "keystore.type"), *ACCEPTED),
    Case(p12(key_password=PASSWORD), *ACCEPTED),
    Case(p12(key_password="other"), *REFUSED),
    Case(p12(keystore_password=f"{PASSWORD} "), *ACCEPTED),
    Case(p12(keystore_password="guess"), *REFUSED),
    Case(without(p12(), "keystore.password"), *REFUSED),
    Case({**p12(), "keystore.location": "keys.pem"}, *REFUSED),
    Case({**pem(), "keystore.location": "keys.p12"}, *REFUSED),
    Case({**p12(), **TRUST}, *ACCEPTED),
    Case({**pem(), **TRUST}, *ACCEPTED),
    Case({**pem(), **trusting("JKS", "trust.p12", PASSWORD)}, *ACCEPTED),
    Case({**pem(), **trusting("PKCS12", "trust.p12", "guess")}, *REFUSED),
    Case({**pem(), **trusting("PEM", "ca-ours.pem")}, *ACCEPTED),
    Case({**pem(), **trusting("PEM", "ca-ours.pem", PASSWORD)}, *REFUSED),
    Case({**pem(), **trusting("PEM", "empty.pem")}, *REFUSED),
    Case({**pem(), **trusting("PEM", "absent.pem")}, *REFUSED),
    Case({**pem(), "truststore.password": PASSWORD}, *REFUSED),
    # Between brokers.
    Case({**p12(), **TRUST}, *ACCEPTED, True),
    Case({**pem(), **trusting("PEM", "ca-ours.pem")}, *ACCEPTED, True),
    Case({**pem(), **trusting("PEM", "ca-theirs.pem")}, *REFUSED, True),
    Case({**p12(), **trusting("PKCS12", "others.p12", PASSWORD)}, *REFUSED, True),
    Case({**pem("expired"), **trusting("PEM", "ca-ours.pem")}, *REFUSED, True),
    Case(pem(), *REFUSED, True),
    # Each certificate of a trust store is trusted, whoever has issued it.
    Case({**pem(), **trusting("PEM", "own.pem")}, *ACCEPTED, True),
    Case({**pem("department"), **trusting("PEM", "ca-department.pem")}, *ACCEPTED, True),
    Case({**pem(), **trusting("PEM", "ca-department.pem")}, *REFUSED, True),
    # A key store as trust store, of which Java trusts the key's own certificate.
    Case({**p12(), **trusting("PKCS12", "keys.p12", PASSWORD)}, *STRICTER, True),
    # A key of another certificate; a trust store in which Java sees no certificate to trust.
    Case(pem("alien"), *STRICTER),
    Case({**pem(), **trusting("PKCS12", "trust.p12")}, *STRICTER),
    Case({**pem(), **trusting("PKCS12", "keys.p12", PASSWORD)}, *STRICTER),
]


def properties(case: Case, folder: Path) -> dict[str, str]:
    return {
        f"ssl.{name}": str(folder / text) if name.endswith(".location") else text
        for name, text in case.stated.items()
    }


def ours(case: Case, folder: Path) -> str:
    listeners = {
        "listeners": "NODES://127.0.0.1:0,SSL://127.0.0.1:0",
        "listener.security.protocol.map": "NODES:SSL,SSL:SSL",
        "inter.broker.listener.name": "NODES",
    }
    if not case.between_brokers:
        listeners = {"listeners": "SSL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0"}
    asks = {"ssl.client.auth": "requested"} if "truststore.location" in case.stated else {}
    try:
        assert tls_listeners(read_config({**listeners, **asks, **properties(case, folder)}))
    except KafkaError as error:
        return "a password is shown" if PASSWORD in error.message else "refused"
    return "accepted"


def test_stores_are_accepted_and_refused_as_by_kafka(tmp_path: Path) -> None:
    write_stores(tmp_path)
    paths: list[str] = []
    for number, case in enumerate(CASES):
        path = tmp_path / f"{number}.properties"
        stated = {**properties(case, tmp_path), "between.brokers": str(case.between_brokers)}
        lines = (f"{name}={text}\n" for name, text in stated.items())
        path.write_text("".join(lines))
        paths.append(str(path))
    said = [line for line in run_java("SslStores.java", paths) if line.startswith("stores ")]
    kafka = [line.removeprefix("stores ") for line in said]
    seen = [
        case._replace(kafka=answer, ours=ours(case, tmp_path))
        for case, answer in zip(CASES, kafka, strict=True)
    ]
    assert seen == CASES
