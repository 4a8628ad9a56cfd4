"""Contexts made of PEM stores, and the sentence for each store that cannot be used."""

import os
import ssl
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import dsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tierlog.broker.config.config import read_config
from tierlog.broker.config.tls_listeners import node_context, tls_listeners
from tierlog.clients.errors import KafkaError
from tierlog.security.tls.context import server_context
from tierlog.security.tls.pem import blocks
from tierlog.security.tls.settings import KeyStore, Secret, TlsSettings, TrustStore
from tierlog.storage import system_calls
from tierlog.tests.security.tls.certificates import (
    authority,
    authority_text,
    broker_certificate,
    chain_text,
    encrypted_key_text,
    key_text,
    person,
    server,
    write_authority,
    write_identity,
)

BROKER = broker_certificate()
KEY, CHAIN = key_text(BROKER), chain_text(BROKER)


def inline(key: str, chain: str = CHAIN, password: str | None = None) -> TlsSettings:
    secret = None if password is None else Secret(password)
    return TlsSettings("SSL", KeyStore("", Secret(key), Secret(chain), secret))


def in_file(path: Path, content: str) -> TlsSettings:
    path.write_text(content)
    return TlsSettings("SSL", KeyStore(str(path)))


def test_stores_that_kafka_reads_are_read(tmp_path: Path) -> None:
    for settings in (
        inline(KEY),
        inline(" ".join(KEY.split("\n")), " ".join(CHAIN.split("\n"))),
        inline(encrypted_key_text(BROKER, "sesame"), password="sesame"),
        in_file(tmp_path / "a.pem", f"Bag Attributes\n{CHAIN}\n  some text\n{KEY.rstrip()}"),
    ):
        made = server_context(settings)
        assert made.subject.startswith("CN=broker,")
        assert len(made.chain) == 1


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (inline("nothing"), "ssl.keystore.key has no private key"),
        (inline(KEY + KEY), "has 2 private keys: leave one"),
        (inline(KEY, "nothing"), "ssl.keystore.certificate.chain has no certificate"),
        (inline(KEY, chain_text(person("alice"))), "does not belong to the first certificate"),
        (inline(encrypted_key_text(BROKER, "x")), "is encrypted: set ssl.key.password"),
        (inline(encrypted_key_text(BROKER, "x"), password="y"), "does not open its private key"),
        (inline(KEY.replace("PRIVATE", "EC PRIVATE")), "openssl pkcs8 -topk8"),
        (inline(KEY, CHAIN.replace("\nMII", "\nXXX")), "OpenSSL cannot use"),
        (TlsSettings("SSL", KeyStore("/nowhere.pem")), "cannot be read (No such file"),
        (inline(KEY)._replace(ciphers=("NO-SUCH",)), "none of the suites"),
        (inline(KEY)._replace(mapping_rules="RULE:("), "ssl.principal.mapping.rules is not a list"),
        (
            inline(KEY)._replace(client_auth="required", trust=TrustStore("", Secret("x"))),
            "ssl.truststore.certificates has no certificate",
        ),
    ],
)
def test_a_store_that_cannot_be_used_is_one_sentence(settings: TlsSettings, sentence: str) -> None:
    with pytest.raises(KafkaError) as caught:
        server_context(settings)
    message = caught.value.message
    assert message.startswith("Listener SSL cannot use TLS: ")
    assert sentence in message
    assert "\n" not in message
    assert "MII" not in message


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (inline(KEY, chain_text(person("alice"))), "or they are not a pair"),
        (inline(encrypted_key_text(BROKER, "x"), password="y"), "does not open its private key"),
        (inline(KEY, CHAIN * 200), "larger than what this system lets through a pipe"),
    ],
)
def test_where_a_key_goes_through_a_pipe_it_is_refused_in_one_sentence_too(
    settings: TlsSettings, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on macOS, which has no files in memory."""
    monkeypatch.setattr(system_calls, "_open_secret", system_calls.pipe_of)
    with pytest.raises(KafkaError) as caught:
        server_context(settings)
    assert caught.value.message.startswith("Listener SSL cannot use TLS: ")
    assert sentence in caught.value.message
    assert "PRIVATE" not in caught.value.message


def test_a_key_goes_through_a_pipe_as_through_a_file_in_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(system_calls, "_open_secret", system_calls.pipe_of)
    encrypted = inline(encrypted_key_text(BROKER, "x"), password="x")
    for settings in (inline(KEY), encrypted):
        assert server_context(settings).chain == server_context(inline(KEY)).chain


@pytest.mark.parametrize(
    "damaged",
    [
        "-----BEGIN CERTIFICATE-----\n" + " \n" * 100_000,
        "-----BEGIN CERTIFICATE-----\n" + "A" * 100_000,
        "-----BEGIN " + " CERTIFICATE" * 100_000,
        "-----BEGIN CERTIFICATE-----\n" * 10_000,
        "-" * 1_000_000,
    ],
    ids=["spaces", "text", "label", "begins", "dashes"],
)
def test_a_damaged_store_is_read_in_a_time_that_grows_with_its_size(damaged: str) -> None:
    # Else one of these takes hours.
    assert blocks(damaged) == []


def test_a_trust_store_may_be_a_file(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text(authority_text())
    trust = TrustStore(str(tmp_path / "ca.pem"))
    made = server_context(inline(KEY)._replace(client_auth="required", trust=trust))
    assert len(made.context.get_ca_certs()) == 1


def test_a_node_shows_its_new_certificate_to_other_nodes(tmp_path: Path) -> None:
    def issued() -> trustme.LeafCert:
        return authority("ours").issue_cert(
            "localhost", common_name="node", organization_unit_name="nodes"
        )

    def shown(context: ssl.SSLContext) -> bytes | None:
        """The certificate that this node shows to another."""
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        there = other.context.wrap_bio(to_server, to_client, server_side=True)
        here = context.wrap_bio(to_client, to_server, server_hostname="localhost")
        for _ in range(3):
            for side in (here, there):
                with suppress(ssl.SSLWantReadError):
                    side.do_handshake()
        return there.getpeercert(binary_form=True)

    first, second = issued(), issued()
    write_authority(tmp_path)
    path = write_identity(tmp_path, "node", first)
    config = read_config(
        {
            "listeners": "NODES://127.0.0.1:0",
            "inter.broker.listener.name": "NODES",
            "listener.security.protocol.map": "NODES:SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(path),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(tmp_path / "ca-ours.pem"),
        }
    )
    listeners = tls_listeners(config)
    assert listeners is not None
    context = node_context(config, "NODES")
    assert context is not None
    assert node_context(config, "NODES") is context
    other = server("required")
    assert shown(context) == ssl.PEM_cert_to_DER_cert(first.cert_chain_pems[0].bytes().decode())
    write_identity(tmp_path, "node", second)
    os.utime(path, (2_000_000_000, 2_000_000_000))
    listeners.apply(config.values)
    assert shown(context) == ssl.PEM_cert_to_DER_cert(second.cert_chain_pems[0].bytes().decode())


def test_a_dsa_key_refuses_the_start_because_no_client_could_connect() -> None:
    key = dsa.generate_private_key(1024)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "broker")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).serial_number(7)
    builder = builder.not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
    builder = builder.not_valid_after(datetime(2040, 1, 1, tzinfo=UTC))
    certificate = builder.public_key(key.public_key()).sign(key, hashes.SHA256())
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    with pytest.raises(KafkaError, match="has a DSA key"):
        server_context(inline(text, certificate.public_bytes(Encoding.PEM).decode()))
