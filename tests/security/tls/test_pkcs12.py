"""Stores in PKCS12: those of `cryptography`, and those that `keytool` makes."""

import re
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography import x509

from tierlog.clients.errors import KafkaError
from tierlog.security.tls.context import node_side, server_context
from tierlog.security.tls.pem import blocks
from tierlog.security.tls.settings import KeyStore, Secret, TlsSettings, TrustStore
from tierlog.tests.security.tls.certificates import (
    authority,
    authority_text,
    broker_certificate,
    chain_text,
    encrypted_key_text,
    key_text,
)
from tierlog.tests.security.tls.pkcs12_stores import PASSWORD, key_store, trust_store


def keys_in(path: Path, content: bytes, password: str = PASSWORD) -> TlsSettings:
    path.write_bytes(content)
    keys = KeyStore(str(path), kind="PKCS12", password=Secret(password))
    return TlsSettings("SSL", keys)


def trusting(path: Path, content: bytes, password: str = "") -> TlsSettings:
    path.write_bytes(content)
    secret = Secret(password) if password else None
    return TlsSettings("SSL", None, TrustStore(str(path), kind="PKCS12", password=secret))


def test_a_chain_is_sent_in_its_order_and_nothing_else_of_the_store(tmp_path: Path) -> None:
    intermediate = authority("ours").create_child_ca()
    leaf = intermediate.issue_cert("localhost", common_name="broker")
    root, stranger = (
        x509.load_pem_x509_certificate(each.cert_pem.bytes())
        for each in (authority("ours"), authority("strangers"))
    )
    middle = x509.load_pem_x509_certificate(intermediate.cert_pem.bytes())
    made = server_context(keys_in(tmp_path / "a.p12", key_store(leaf, [stranger, root, middle])))
    subjects = [x509.load_der_x509_certificate(each).subject for each in made.chain]
    assert subjects[1:] == [middle.subject, root.subject]
    assert made.subject.startswith("CN=broker,")


@pytest.mark.parametrize("password", ["", PASSWORD])
def test_a_trust_store_has_certificates_alone(tmp_path: Path, password: str) -> None:
    context = node_side(trusting(tmp_path / "a.p12", trust_store(password), password))
    (trusted,) = context.get_ca_certs(binary_form=True)
    assert ssl.DER_cert_to_PEM_cert(trusted).split() == authority_text().split()


def refusal(settings: TlsSettings) -> str:
    with pytest.raises(KafkaError) as caught:
        server_context(settings) if settings.keys else node_side(settings)
    assert "\n" not in caught.value.message
    assert PASSWORD not in caught.value.message
    assert caught.value.message.startswith("Listener SSL cannot use TLS: ssl.")
    return caught.value.message


def test_a_store_that_cannot_be_used_is_one_sentence(tmp_path: Path) -> None:
    path, ours = tmp_path / "a.p12", broker_certificate()
    good = key_store(ours, [])
    pem = (key_text(ours) + chain_text(ours)).encode()
    assert "its password does not open it" in refusal(keys_in(path, good, "guess"))
    assert "is not a PKCS12 store" in refusal(keys_in(path, good[:-100]))
    assert "is not a PKCS12 store" in refusal(keys_in(path, b"\0" * 100))
    assert "has no private key" in refusal(keys_in(path, trust_store(PASSWORD)))
    assert "keytool -importkeystore" in refusal(keys_in(path, b"\xfe\xed\xfe\xed" + good))
    assert "has to be PEM" in refusal(keys_in(path, pem))
    assert "it needs its password" in refusal(trusting(path, trust_store(PASSWORD)))
    assert "has a private key: a trust" in refusal(trusting(path, good, PASSWORD))
    assert "is empty" in refusal(trusting(path, b""))


_COUNTS = [
    pytest.param(rb"\x04\x10(.{14})..\x02\x02\x4e\x20", b"\x04\x0e", 1, id="certificates"),
    pytest.param(rb"\x04\x10(.{14})..\x02\x02\x4e\x20", b"\x04\x0e", 2, id="key"),
    pytest.param(rb"\x04\x08(.{6})..\x02\x02\x08\x00$", b"\x04\x06", 1, id="signature"),
]
"""A salt with a count of iterations, the first bytes of a shorter salt, and which one is meant."""


def with_endless_count(content: bytes, count: bytes, salt: bytes, which: int) -> bytes:
    """The content as damage could leave it: with 2,147,483,647 iterations, which take an hour."""
    numbers = iter(range(1, 3))

    def damaged(match: re.Match[bytes]) -> bytes:
        is_meant = next(numbers) == which
        return salt + match[1] + b"\x02\x04\x7f\xff\xff\xff" if is_meant else match[0]

    changed = re.sub(count, damaged, content, flags=re.DOTALL)
    assert changed != content
    return changed


@pytest.mark.parametrize(("count", "salt", "which"), _COUNTS)
def test_a_store_that_would_take_an_hour_is_refused(
    tmp_path: Path, count: bytes, salt: bytes, which: int
) -> None:
    endless = with_endless_count(key_store(broker_certificate(), []), count, salt, which)
    assert "2147483647 iterations" in refusal(keys_in(tmp_path / "a.p12", endless))


def test_an_encrypted_key_that_would_take_an_hour_is_refused() -> None:
    (key,) = blocks(encrypted_key_text(broker_certificate(), PASSWORD))
    count = rb"\x04\x10(.{14})..\x02\x02\x08\x00"
    endless = key._replace(der=with_endless_count(key.der, count, b"\x04\x0e", 1))
    chain = Secret(chain_text(broker_certificate()))
    keys = KeyStore("", Secret(endless.text), chain, Secret(PASSWORD))
    assert "2147483647 iterations" in refusal(TlsSettings("SSL", keys))


def test_without_the_package_a_sentence_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = keys_in(tmp_path / "a.p12", key_store(broker_certificate(), []))
    monkeypatch.setitem(sys.modules, "cryptography", None)
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    assert refusal(settings).endswith(
        "needs the Python package cryptography, which is not installed: pip install cryptography."
    )


@pytest.mark.long
@pytest.mark.requires("java")
@pytest.mark.parametrize("kind", ["PKCS12", "JKS"])
def test_the_stores_of_keytool(tmp_path: Path, kind: str) -> None:
    """A key store and a trust store as Kafka's documentation makes them."""

    def keytool(*words: str) -> None:
        store = ("-storetype", kind, "-storepass", PASSWORD, "-noprompt")
        subprocess.run(["keytool", *words, *store], check=True, cwd=tmp_path, timeout=60)

    keytool(
        *("-genkeypair", "-keystore", "keys", "-alias", "b", "-keyalg", "EC", "-validity", "9"),
        *("-dname", "CN=broker,O=people", "-keypass", PASSWORD),
    )
    keytool("-exportcert", "-keystore", "keys", "-alias", "b", "-file", "own.der")
    keytool("-importcert", "-keystore", "trust", "-alias", "b", "-file", "own.der")
    keys = keys_in(tmp_path / "k", (tmp_path / "keys").read_bytes())
    trust = trusting(tmp_path / "t", (tmp_path / "trust").read_bytes(), PASSWORD)
    if kind == "JKS":
        assert "only Java reads (JKS)" in refusal(keys)
        assert "only Java reads (JKS)" in refusal(trust)
        return
    assert server_context(keys).subject == "CN=broker,O=people"
    assert node_side(trust).cert_store_stats()["x509"] == 1
