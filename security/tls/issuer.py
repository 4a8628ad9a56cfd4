"""An authority for development, and the certificate that it gives to a broker.

Made with the package `cryptography`, which is imported only here and in `pkcs12.py`, and only when
it is needed (docs/decisions/029). Keys are of the curve P-256, which every client of Kafka can use.
"""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

AUTHORITY_DAYS = 3650
BROKER_DAYS_MAX = 825
"""Clients on Apple's systems refuse a certificate that holds for longer."""
_BEFORE = timedelta(hours=1)
"""How long before now certificates begin to hold, for machines whose clocks are late."""


class IssuedKeys(NamedTuple):
    """An authority and a broker of it, as PEM texts; keys are in PKCS#8, not encrypted."""

    authority_key: bytes
    authority: bytes
    broker_key: bytes
    broker: bytes


def issue_keys(hosts: "Sequence[str]", name: str, now_ms: int, days: int) -> IssuedKeys:
    """A new authority, and a certificate `CN=broker` for these host names and addresses.

    `name` distinguishes this authority from others; `days` is how long the broker's certificate
    holds. Raises ImportError if `cryptography` is not installed, ValueError for a host that is no
    name.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding
    from cryptography.x509.oid import ExtendedKeyUsageOID

    now = datetime.fromtimestamp(now_ms / 1000, UTC).replace(microsecond=0)
    authority_key = ec.generate_private_key(ec.SECP256R1())
    issuer = _subject(f"tierlog development {name}")
    identity = x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key())
    authority = _sign(
        _builder(issuer, issuer, authority_key, now, AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(identity, critical=False),
        authority_key,
    )
    broker_key = ec.generate_private_key(ec.SECP256R1())
    # A broker is a client of the others.
    purposes = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    broker = _sign(
        _builder(_subject("broker"), issuer, broker_key, now, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        .add_extension(_names(hosts), critical=False)
        .add_extension(
            x509.SubjectKeyIdentifier.from_public_key(broker_key.public_key()), critical=False
        )
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identity),
            critical=False,
        ),
        authority_key,
    )
    return IssuedKeys(
        _key_text(authority_key),
        authority.public_bytes(Encoding.PEM),
        _key_text(broker_key),
        broker.public_bytes(Encoding.PEM),
    )


def _subject(name: str) -> "x509.Name":
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(
    subject: "x509.Name",
    issuer: "x509.Name",
    key: "EllipticCurvePrivateKey",
    now: datetime,
    days: int,
) -> "x509.CertificateBuilder":
    from cryptography import x509

    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BEFORE)
        .not_valid_after(now + timedelta(days=days))
    )


def _usage(*, signs_certificates: bool) -> "x509.KeyUsage":
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _names(hosts: "Sequence[str]") -> "x509.SubjectAlternativeName":
    from cryptography import x509

    names: list[x509.GeneralName] = []
    for host in hosts:
        try:
            names.append(x509.IPAddress(ip_address(host)))
        except ValueError:
            names.append(x509.DNSName(host))
    return x509.SubjectAlternativeName(names)


def _sign(builder: "x509.CertificateBuilder", key: "EllipticCurvePrivateKey") -> "x509.Certificate":
    from cryptography.hazmat.primitives.hashes import SHA256

    return builder.sign(key, SHA256())


def _key_text(key: "EllipticCurvePrivateKey") -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
