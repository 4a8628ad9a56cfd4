"""The key and certificate of the brokers that are measured over TLS, made for one run."""

import os
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from .listener import HOST, TlsIdentity

_VALID_FOR = timedelta(days=7)


def make_identity(directory: Path) -> TlsIdentity:
    """Make an authority and a certificate for 127.0.0.1, or return those that are there."""
    identity = TlsIdentity(directory / "broker.pem", directory / "authority.pem")
    if identity.authority.exists():
        return identity
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    authority_key = ec.generate_private_key(ec.SECP256R1())
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("tierlog-bench authority")
    authority = (
        _certificate(name, name, authority_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    address = x509.IPAddress(IPv4Address(HOST))
    certificate = (
        _certificate(_name("tierlog-bench broker"), name, key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    key_text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    identity.key_store.touch(mode=0o600)
    identity.key_store.write_bytes(key_text + certificate.public_bytes(Encoding.PEM))
    unfinished = identity.authority.with_suffix(".new")
    unfinished.write_bytes(authority.public_bytes(Encoding.PEM))
    os.replace(unfinished, identity.authority)
    return identity


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + _VALID_FOR)
    )
