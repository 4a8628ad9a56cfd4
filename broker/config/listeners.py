"""Listeners: the addresses that the broker binds, and those that it advertises to clients.

A listener is written ``NAME://host:port`` (Kafka's `EndPoint`). An empty host means every
interface, ``[...]`` encloses an IPv6 address, and port 0 means any free port. A name is a security
protocol, or is mapped to one by `listener.security.protocol.map`. The settings of TLS are read by
`security_config.py`, those of SASL by `sasl_config.py`. A listener that `controller.listener.names`
names is for controllers and takes other requests (`SERVED_ON`).
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from ...clients.errors import ErrorCode, KafkaError
from ...clients.protocol.api import ListenerKind
from ..network.socket_listener import Endpoint
from .config_values import ConfigValues
from .quorum_config import (
    PORT_MAX,
    QuorumConfig,
    Role,
    check_roles,
    require_controller_listeners,
)

EVERY_INTERFACE = ("", "0.0.0.0", "::")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Listeners(NamedTuple):
    """The endpoints to bind, and the endpoint advertised for each."""

    bound: tuple[Endpoint, ...]
    """For clients and brokers."""
    advertised: tuple[Endpoint, ...]
    controllers: tuple[Endpoint, ...] = ()
    """For controllers, and those who ask one."""
    advertised_controllers: tuple[Endpoint, ...] = ()

    @property
    def all(self) -> tuple[Endpoint, ...]:
        """Everything that is bound."""
        return (*self.bound, *self.controllers)

    def kind_of(self, name: str) -> ListenerKind:
        """Whether the listener of this name is for controllers."""
        is_controller = any(controller.name == name for controller in self.controllers)
        return ListenerKind.CONTROLLER if is_controller else ListenerKind.BROKER


def listener_of_brokers(values: ConfigValues) -> str:
    """The name of the listener at which brokers serve each other."""
    stated = values.text("inter.broker.listener.name")
    return (stated or values.text("security.inter.broker.protocol")).upper()


_PROTOCOL_MAP = "listener.security.protocol.map"
_PROTOCOLS = frozenset({"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"})


def _refusal(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, message)


def parse_endpoint(text: str) -> Endpoint:
    """Parse ``NAME://host:port``. Raises KafkaError(INVALID_CONFIG) for any other text."""
    name, separator, address = text.partition("://")
    host, colon, port = address.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    plain = host[1:-1] if bracketed else host
    digits = port.isascii() and port.isdigit() and len(port) <= 5
    if not (separator and name and colon and digits) or (":" in plain and not bracketed):
        raise _refusal(f"{text} is not a listener: use NAME://host:port.")
    if int(port) > PORT_MAX:
        raise _refusal(f"The port of listener {text} is larger than 65535.")
    return Endpoint(name.upper(), plain, int(port))


def _endpoints(values: ConfigValues, name: str) -> list[Endpoint]:
    endpoints = [parse_endpoint(text) for text in values.texts(name)]
    if len({endpoint.name for endpoint in endpoints}) < len(endpoints):
        raise _refusal(f"Each listener must have a different name in {name}.")
    return endpoints


def _protocols(values: ConfigValues) -> dict[str, str]:
    """The security protocol of each listener name."""
    protocols: dict[str, str] = {}
    for entry in filter(None, values.text(_PROTOCOL_MAP).split(",")):
        name, colon, protocol = (part.strip().upper() for part in entry.partition(":"))
        if not (name and colon):
            raise _refusal(f"{_PROTOCOL_MAP} holds {entry}, which is not NAME:PROTOCOL.")
        if protocol not in _PROTOCOLS:
            raise _refusal(f"Invalid security protocol `{protocol}` defined in {_PROTOCOL_MAP}.")
        if protocols.setdefault(name, protocol) != protocol:
            # Kafka uses the last one, which may open a listener that should not be open.
            raise _refusal(
                f"{_PROTOCOL_MAP} lists listener {name} twice, with {protocols[name]} and with "
                f"{protocol}: remove one of them."
            )
    return protocols


def _effective_protocols(
    values: ConfigValues, endpoints: list[Endpoint], controllers: Collection[str]
) -> dict[str, str]:
    """The security protocol of each listener name, controllers' among them.

    Names of controllers need no entry while no map is set and every listener is PLAINTEXT
    (`KafkaConfig.effectiveListenerSecurityProtocolMap`).
    """
    protocols = _protocols(values)
    secured = {*(endpoint.name for endpoint in endpoints), *controllers} & _PROTOCOLS
    if _PROTOCOL_MAP not in values.stated and secured <= {"PLAINTEXT"}:
        return {**dict.fromkeys(controllers, "PLAINTEXT"), **protocols}
    return protocols


def _require_served(protocols: Mapping[str, str], endpoints: list[Endpoint]) -> None:
    """Refuse a listener without a protocol."""
    for endpoint in endpoints:
        if endpoint.name not in protocols:
            raise _refusal(f"Listener {endpoint.name} has no entry in {_PROTOCOL_MAP}.")


def listener_protocols(values: ConfigValues, quorum: QuorumConfig) -> dict[str, str]:
    """The security protocol of each listener, and of other nodes' listeners for controllers.

    Raises KafkaError(INVALID_CONFIG).
    """
    named = _endpoints(values, "listeners")
    protocols = _effective_protocols(values, named, quorum.controller_listeners)
    own = {endpoint.name: protocols.get(endpoint.name, "") for endpoint in named}
    for name in quorum.controller_listeners:
        own.setdefault(name, protocols.get(name, ""))
    return own


def read_listeners(values: ConfigValues, quorum: QuorumConfig, local_host_name: str) -> Listeners:
    """The listeners, checked with the roles of the process. Raises KafkaError(INVALID_CONFIG)."""
    require_controller_listeners(quorum)
    named = _endpoints(values, "listeners")
    protocols = _effective_protocols(values, named, quorum.controller_listeners)
    _require_served(protocols, named)
    inter_broker = values.text("inter.broker.listener.name").upper()
    check_roles(quorum, {endpoint.name for endpoint in named}, protocols, inter_broker)
    stated = (
        _endpoints(values, "advertised.listeners") if values.text("advertised.listeners") else []
    )
    bound = [endpoint for endpoint in named if endpoint.name not in quorum.controller_listeners]
    of_controllers = [
        endpoint for endpoint in named if endpoint.name in quorum.controller_listeners
    ]
    by_name = {endpoint.name: endpoint for endpoint in stated}
    if Role.BROKER in quorum.roles:
        _check_advertised(values, named, bound, by_name)
    own = quorum.own_voter
    if own is not None and quorum.controller_listeners:
        # The other voters reach this one at the address of its entry.
        first = quorum.controller_listeners[0]
        by_name.setdefault(first, Endpoint(first, own.host, own.port))
    return Listeners(
        tuple(bound),
        tuple(_public(by_name.get(endpoint.name, endpoint), local_host_name) for endpoint in bound),
        tuple(of_controllers),
        tuple(
            _public(by_name.get(controller.name, controller), local_host_name)
            for controller in of_controllers
        ),
    )


def is_whole_cluster(quorum: QuorumConfig, listeners: Listeners) -> bool:
    """Whether this process is both, broker and controller, and names no other controller.

    A bootstrap server that is a listener of its own controller names none.
    """
    endpoints = (*listeners.controllers, *listeners.advertised_controllers)
    return quorum.names_no_other and all(
        any(_reaches(host, port, endpoint) for endpoint in endpoints)
        for host, port in quorum.bootstrap_servers
    )


def _reaches(host: str, port: int, endpoint: Endpoint) -> bool:
    is_local = host in _LOOPBACK and endpoint.host in (*EVERY_INTERFACE, *_LOOPBACK)
    return port == endpoint.port and (host == endpoint.host or is_local)


def _check_advertised(
    values: ConfigValues,
    named: list[Endpoint],
    bound: list[Endpoint],
    advertised: Mapping[str, Endpoint],
) -> None:
    """Check what clients and brokers use, with the error messages of `KafkaConfig.validateValues`.

    Unlike in Kafka, a listener that `advertised.listeners` leaves out is advertised as it is bound.
    """
    controllers = {endpoint.name for endpoint in named} - {endpoint.name for endpoint in bound}
    of_brokers = [name for name in advertised if name not in controllers]
    if not bound or (advertised and not of_brokers):
        raise _refusal(
            "There must be at least one broker advertised listener. Perhaps all listeners appear in"
            " controller.listener.names?"
        )
    names = [endpoint.name for endpoint in bound]
    inter_broker = values.text("inter.broker.listener.name").upper()
    if inter_broker and "security.inter.broker.protocol" in values.stated:
        raise _refusal(
            "Only one of inter.broker.listener.name and security.inter.broker.protocol should be"
            " set."
        )
    if inter_broker and inter_broker not in names:
        raise _refusal(
            "inter.broker.listener.name must be a listener name defined in advertised.listeners."
            " The valid options based on currently configured listeners are"
            f" {','.join(of_brokers or names)}"
        )
    if not set(of_brokers) <= set(names):
        raise _refusal(
            "advertised.listeners listener names must be equal to or a subset of the ones defined"
            f" in listeners. Found {','.join(of_brokers)}. The valid options based on the current"
            f" configuration are {','.join(endpoint.name for endpoint in named)}"
        )


def _public(endpoint: Endpoint, local_host_name: str) -> Endpoint:
    if endpoint.host in EVERY_INTERFACE[1:]:
        raise _refusal(
            f"advertised.listeners cannot use the nonroutable meta-address {endpoint.host}. Use a"
            " routable IP address."
        )
    return endpoint if endpoint.host else endpoint._replace(host=local_host_name)


def with_bound_ports(listeners: Listeners, ports: dict[str, int]) -> Listeners:
    """Replace port 0 with the ports that the system has chosen."""

    def chosen(endpoints: tuple[Endpoint, ...]) -> tuple[Endpoint, ...]:
        return tuple(e if e.port else e._replace(port=ports[e.name]) for e in endpoints)

    return Listeners(*map(chosen, listeners))
