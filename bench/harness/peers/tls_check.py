"""Checks that a broker speaks the version and the cipher that are measured."""

import socket
import ssl
from pathlib import Path

from ..measurement_error import MeasurementError
from .tls_listener import CIPHER, VERSION

_PATIENCE_S = 20.0


def check_cipher(bootstrap: str, authority: Path) -> None:
    """Raise MeasurementError unless a connection has the version and cipher that is measured."""
    host, _, port = bootstrap.rpartition(":")
    context = ssl.create_default_context(cafile=authority)
    with (
        socket.create_connection((host, int(port)), _PATIENCE_S) as plain,
        context.wrap_socket(plain, server_hostname=host) as secured,
    ):
        cipher = secured.cipher()
        spoken = (secured.version(), cipher[0] if cipher else None)
    if spoken != (VERSION, CIPHER):
        raise MeasurementError(f"{bootstrap} speaks {spoken}, not {(VERSION, CIPHER)}")
