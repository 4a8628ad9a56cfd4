"""Client properties under Kafka's names (`-X name=value`), as settings of the project's clients."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from ....clients.network.network import NetworkConfig
from .address import UsageError
from .sendable import INT32_MAX, INT64_MAX

V = TypeVar("V")

_OF_EVERY_CLIENT = frozenset(
    {
        "client.id",
        "default.api.timeout.ms",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "request.timeout.ms",
        "security.protocol",
        "socket.connection.setup.timeout.ms",
    }
)
_OF_TLS = frozenset(
    {
        "ssl.ca.location",
        "ssl.certificate.location",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.location",
        "ssl.key.password",
        "ssl.keystore.location",
        "ssl.keystore.type",
        "ssl.truststore.location",
        "ssl.truststore.type",
    }
)
"""Names of Kafka's Java client and of librdkafka."""
_OF_PRODUCERS = frozenset(
    {
        "acks",
        "batch.size",
        "buffer.memory",
        "compression.type",
        "delivery.timeout.ms",
        "enable.idempotence",
        "linger.ms",
        "max.block.ms",
        "max.request.size",
        "retry.backoff.ms",
    }
)
_OF_CONSUMERS = frozenset(
    {
        "check.crcs",
        "client.rack",
        "fetch.max.bytes",
        "fetch.max.wait.ms",
        "fetch.min.bytes",
        "group.instance.id",
        "heartbeat.interval.ms",
        "isolation.level",
        "max.partition.fetch.bytes",
        "max.poll.interval.ms",
        "max.poll.records",
        "session.timeout.ms",
    }
)
_LONG = frozenset(
    {
        *("buffer.memory", "linger.ms", "max.block.ms", "retry.backoff.ms"),
        *("reconnect.backoff.max.ms", "reconnect.backoff.ms"),
        "socket.connection.setup.timeout.ms",
    }
)
"""The numbers that have 64 bits; the others have 32, as in Kafka."""
NAMES = _OF_EVERY_CLIENT | _OF_TLS | _OF_PRODUCERS | _OF_CONSUMERS
_PROTOCOLS = {"PLAINTEXT": "PLAINTEXT", "SSL": "SSL"}


class ClientProperties:
    """Reads properties as values of a type. Every method raises UsageError for a bad value."""

    def __init__(self, stated: Mapping[str, str]) -> None:
        """Raises UsageError for a name that no client here has."""
        for name in stated:
            if name not in NAMES:
                raise UsageError(
                    f"No client of tierlog has the property {name}: docs/command-line.md lists all."
                )
        self._stated = stated

    def text(self, name: str, default: str) -> str:
        """A property as it stands."""
        return self._stated.get(name, default)

    def number(self, name: str, default: int) -> int:
        """A property that is a whole number, not below zero, of the size that Kafka gives it."""
        value = self._stated.get(name)
        if value is None:
            return default
        if not (value.isascii() and value.isdigit() and len(value) < 20):
            raise UsageError(f"-X {name}={value} is no whole number.")
        most = INT64_MAX if name in _LONG else INT32_MAX
        if int(value) > most:
            raise UsageError(f"-X {name}={value} is more than {most}.")
        return int(value)

    def flag(self, name: str, default: bool) -> bool:
        """A property that is true or false."""
        return self.one_of(name, {"true": True, "false": False}, default=default)

    def one_of(self, name: str, values: Mapping[str, V], *, default: V) -> V:
        """A property that has one of these values."""
        value = self._stated.get(name)
        if value is None:
            return default
        if value not in values:
            raise UsageError(f"-X {name}={value} is none of {', '.join(values)}.")
        return values[value]

    def network(self, client_id: str) -> NetworkConfig:
        """The connection settings."""
        defaults = NetworkConfig()
        config = NetworkConfig(
            client_id=self.text("client.id", client_id),
            request_timeout_ms=self.number("request.timeout.ms", defaults.request_timeout_ms),
            socket_connection_setup_timeout_ms=self.number(
                "socket.connection.setup.timeout.ms", defaults.socket_connection_setup_timeout_ms
            ),
            reconnect_backoff_ms=self.number("reconnect.backoff.ms", defaults.reconnect_backoff_ms),
            reconnect_backoff_max_ms=self.number(
                "reconnect.backoff.max.ms", defaults.reconnect_backoff_max_ms
            ),
        )
        return self._secured(config)

    def _secured(self, config: NetworkConfig) -> NetworkConfig:
        """The settings of connections with TLS, or the same for plain text."""
        protocol = self.one_of("security.protocol", _PROTOCOLS, default="PLAINTEXT")
        stated = sorted(_OF_TLS & self._stated.keys())
        if protocol == "PLAINTEXT":
            if stated:
                raise UsageError(
                    f"{stated[0]} is set, but connections are in plain text: add"
                    " -X security.protocol=SSL."
                )
            return config
        for name in ("ssl.truststore", "ssl.keystore"):
            is_pem = self.one_of(f"{name}.type", {"PEM": True}, default=False)
            if f"{name}.location" in self._stated and not is_pem:
                raise UsageError(
                    f"{name}.location needs {name}.type=PEM, the only format that tierlog reads."
                )
        # Loaded by those alone who speak TLS.
        from ....clients.network.tls import ClientTls, client_context

        checks = {"https": True, "": False, "none": False}
        own = self.text("ssl.certificate.location", self.text("ssl.keystore.location", ""))
        context = client_context(
            ClientTls(
                trusted=self.text("ssl.ca.location", self.text("ssl.truststore.location", "")),
                certificate=own,
                key=self.text("ssl.key.location", ""),
                key_password=self.text("ssl.key.password", ""),
                checks_host=self.one_of(
                    "ssl.endpoint.identification.algorithm", checks, default=True
                ),
            )
        )
        return replace(config, ssl_context=context)
