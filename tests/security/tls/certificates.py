"""Certificates for tests: authorities, a broker's key and certificate, clients' contexts."""

import ssl
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from tierlog.security.tls.context import ServerContext, server_context
from tierlog.security.tls.settings import ClientAuth, KeyStore, Secret, TlsSettings, TrustStore


@cache
def authority(name: str) -> trustme.CA:
    """An authority; one of another name is a stranger to the first."""
    return trustme.CA(organization_name=name)


@cache
def broker_certificate(name: str = "ours") -> trustme.LeafCert:
    """A certificate for a broker on this machine."""
    return authority(name).issue_cert("127.0.0.1", "localhost", common_name="broker")


def key_text(certificate: trustme.LeafCert) -> str:
    """Its private key as PKCS#8."""
    key = load_pem_private_key(certificate.private_key_pem.bytes(), None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def encrypted_key_text(certificate: trustme.LeafCert, password: str) -> str:
    """Its private key as PKCS#8, encrypted."""
    key = load_pem_private_key(certificate.private_key_pem.bytes(), None)
    how = BestAvailableEncryption(password.encode())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, how).decode()


def chain_text(certificate: trustme.LeafCert) -> str:
    return "".join(each.bytes().decode() for each in certificate.cert_chain_pems)


def authority_text(name: str = "ours") -> str:
    return authority(name).cert_pem.bytes().decode()


def tls_settings(client_auth: ClientAuth = "none", rules: str = "DEFAULT") -> TlsSettings:
    """Inline keys of a broker, which trusts clients of our authority."""
    certificate = broker_certificate()
    return TlsSettings(
        "SSL",
        KeyStore(key=Secret(key_text(certificate)), chain=Secret(chain_text(certificate))),
        TrustStore(certificates=Secret(authority_text())),
        client_auth,
        mapping_rules=rules,
    )


@cache
def server(client_auth: ClientAuth = "none", rules: str = "DEFAULT") -> ServerContext:
    return server_context(tls_settings(client_auth, rules))


def client_context(
    identity: trustme.LeafCert | None = None, trusts: str = "ours"
) -> ssl.SSLContext:
    """A client's context, with a certificate of its own if it has an `identity`."""
    context = ssl.create_default_context(cadata=authority_text(trusts))
    if identity is not None:
        with identity.private_key_and_cert_chain_pem.tempfile() as path:
            context.load_cert_chain(path)
    return context


def person(name: str, issuer: str = "ours", *, has_expired: bool = False) -> trustme.LeafCert:
    """A client's certificate."""
    until = datetime(2020, 1, 2, tzinfo=UTC) if has_expired else None
    since = datetime(2020, 1, 1, tzinfo=UTC) if has_expired else None
    return authority(issuer).issue_cert(
        f"{name}@example.org",
        common_name=name,
        organization_name="people",
        not_before=since,
        not_after=until,
    )


def write_identity(directory: Path, name: str, certificate: trustme.LeafCert) -> Path:
    """Write a PEM file with a key and its certificates."""
    path = directory / f"{name}.pem"
    path.write_text(key_text(certificate) + chain_text(certificate))
    return path


def write_authority(directory: Path, name: str = "ours") -> Path:
    """Write the PEM file of an authority's certificate."""
    path = directory / f"ca-{name}.pem"
    path.write_text(authority_text(name))
    return path


_OIDS = {
    "C": "2.5.4.6",
    "CN": "2.5.4.3",
    "DC": "0.9.2342.19200300.100.1.25",
    "UID": "0.9.2342.19200300.100.1.1",
    "emailAddress": "1.2.840.113549.1.9.1",
    "serialNumber": "2.5.4.5",
}


def named(parts: Sequence[tuple[str, str]]) -> bytes:
    """A certificate in DER whose subject consists of these parts, the most general first."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.ObjectIdentifier(_OIDS[k]), v) for k, v in parts])
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2040, 1, 1, tzinfo=UTC))
    )
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.DER)
