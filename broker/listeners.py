"""Listeners: where the broker listens, and what it tells clients to connect to.

A listener is written ``NAME://host:port`` (Kafka's `EndPoint`). No host stands for every interface,
``[...]`` holds an IPv6 address, and port 0 for any free port. A name is a security protocol, or is
mapped to one by `listener.security.protocol.map`. Only PLAINTEXT is served for now.
"""

from typing import NamedTuple

from ..clients.errors import ErrorCode, KafkaError
from .config_values import ConfigValues

EVERY_INTERFACE = ("", "0.0.0.0", "::")


class Endpoint(NamedTuple):
    """One listener's name and address."""

    name: str
    host: str
    port: int

    @property
    def address(self) -> str:
        """``host:port`` as a client's bootstrap list wants it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.name}://{self.address}"


class Listeners(NamedTuple):
    """What is opened, and what is advertised for each of them by name."""

    bound: tuple[Endpoint, ...]
    advertised: tuple[Endpoint, ...]


def _refuse(sentence: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, sentence)


def parse_endpoint(text: str) -> Endpoint:
    """Raises KafkaError(INVALID_CONFIG) where `text` is not ``NAME://host:port``."""
    name, separator, address = text.partition("://")
    host, colon, port = address.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    plain = host[1:-1] if bracketed else host
    digits = port.isascii() and port.isdigit() and len(port) <= 5
    if not (separator and name and colon and digits) or (":" in plain and not bracketed):
        raise _refuse(f"{text} is not a listener; one is written NAME://host:port.")
    if int(port) > 65535:
        raise _refuse(f"The port of listener {text} is larger than 65535.")
    return Endpoint(name.upper(), plain, int(port))


def _endpoints(values: ConfigValues, name: str) -> list[Endpoint]:
    endpoints = [parse_endpoint(text) for text in values.texts(name)]
    if len({endpoint.name for endpoint in endpoints}) < len(endpoints):
        raise _refuse(f"Each listener name may stand only once in {name}.")
    return endpoints


def _require_plaintext(values: ConfigValues, endpoints: list[Endpoint]) -> None:
    pairs = [
        entry.split(":", 1) for entry in values.text("listener.security.protocol.map").split(",")
    ]
    protocols = {pair[0].strip().upper(): pair[-1].strip().upper() for pair in pairs}
    for endpoint in endpoints:
        protocol = protocols.get(endpoint.name)
        if protocol is None:
            raise _refuse(
                f"Listener {endpoint.name} has no entry in listener.security.protocol.map."
            )
        if protocol != "PLAINTEXT":
            raise _refuse(
                f"Listener {endpoint} asks for {protocol}; tierlog serves only PLAINTEXT for now."
            )


def read_listeners(values: ConfigValues, local_host_name: str) -> Listeners:
    """The broker's listeners; those of the controller are left out, since one voter needs none."""
    controller = {name.upper() for name in values.texts("controller.listener.names") if name}
    named = _endpoints(values, "listeners")
    bound = [endpoint for endpoint in named if endpoint.name not in controller]
    if not bound:
        raise _refuse("listeners names no listener for clients.")
    if controller and len(bound) == len(named):
        # A misspelt name would open the controller's listener to clients.
        raise _refuse(
            f"controller.listener.names={','.join(sorted(controller))} names no listener of"
            " listeners."
        )
    _require_plaintext(values, bound)
    inter_broker = values.text("inter.broker.listener.name").upper()
    if inter_broker and inter_broker not in {endpoint.name for endpoint in bound}:
        raise _refuse(
            f"inter.broker.listener.name={inter_broker} names no listener for clients of listeners."
        )
    stated = (
        _endpoints(values, "advertised.listeners") if values.text("advertised.listeners") else []
    )
    told = {endpoint.name: endpoint for endpoint in stated if endpoint.name not in controller}
    strangers = set(told) - {endpoint.name for endpoint in bound}
    if strangers:
        raise _refuse(
            f"advertised.listeners names {', '.join(sorted(strangers))}, which listeners does not."
        )
    advertised: list[Endpoint] = []
    for endpoint in bound:
        public = told.get(endpoint.name, endpoint)
        if public.host in EVERY_INTERFACE[1:]:
            raise _refuse(
                f"advertised.listeners cannot use the address {public.host}, where no client can"
                " connect to; state the address that clients use."
            )
        if not public.host:
            public = public._replace(host=local_host_name)
        advertised.append(public)
    return Listeners(tuple(bound), tuple(advertised))


def with_bound_ports(listeners: Listeners, ports: dict[str, int]) -> Listeners:
    """The same listeners once the system has chosen ports for those that asked for port 0."""
    bound = tuple(e._replace(port=ports[e.name]) for e in listeners.bound)
    advertised = tuple(
        e if e.port else e._replace(port=ports[e.name]) for e in listeners.advertised
    )
    return Listeners(bound, advertised)
