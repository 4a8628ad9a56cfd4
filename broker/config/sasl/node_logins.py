"""How this node logs in to the others by SASL: Kafka's properties for its own clients.

A node's name and password are `username` and `password` in the `sasl.jaas.config` of the listener
that it connects to, with that listener's own prefix. The mechanism is
`sasl.mechanism.inter.broker.protocol` between brokers, and `sasl.mechanism.controller.protocol` to
controllers. What cannot work refuses the start. No error message contains a password.
"""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ....clients.errors import ErrorCode, KafkaError
from ....clients.sasl.client_mechanism import CLIENT_MECHANISMS, ClientMechanism, client_mechanism
from ....clients.sasl.jaas import JaasEntry, LoginModule, parse_jaas
from ....clients.sasl.scram_keys import SCRAM_BY_NAME
from ....security.sasl.settings import SaslSettings
from ...network.socket_listener import Endpoint
from ..config_values import ConfigValues
from ..listeners import Listeners, listener_of_brokers
from ..quorum_config import QuorumConfig
from ..remote_plugins import COMMON_CLIENT, metadata_listener
from ..sasl_config import login_entry

if TYPE_CHECKING:
    from ....clients.sasl.secret import Secret

_BETWEEN_BROKERS = "sasl.mechanism.inter.broker.protocol"
_TO_CONTROLLERS = "sasl.mechanism.controller.protocol"
_KAFKAS_DEFAULT = "GSSAPI"


class Node(NamedTuple):
    """What the other properties say of this node."""

    values: ConfigValues
    quorum: QuorumConfig
    listeners: Listeners
    protocols: Mapping[str, str]
    """The protocol of each listener that it has or connects to, by the listener's name."""
    sasl: Mapping[str, SaslSettings]
    """The settings of its own listeners with SASL."""
    is_member: bool
    """Whether it connects to other nodes."""
    keeps_tier_metadata: bool
    """Whether it connects to its cluster's metadata topic of the tier."""

    def needs_login(self, listener: str) -> bool:
        """Whether clients of that listener log in."""
        return self.protocols.get(listener, "").startswith("SASL_")


def _refusal(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, message)


def read_node_logins(
    node: Node,
) -> tuple[dict[str, ClientMechanism], ClientMechanism | None]:
    """What it logs in with at other nodes, by listener, and at its tier's metadata.

    The latter is None if it is the same. Raises KafkaError(INVALID_CONFIG).
    """
    logins = _read_logins(node)
    if not node.keeps_tier_metadata or not node.listeners.bound:
        return logins, None
    own = metadata_listener(node.values, node.listeners, is_member=node.is_member)
    return logins, _read_metadata_login(node, own, logins)


def _read_logins(node: Node) -> dict[str, ClientMechanism]:
    values, quorum = node.values, node.quorum
    logins: dict[str, ClientMechanism] = {}
    # All controllers are reached at the first of their listeners' names.
    first = next(iter(quorum.controller_listeners), "")
    if node.is_member and node.needs_login(first):
        mechanism = _mechanism(_TO_CONTROLLERS, first, node)
        if mechanism in SCRAM_BY_NAME and _controller_count(quorum) > 1:
            raise _refusal(
                f"{_TO_CONTROLLERS}={mechanism} cannot work with several controllers: they log in"
                " to each other to elect one, and only an elected one has the users of SCRAM. Use"
                " PLAIN, or SSL with ssl.client.auth=required."
            )
        logins[first] = _login(values, first, mechanism)
    brokers = listener_of_brokers(values)
    if any(endpoint.name == brokers for endpoint in node.listeners.bound) and node.needs_login(
        brokers
    ):
        mechanism = _mechanism(_BETWEEN_BROKERS, brokers, node, logs_in=node.is_member)
        if node.is_member:
            logins[brokers] = _login(values, brokers, mechanism)
    return logins


def _controller_count(quorum: QuorumConfig) -> int:
    return max(len(quorum.voters), len(quorum.bootstrap_servers))


def _read_metadata_login(
    node: Node, own: Endpoint, logins: Collection[str]
) -> ClientMechanism | None:
    """What logs in at the listener `own` for the tier's metadata; None if `logins` has it.

    It is what `remote.log.metadata.common.client.sasl.*` says, or else what brokers use.
    """
    values = node.values
    prefix = f"{values.text('remote.log.metadata.manager.impl.prefix')}{COMMON_CLIENT}"
    stated = values.stated
    protocol = stated.get(f"{prefix}security.protocol", "PLAINTEXT").strip().upper()
    if protocol not in ("PLAINTEXT", node.protocols[own.name]):
        raise _refusal(
            f"{prefix}security.protocol={protocol}, but listener {own} speaks"
            f" {node.protocols[own.name]}: name a listener of that protocol in"
            " remote.log.metadata.manager.listener.name."
        )
    if not node.needs_login(own.name):
        return None
    text = stated.get(f"{prefix}sasl.jaas.config", "")
    of_client = f"{prefix}sasl.mechanism"
    if text.strip():
        name = f"{prefix}sasl.jaas.config"
        mechanism = _mechanism(of_client, own.name, node)
        try:
            entry = parse_jaas(text)
        except KafkaError as error:
            raise KafkaError(
                error.code, error.message.replace("sasl.jaas.config", name, 1)
            ) from None
        return _of_entry(name, entry, mechanism)
    if of_client not in stated and own.name in logins:
        return None
    source = of_client if of_client in stated else _BETWEEN_BROKERS
    return _login(values, own.name, _mechanism(source, own.name, node))


def _mechanism(name: str, listener: str, node: Node, *, logs_in: bool = True) -> str:
    """The mechanism that a property names, which this node's listener must have.

    This node must have it too, if it `logs_in` there.
    """
    mechanism = node.values.stated.get(name, "").strip() or _KAFKAS_DEFAULT
    settings = node.sasl.get(listener)
    enabled = CLIENT_MECHANISMS if settings is None else [each.name for each in settings.mechanisms]
    usable = ", ".join(each for each in CLIENT_MECHANISMS if each in enabled)
    hint = f"set it to one of {usable}" if usable else f"none of {', '.join(enabled)} is for nodes"
    if mechanism not in enabled and name == _BETWEEN_BROKERS:
        raise _refusal(
            f"{name} must be included in sasl.enabled.mechanisms when SASL is used for"
            f" inter-broker communication: it is {mechanism}; {hint}."
        )
    if mechanism not in enabled or (logs_in and mechanism not in CLIENT_MECHANISMS):
        raise _refusal(
            f"{name} is {mechanism}, with which no node here logs in to listener {listener}:"
            f" {hint}."
        )
    return mechanism


def _login(values: ConfigValues, listener: str, mechanism: str) -> ClientMechanism:
    name, entry = login_entry(values.stated, listener, mechanism)
    return _of_entry(name, entry, mechanism)


def _of_entry(name: str, entry: JaasEntry | None, mechanism: str) -> ClientMechanism:
    """`name` is that of the property with the entry."""
    module = LoginModule.SCRAM if mechanism in SCRAM_BY_NAME else LoginModule.PLAIN
    if entry is not None and entry.module is not module:
        raise _refusal(f"{name} names {entry.module.value}, not {module.value}.")
    options: Mapping[str, Secret] = {} if entry is None else entry.options
    user, password = options.get("username"), options.get("password")
    if user is None or password is None or not user.reveal() or not password.reveal():
        raise _refusal(
            f"{name} has to hold username and password, with which this node logs in to the"
            f" others, such as {module.value} required username=... password=...;"
        )
    try:
        return client_mechanism(mechanism, user.reveal(), password)
    except KafkaError as error:
        raise _refusal(f"{name} cannot be used: {error.message}") from None
