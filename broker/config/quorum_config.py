"""What a process is in its cluster: its roles, the voters of the metadata quorum, their listeners.

The checks and their error messages are those of Kafka's `KafkaConfig.validateValues` and
`QuorumConfig`, in Kafka's order, with one exception: a process that is the whole cluster needs
neither voters nor a listener for controllers, since no other process sends requests to its
controller. What Kafka allows but a cluster member does not support yet is refused afterwards, by
`check_member`.
"""

import re
from collections.abc import Collection, Sequence
from enum import Enum
from typing import NamedTuple

from ...clients.errors import ErrorCode, KafkaError
from .config_values import ConfigValues

ROLES = "process.roles"
VOTERS = "controller.quorum.voters"
BOOTSTRAP_SERVERS = "controller.quorum.bootstrap.servers"
CONTROLLER_LISTENERS = "controller.listener.names"

PORT_MAX = 65535
INT32_MAX = 0x7FFFFFFF

_NOT_ROUTABLE = "0.0.0.0"
_ADDRESS = r"(?:[0-9a-zA-Z\-%._]*://)?\[?([0-9a-zA-Z\-%._:]*)\]?:([0-9]{1,20})"
"""Kafka's `Utils.HOST_PORT_PATTERN`."""
_INTEGER = r"[+-]?[0-9]{1,20}"
_NO_LISTENER_NAMED = (
    f'Missing required configuration "{CONTROLLER_LISTENERS}" which has no default value.'
)
_FORM_OF_VOTER = "Each entry should be in the form `{id}@{host}:{port}`."
_FORM_OF_SERVER = 'Each entry should be in the form "{host}:{port}"'


class Role(Enum):
    """What a process does for its cluster."""

    BROKER = "broker"
    CONTROLLER = "controller"


class QuorumVoter(NamedTuple):
    """A voter of the metadata quorum, and where the others reach it."""

    node_id: int
    host: str
    port: int


class QuorumConfig(NamedTuple):
    """A node's place in its cluster."""

    node_id: int
    roles: frozenset[Role]
    voters: tuple[QuorumVoter, ...]
    bootstrap_servers: tuple[tuple[str, int], ...]
    controller_listeners: tuple[str, ...]
    """Names of listeners. The first is the one through which this node reaches controllers."""

    @property
    def only_role(self) -> Role | None:
        """The only role, if there is one."""
        (role, *others) = self.roles
        return None if others else role

    @property
    def is_broker(self) -> bool:
        return Role.BROKER in self.roles

    @property
    def is_controller(self) -> bool:
        return Role.CONTROLLER in self.roles

    @property
    def own_voter(self) -> QuorumVoter | None:
        """This node as a voter, if it is named as one."""
        return next((voter for voter in self.voters if voter.node_id == self.node_id), None)

    @property
    def names_no_other(self) -> bool:
        """Whether both roles are here, and no voter is another node."""
        return self.only_role is None and all(
            voter.node_id == self.node_id for voter in self.voters
        )


def _refusal(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, message)


def read_quorum(values: ConfigValues, node_id: int) -> QuorumConfig:
    """Parse the roles, the voters and the listeners of controllers.

    Raises KafkaError(INVALID_CONFIG).
    """
    if CONTROLLER_LISTENERS in values.stated and not any(values.texts(CONTROLLER_LISTENERS)):
        raise _refusal(f"Configuration '{CONTROLLER_LISTENERS}' must not be empty.")
    return QuorumConfig(
        node_id,
        frozenset(map(Role, values.texts(ROLES))),
        _voters(_entries(values, VOTERS)),
        tuple(map(_server, _entries(values, BOOTSTRAP_SERVERS))),
        tuple(dict.fromkeys(name.upper() for name in values.texts(CONTROLLER_LISTENERS) if name)),
    )


def _entries(values: ConfigValues, name: str) -> list[str]:
    entries = values.texts(name)
    return [] if entries == [""] else entries


def _voters(entries: Sequence[str]) -> tuple[QuorumVoter, ...]:
    """Kafka's `QuorumConfig.parseVoterConnections`: of two entries for a node the last counts."""
    voters: dict[int, QuorumVoter] = {}
    for entry in entries:
        id_text, _, address = entry.partition("@")
        if not address or "@" in address:
            raise _refusal(f"Invalid configuration value for {VOTERS}. {_FORM_OF_VOTER}")
        node_id = _integer(id_text)
        if node_id is None:
            raise _refusal(f"Failed to parse voter ID as an integer from {id_text}")
        host, port = _host_and_port(address, f"entry {entry}", VOTERS, _FORM_OF_VOTER)
        voters[node_id] = QuorumVoter(node_id, host, port)
    return tuple(voters.values())


def _server(entry: str) -> tuple[str, int]:
    return _host_and_port(entry, entry, BOOTSTRAP_SERVERS, _FORM_OF_SERVER)


def _host_and_port(address: str, entry: str, name: str, form: str) -> tuple[str, int]:
    match = re.fullmatch(_ADDRESS, address)
    if match is None:
        raise _refusal(
            f"Failed to parse host name from {entry} for the configuration {name}. {form}"
        )
    port = int(match[2])
    if port > PORT_MAX:
        raise _refusal(f"port out of range:{port}")
    return match[1], port


def _integer(text: str) -> int | None:
    """What Java's `Integer.parseInt` makes of it; None if that fails."""
    match = re.fullmatch(_INTEGER, text)
    number = int(text) if match else INT32_MAX + 1
    return number if -INT32_MAX - 1 <= number <= INT32_MAX else None


def require_controller_listeners(quorum: QuorumConfig) -> None:
    """A process that is not the whole cluster must know how to reach controllers. Raises
    KafkaError(INVALID_CONFIG)."""
    _require(quorum.only_role is None or quorum.controller_listeners, _NO_LISTENER_NAMED)


def check_roles(
    quorum: QuorumConfig,
    listeners: Collection[str],
    protocols: Collection[str],
    inter_broker: str,
) -> None:
    """Check that roles, voters and the names of `listeners` are consistent.

    `protocols` are the names that have a security protocol; `inter_broker` is the name of the
    listener between brokers, if it is set. Raises KafkaError(INVALID_CONFIG).
    """
    _require(
        quorum.only_role is None or quorum.voters or quorum.bootstrap_servers,
        f"If using {ROLES}, either {BOOTSTRAP_SERVERS} must contain the set of bootstrap"
        f" controllers or {VOTERS} must contain a parseable set of controllers.",
    )
    if quorum.only_role is Role.BROKER:
        _check_broker(quorum, listeners, protocols)
    else:
        _check_controller(quorum, listeners, inter_broker)
    for voter in quorum.voters:
        _require(voter.host != _NOT_ROUTABLE, f"Host string ({voter.host}) is not routeable")


def _check_controller(quorum: QuorumConfig, listeners: Collection[str], inter_broker: str) -> None:
    _require(
        quorum.only_role is None or all(name in quorum.controller_listeners for name in listeners),
        "The listeners config must only contain KRaft controller listeners from"
        f" {CONTROLLER_LISTENERS} when {ROLES}=controller",
    )
    _require(
        quorum.only_role is None or inter_broker not in quorum.controller_listeners,
        f"{CONTROLLER_LISTENERS} must not contain an explicitly set inter.broker.listener.name"
        f" configuration value when {ROLES}=controller'",
    )
    _require(
        not quorum.voters or quorum.own_voter,
        f"If {ROLES} contains the 'controller' role, the node id {quorum.node_id} must be included"
        f" in the set of voters {VOTERS}={_voter_ids_text(quorum)}",
    )
    named = quorum.controller_listeners
    is_alone = quorum.names_no_other and not quorum.bootstrap_servers
    _require(is_alone or named, _NO_LISTENER_NAMED)
    _require(
        not named or any(name in listeners for name in named),
        f"{CONTROLLER_LISTENERS} must contain at least one value appearing in the 'listeners'"
        " configuration when running the KRaft controller role",
    )
    _require(
        all(name in listeners for name in named),
        f"{CONTROLLER_LISTENERS} must only contain values appearing in the 'listeners'"
        " configuration when running the KRaft controller role",
    )


def _check_broker(
    quorum: QuorumConfig, listeners: Collection[str], protocols: Collection[str]
) -> None:
    _require(
        not quorum.own_voter,
        f"If {ROLES} contains just the 'broker' role, the node id {quorum.node_id} must not be"
        f" included in the set of voters {VOTERS}={_voter_ids_text(quorum)}",
    )
    _require(
        not any(name in listeners for name in quorum.controller_listeners),
        f"{CONTROLLER_LISTENERS} must not contain a value appearing in the 'listeners'"
        " configuration when running KRaft with just the broker role",
    )
    for name in quorum.controller_listeners:
        _require(
            name in protocols,
            f"Controller listener with name {name} defined in {CONTROLLER_LISTENERS} not found in"
            " listener.security.protocol.map  (an explicit security mapping for each controller"
            " listener is required if listener.security.protocol.map is non-empty, or if there are"
            " security protocols other than PLAINTEXT in use)",
        )


def _voter_ids_text(quorum: QuorumConfig) -> str:
    return f"Set({', '.join(str(voter.node_id) for voter in quorum.voters)})"


def _require(condition: object, message: str) -> None:
    if not condition:
        raise _refusal(message)
