"""Client properties under Kafka's names (`-X name=value`), as settings of the project's clients."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from ...clients.errors import KafkaError
from ...clients.network.network import NetworkConfig
from ...clients.network.security import ClientContext, ConnectionSecurity
from .address import UsageError
from .sendable import INT32_MAX, INT64_MAX

if TYPE_CHECKING:
    from ...clients.sasl.client_mechanism import ClientMechanism
    from ...clients.sasl.secret import Secret

V = TypeVar("V")

_COMMON_NAMES = frozenset(
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
_TLS_NAMES = frozenset(
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
_SASL_NAMES = frozenset(
    {
        "sasl.jaas.config",
        "sasl.mechanism",
        "sasl.mechanisms",
        "sasl.password",
        "sasl.username",
    }
)
"""Likewise: `sasl.jaas.config` is Java's, `sasl.mechanisms` and the user are librdkafka's."""
_PRODUCER_NAMES = frozenset(
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
_CONSUMER_NAMES = frozenset(
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
NAMES = _COMMON_NAMES | _TLS_NAMES | _SASL_NAMES | _PRODUCER_NAMES | _CONSUMER_NAMES
_PROTOCOLS = {each: each for each in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")}
_LOGIN = "sasl.username and sasl.password, or sasl.jaas.config"


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
            raise UsageError(f"-X {name}={value} is not a whole number.")
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
        return self._with_security(config)

    def _with_security(self, config: NetworkConfig) -> NetworkConfig:
        """The settings of connections with TLS, a login or both, or the same for neither."""
        protocol = self.one_of("security.protocol", _PROTOCOLS, default="PLAINTEXT")
        has_tls, has_sasl = protocol.endswith("SSL"), protocol.startswith("SASL_")
        for is_used, names, what, needed in (
            (has_tls, _TLS_NAMES, "are in plain text", "SASL_SSL" if has_sasl else "SSL"),
            (has_sasl, _SASL_NAMES, "have no login", f"SASL_{protocol}"),
        ):
            stated = sorted(names & self._stated.keys())
            if stated and not is_used:
                raise UsageError(
                    f"{stated[0]} is set, but connections {what}: add"
                    f" -X security.protocol={needed}."
                )
        if protocol == "PLAINTEXT":
            return config
        security = ConnectionSecurity(
            self._context() if has_tls else None, self._login() if has_sasl else None
        )
        return replace(config, security=security)

    def _context(self) -> ClientContext:
        """What connections with TLS are opened with."""
        for name in ("ssl.truststore", "ssl.keystore"):
            is_pem = self.one_of(f"{name}.type", {"PEM": True}, default=False)
            if f"{name}.location" in self._stated and not is_pem:
                raise UsageError(
                    f"{name}.location needs {name}.type=PEM, the only format that tierlog reads."
                )
        # Loaded by those alone who speak TLS.
        from ...clients.network.tls import ClientTls, client_context

        checks = {"https": True, "": False, "none": False}
        own = self.text("ssl.certificate.location", self.text("ssl.keystore.location", ""))
        return client_context(
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

    def _login(self) -> "ClientMechanism":
        """What logs in by SASL. No error message contains a password."""
        # Loaded by those alone who log in.
        from ...clients.sasl.client_mechanism import CLIENT_MECHANISMS, client_mechanism

        stated = self.text("sasl.mechanism", self.text("sasl.mechanisms", ""))
        names = ", ".join(CLIENT_MECHANISMS)
        if stated not in CLIENT_MECHANISMS:
            begin = (
                f"sasl.mechanism={stated} is not" if stated else "sasl.mechanism is missing: it is"
            )
            raise UsageError(f"{begin} one of {names}.")
        user, password = self._user(stated)
        if not user or not password.reveal():
            raise UsageError(f"A login with {stated} needs {_LOGIN}.")
        try:
            return client_mechanism(stated, user, password)
        except KafkaError as error:
            raise UsageError(error.message) from None

    def _user(self, mechanism: str) -> "tuple[str, Secret]":
        """The name and password, by librdkafka's names or in Java's."""
        from ...clients.sasl.jaas import LoginModule, parse_jaas
        from ...clients.sasl.secret import Secret

        jaas = self.text("sasl.jaas.config", "")
        if not jaas:
            return self.text("sasl.username", ""), Secret(self.text("sasl.password", ""))
        if "sasl.username" in self._stated or "sasl.password" in self._stated:
            raise UsageError("sasl.jaas.config is set beside sasl.username or sasl.password.")
        try:
            entry = parse_jaas(jaas)
        except KafkaError as error:
            raise UsageError(error.message) from None
        module = LoginModule.PLAIN if mechanism == "PLAIN" else LoginModule.SCRAM
        if entry.module is not module:
            raise UsageError(
                f"sasl.jaas.config names {entry.module.value}, but {mechanism} has {module.value}."
            )
        return entry.text("username") or "", entry.options.get("password", Secret(""))
