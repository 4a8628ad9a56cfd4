"""The TLS listeners of a configuration: what their connections share, made of their settings."""

from typing import TYPE_CHECKING

from .config import BrokerConfig

if TYPE_CHECKING:
    from ..network.tls_transport import TlsAcceptor


def tls_acceptors(config: BrokerConfig) -> "dict[str, TlsAcceptor]":
    """What the connections of each listener share. Raises KafkaError(INVALID_CONFIG)."""
    if not config.tls:
        return {}
    # A broker in plain text does not pay for OpenSSL.
    from ..network.tls_transport import TlsAcceptor
    from ..security.tls.context import server_context

    handshake_s = config.values.integer("tierlog.tls.handshake.timeout.ms") / 1000
    return {
        name: TlsAcceptor(server_context(settings), handshake_s)
        for name, settings in config.tls.items()
    }
