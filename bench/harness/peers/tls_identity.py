"""The key and certificate of the brokers that are measured over TLS, made for one run."""

import os
from pathlib import Path
from time import time

from ....security.tls.issuer import issue_keys
from .tls_listener import HOST, TlsIdentity

_DAYS = 7


def make_identity(directory: Path) -> TlsIdentity:
    """Make an authority and a certificate for 127.0.0.1, or return those that are there."""
    identity = TlsIdentity(directory / "broker.pem", directory / "authority.pem")
    if identity.authority.exists():
        return identity
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    issued = issue_keys([HOST], "bench", int(time() * 1000), _DAYS)
    identity.key_store.touch(mode=0o600)
    identity.key_store.write_bytes(issued.broker_key + issued.broker)
    unfinished = identity.authority.with_suffix(".new")
    unfinished.write_bytes(issued.authority)
    os.replace(unfinished, identity.authority)
    return identity
