"""Listeners: the addresses that the broker binds, and those that it advertises to clients.

A listener is written ``NAME://host:port`` (Kafka's `EndPoint`). An empty host means every
interface, ``[...]`` encloses an IPv6 address, and port 0 means any free port. A name is a security
protocol, or is mapped to one by `listener.security.protocol.map`. Only PLAINTEXT is supported.
"""

from typing import NamedTuple

from ...clients.errors import ErrorCode, KafkaError
from ..network.socket_listener import Endpoint
from .config_values import ConfigValues

EVERY_INTERFACE = ("", "0.0.0.0", "::")


class Listeners(NamedTuple):
    """The endpoints to bind, and the endpoint advertised for each."""

    bound: tuple[Endpoint, ...]
    advertised: tuple[Endpoint, ...]


_PROTOCOL_MAP = "listener.security.protocol.map"
_PROTOCOLS = frozenset({"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"})


def _refuse(sentence: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, sentence)


def parse_endpoint(text: str) -> Endpoint:
    """Parse ``NAME://host:port``. Raises KafkaError(INVALID_CONFIG) for any other text."""
    name, separator, address = text.partition("://")
    host, colon, port = address.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    plain = host[1:-1] if bracketed else host
    digits = port.isascii() and port.isdigit() and len(port) <= 5
    if not (separator and name and colon and digits) or (":" in plain and not bracketed):
        raise _refuse(f"{text} is not a listener: use NAME://host:port.")
    if int(port) > 65535:
        raise _refuse(f"The port of listener {text} is larger than 65535.")
    return Endpoint(name.upper(), plain, int(port))


def _endpoints(values: ConfigValues, name: str) -> list[Endpoint]:
    endpoints = [parse_endpoint(text) for text in values.texts(name)]
    if len({endpoint.name for endpoint in endpoints}) < len(endpoints):
        raise _refuse(f"Each listener must have a different name in {name}.")
    return endpoints


def _protocols(values: ConfigValues) -> dict[str, str]:
    """The security protocol of each listener name."""
    protocols: dict[str, str] = {}
    for entry in filter(None, values.text(_PROTOCOL_MAP).split(",")):
        name, colon, protocol = (part.strip().upper() for part in entry.partition(":"))
        if not (name and colon):
            raise _refuse(f"{_PROTOCOL_MAP} holds {entry}, which is not NAME:PROTOCOL.")
        if protocol not in _PROTOCOLS:
            raise _refuse(f"Invalid security protocol `{protocol}` defined in {_PROTOCOL_MAP}.")
        if protocols.setdefault(name, protocol) != protocol:
            # Kafka uses the last one, which may open a listener that should not be open.
            raise _refuse(
                f"{_PROTOCOL_MAP} lists listener {name} twice, with {protocols[name]} and with "
                f"{protocol}: remove one of them."
            )
    return protocols


def _require_plaintext(values: ConfigValues, endpoints: list[Endpoint]) -> None:
    protocols = _protocols(values)
    for endpoint in endpoints:
        protocol = protocols.get(endpoint.name)
        if protocol is None:
            raise _refuse(f"Listener {endpoint.name} has no entry in {_PROTOCOL_MAP}.")
        if protocol != "PLAINTEXT":
            raise _refuse(
                f"Listener {endpoint} needs {protocol}; tierlog supports only PLAINTEXT so far."
            )


def read_listeners(values: ConfigValues, local_host_name: str) -> Listeners:
    """The listeners for clients; a single voter does not need those of the controller."""
    controller = {name.upper() for name in values.texts("controller.listener.names") if name}
    if not controller and "controller.listener.names" in values.stated:
        raise _refuse("Configuration 'controller.listener.names' must not be empty.")
    named = _endpoints(values, "listeners")
    bound = [endpoint for endpoint in named if endpoint.name not in controller]
    if not bound:
        raise _refuse("listeners has no listener for clients.")
    if controller and len(bound) == len(named):
        # A misspelt name would open the controller's listener to clients.
        raise _refuse(
            f"controller.listener.names={','.join(sorted(controller))} matches no listener in "
            "listeners."
        )
    _require_plaintext(values, bound)
    inter_broker = values.text("inter.broker.listener.name").upper()
    if inter_broker and "security.inter.broker.protocol" in values.stated:
        raise _refuse(
            "Only one of inter.broker.listener.name and security.inter.broker.protocol should be"
            " set."
        )
    if inter_broker and inter_broker not in {endpoint.name for endpoint in bound}:
        raise _refuse(
            f"inter.broker.listener.name={inter_broker} matches no client listener in listeners."
        )
    stated = (
        _endpoints(values, "advertised.listeners") if values.text("advertised.listeners") else []
    )
    advertised_by_name = {
        endpoint.name: endpoint for endpoint in stated if endpoint.name not in controller
    }
    strangers = set(advertised_by_name) - {endpoint.name for endpoint in bound}
    if strangers:
        raise _refuse(
            f"advertised.listeners has {', '.join(sorted(strangers))}, which listeners does not "
            "have."
        )
    advertised: list[Endpoint] = []
    for endpoint in bound:
        public = advertised_by_name.get(endpoint.name, endpoint)
        if public.host in EVERY_INTERFACE[1:]:
            raise _refuse(
                f"advertised.listeners cannot use the address {public.host}, to which no client "
                "can connect: set the address that clients use."
            )
        if not public.host:
            public = public._replace(host=local_host_name)
        advertised.append(public)
    return Listeners(tuple(bound), tuple(advertised))


def with_bound_ports(listeners: Listeners, ports: dict[str, int]) -> Listeners:
    """Replace port 0 with the ports that the system has chosen."""
    bound = tuple(e._replace(port=ports[e.name]) for e in listeners.bound)
    advertised = tuple(
        e if e.port else e._replace(port=ports[e.name]) for e in listeners.advertised
    )
    return Listeners(bound, advertised)
