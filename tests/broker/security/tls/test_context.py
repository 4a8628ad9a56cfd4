"""Contexts made of PEM stores, and the sentence for each store that cannot be used."""

from pathlib import Path

import pytest

from tierlog.broker.security.tls.context import server_context
from tierlog.broker.security.tls.settings import KeyStore, Secret, TlsSettings, TrustStore
from tierlog.clients.errors import KafkaError
from tierlog.tests.broker.security.tls.certificates import (
    authority_text,
    broker_certificate,
    chain_text,
    encrypted_key_text,
    key_text,
    person,
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


def test_a_trust_store_may_be_a_file(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text(authority_text())
    trust = TrustStore(str(tmp_path / "ca.pem"))
    made = server_context(inline(KEY)._replace(client_auth="required", trust=trust))
    assert len(made.context.get_ca_certs()) == 1
