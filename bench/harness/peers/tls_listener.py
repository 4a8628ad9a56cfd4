"""A broker's listener with TLS: its files and its properties.

All brokers of a run have the same certificate (ECDSA P-256), and both sides speak TLS 1.3 only, so
that the cipher is the same too: a run whose connections have another one does not count.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

VERSION = "TLSv1.3"
CIPHER = "TLS_AES_256_GCM_SHA384"

HOST = "127.0.0.1"


class TlsIdentity(NamedTuple):
    """Files in PEM: the broker's key with its certificate, and the authority that issued it."""

    key_store: Path
    authority: Path


def with_tls(properties: Mapping[str, str], port: int, identity: TlsIdentity) -> dict[str, str]:
    """A broker's properties with an SSL listener beside those that it has."""
    secured = dict(properties)
    for name in ("listeners", "advertised.listeners"):
        if name in secured:
            secured[name] += f",SSL://{HOST}:{port}"
    return secured | {
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(identity.key_store),
        "ssl.enabled.protocols": VERSION,
    }
