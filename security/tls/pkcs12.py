"""Key and trust stores in PKCS12 (RFC 7292), the format of Java's `keytool` since Java 9.

The package `cryptography` reads them; it is imported when the first store is read (docs/decisions,
030). No error shows a password.
"""

from typing import TYPE_CHECKING, NamedTuple

from .der import most_iterations
from .pem import Block

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates

_JKS = b"\xfe\xed\xfe\xed"
_JCEKS = b"\xce\xce\xce\xce"
CERTIFICATES_MAX = 10_000
"""A store with more is refused: it is no trust store that a person has made."""


ITERATIONS_MAX = 5_000_000
"""A store, or an encrypted key, with more is refused: it would hold up the broker for an hour at
worst, and OpenSSL has no bound. This one is Java's (`PKCS12KeyStore.MAX_ITERATION_COUNT`)."""


class Pkcs12Error(Exception):
    """A store is not what it should be; `str(error)` follows the name of its property."""


class KeyAndChain(NamedTuple):
    """A private key in PKCS#8, not encrypted, and its certificates, its own first."""

    key: Block
    chain: list[Block]


def endless(iterations: int) -> str:
    """What is wrong with a store, or a key, with so many iterations."""
    return (
        f"has {iterations} iterations for its password, more than {ITERATIONS_MAX}: it is damaged,"
        " or has to be made with fewer"
    )


def is_java_format(content: bytes) -> bool:
    """Whether a store is in a format that only Java reads."""
    return content.startswith((_JKS, _JCEKS))


def read_key_store(content: bytes, password: str) -> KeyAndChain:
    """The key of a store, and the certificates up to its authority. Raises Pkcs12Error."""
    store = _open(content, password)
    if store.key is None or store.cert is None:
        raise Pkcs12Error("has no private key with its certificate")
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = store.key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    own = store.cert.certificate
    others = [certificate.certificate for certificate in store.additional_certs]
    chain = [own]
    # The order in a store says nothing, and a certificate that is its own issuer is the last.
    while chain[-1].issuer != chain[-1].subject:
        issuers = (certificate for certificate in others if certificate.subject == chain[-1].issuer)
        issuer = next((certificate for certificate in issuers if certificate not in chain), None)
        if issuer is None:
            break
        chain.append(issuer)
    ordered = [
        Block("CERTIFICATE", certificate.public_bytes(Encoding.DER)) for certificate in chain
    ]
    return KeyAndChain(Block("PRIVATE KEY", key), ordered)


def read_trust_store(content: bytes, password: str | None) -> list[Block]:
    """The certificates of a store that has nothing else. Raises Pkcs12Error."""
    store = _open(content, password)
    if store.key is not None:
        # Java trusts the key's own certificate, but not its authorities, unless they are marked as
        # trusted; the marks are not to be seen here.
        raise Pkcs12Error("has a private key: a trust store has only certificates")
    if not store.additional_certs:
        raise Pkcs12Error("has no certificate")
    from cryptography.hazmat.primitives.serialization import Encoding

    return [
        Block("CERTIFICATE", certificate.certificate.public_bytes(Encoding.DER))
        for certificate in store.additional_certs
    ]


def _open(content: bytes, password: str | None) -> "PKCS12KeyAndCertificates":
    if is_java_format(content):
        raise Pkcs12Error(
            "is in a format that only Java reads (JKS): convert it with keytool -importkeystore"
            " -deststoretype PKCS12"
        )
    if b"-----BEGIN " in content:
        raise Pkcs12Error("is PEM, so the type of the store has to be PEM")
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
    except ImportError:
        raise Pkcs12Error(
            "is a store in PKCS12, for which tierlog needs the Python package cryptography, which"
            " is not installed: pip install cryptography"
        ) from None
    if (count := most_iterations(content)) > ITERATIONS_MAX:
        raise Pkcs12Error(endless(count))
    try:
        store = load_pkcs12(content, None if password is None else password.encode())
    except (ValueError, TypeError):
        needed = "its password does not open it" if password else "it needs its password"
        raise Pkcs12Error(f"is not a PKCS12 store, or {needed}") from None
    except UnsupportedAlgorithm:
        raise Pkcs12Error("has a key of a kind that is not supported") from None
    if len(store.additional_certs) > CERTIFICATES_MAX:
        raise Pkcs12Error(f"has more than {CERTIFICATES_MAX} certificates")
    return store
