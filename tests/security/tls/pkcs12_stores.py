"""Stores in PKCS12 for tests."""

import trustme
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    NoEncryption,
    load_pem_private_key,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates

from tierlog.tests.security.tls.certificates import authority_text

PASSWORD = "sesame"


def private_key(certificate: trustme.LeafCert) -> EllipticCurvePrivateKey:
    key = load_pem_private_key(certificate.private_key_pem.bytes(), None)
    assert isinstance(key, EllipticCurvePrivateKey)
    return key


def key_store(
    certificate: trustme.LeafCert, others: list[x509.Certificate], password: str = PASSWORD
) -> bytes:
    """A key with its certificate, and with others in any order."""
    own = x509.load_pem_x509_certificate(certificate.cert_chain_pems[0].bytes())
    how = BestAvailableEncryption(password.encode()) if password else NoEncryption()
    return serialize_key_and_certificates(b"b", private_key(certificate), own, others, how)


def trust_store(password: str = "") -> bytes:
    """Our authority's certificate alone."""
    how = BestAvailableEncryption(password.encode()) if password else NoEncryption()
    trusted = x509.load_pem_x509_certificates(authority_text().encode())
    return serialize_key_and_certificates(None, None, None, trusted, how)
