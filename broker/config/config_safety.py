"""Rejects properties for protections that this broker does not have.

A broker that ignored a protection in its file would silently serve every client. So the start fails
with a message if a Kafka property that restricts clients is set but not supported. Other properties
without effect only cause a warning (`config_values.py`).

`listener.name.<listener>.<property>` sets a property for one listener; protections are rejected in
this form too. Listeners that speak TLS obey `ssl.*` (`security_config.py`).
"""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from ...clients.errors import ErrorCode, KafkaError
from ..network.socket_listener import Endpoint

LISTENER_PREFIX = "listener.name."

_PRINCIPALS = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
_BETWEEN_BROKERS = "security.inter.broker.protocol"
_AUTHORIZER = "authorizer.class.name"
_SUPER_USERS = "super.users"
_CLIENT_AUTH = "ssl.client.auth"
_STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_METADATA_CLIENT_PROTOCOL = "remote.log.metadata.common.client.security.protocol"


class Protection(NamedTuple):
    """The purpose of a protection, and the value that turns it off or is served."""

    purpose: str
    harmless: str = ""


_PROTECTIONS: Mapping[str, Protection] = {
    "alter.config.policy.class.name": Protection("a policy that checks configuration changes"),
    _AUTHORIZER: Protection("access control by a Java class", _STANDARD_AUTHORIZER),
    "client.quota.callback.class": Protection("quotas computed by a Java class"),
    "create.topic.policy.class.name": Protection("a policy that checks new topics"),
    "principal.builder.class": Protection("principals built by a Java class", _PRINCIPALS),
    _BETWEEN_BROKERS: Protection("encryption between brokers", "PLAINTEXT"),
    _CLIENT_AUTH: Protection("certificates of clients of a listener without TLS", "none"),
    _METADATA_CLIENT_PROTOCOL: Protection(
        "encryption of the metadata topic apart from that of its listener", "PLAINTEXT"
    ),
}

_TLS_KEYS = (_CLIENT_AUTH,)
"""Protections that listeners with TLS have."""

_SECURITY_KEYS = ("ssl.", "sasl.", "connections.max.reauth.ms")
"""What the names of all properties of a secured listener hold, a mechanism's too."""

_LIMITS = ("max.connections", "max.connection.creation.rate")
"""Limits that Kafka can also set per listener; here each is for all listeners together."""


def split_listener_name(name: str) -> tuple[str, str]:
    """Split a name into its listener, or "" if it has none, and the property's own name."""
    if not name.startswith(LISTENER_PREFIX):
        return "", name
    listener, _, own_name = name.removeprefix(LISTENER_PREFIX).partition(".")
    return listener, own_name


def check_protections(
    stated: Mapping[str, str],
    metadata_prefix: str,
    secured: Collection[str] = (),
    protocols: Mapping[str, str] = {},
) -> None:
    """Raise KafkaError(INVALID_CONFIG) if a protection is set that is not supported.

    `secured` are the names of the listeners that speak TLS; `protocols` has those of all.
    """
    for name, text in stated.items():
        listener, own_name = split_listener_name(name)
        if own_name in _TLS_KEYS and secured and listener.upper() in ("", *secured):
            continue
        if listener and own_name in _LIMITS:
            raise _refusal(
                f"{name}={text} limits one listener, which is not supported yet: set "
                f"{own_name}, which limits the connections of all listeners together."
            )
        protection = _PROTECTIONS.get(own_name.removeprefix(metadata_prefix))
        value = text.strip()
        if name == _BETWEEN_BROKERS and value.upper() in protocols:
            continue
        is_of_metadata = own_name.removeprefix(metadata_prefix) == _METADATA_CLIENT_PROTOCOL
        if is_of_metadata and value.upper() in protocols.values():
            # Checked again where the listener for the metadata is looked up.
            continue
        is_elsewhere = own_name == _AUTHORIZER and name != _AUTHORIZER
        is_harmless = value.lower() == protection.harmless.lower() if protection else True
        if protection and value and (is_elsewhere or not is_harmless):
            raise _refusal(
                f"{name}={value} asks for {protection.purpose}, which is not supported yet: "
                f"{_instead(name)}remove the property if the broker may run without it, and "
                "allow only trusted machines to reach the port."
            )


def _instead(name: str) -> str:
    """What else a protection can be, as the beginning of a list of remedies."""
    return f"set it to {_STANDARD_AUTHORIZER}, or " if name == _AUTHORIZER else ""


def check_lower_case(stated: Iterable[str], listeners: Collection[str]) -> None:
    """Refuse a protection of a listener that is not written in lower case, as Kafka reads it.

    It would have no effect. `listeners` are names in upper case. Raises KafkaError(INVALID_CONFIG).
    """
    for name in stated:
        lower = name.lower()
        listener, own_name = split_listener_name(lower)
        if name == lower or not name.startswith(LISTENER_PREFIX):
            continue
        if listener.upper() in listeners and any(each in own_name for each in _SECURITY_KEYS):
            raise _refusal(f"{name} has no effect, because it is not in lower case: write {lower}.")


def unknown_listener_warnings(stated: Iterable[str], listeners: Iterable[str]) -> list[str]:
    """A warning for each property of a listener that does not exist."""
    names = {listener.lower() for listener in listeners}
    warnings: list[str] = []
    for name in stated:
        listener, _ = split_listener_name(name)
        if listener and listener not in names:
            warnings.append(f"{name} has no effect: listener {listener} is not in listeners.")
    return warnings


def idle_protection_warnings(stated: Mapping[str, str], with_both: Iterable[str]) -> list[str]:
    """A warning for each protection that Kafka ignores, too; `with_both` speak SASL over TLS."""
    warnings: list[str] = []
    if not stated.get(_AUTHORIZER, "").strip() and stated.get(_SUPER_USERS, "").strip():
        warnings.append(
            f"{_SUPER_USERS} has no effect without {_AUTHORIZER}: everybody may do everything."
        )
    text = stated.get(_CLIENT_AUTH, "none").strip()
    if text not in ("", "none"):
        for name in with_both:
            own = f"{LISTENER_PREFIX}{name.lower()}.{_CLIENT_AUTH}"
            if own not in stated:
                warnings.append(
                    f"{_CLIENT_AUTH}={text} has no effect on listener {name}, whose clients prove"
                    f" who they are with SASL: to ask them for certificates as well, set {own}."
                )
    return warnings


def open_listener_warnings(
    stated: Mapping[str, str], listeners: Iterable[Endpoint], secured: Collection[str]
) -> list[str]:
    """A warning if other machines can reach listeners at which nobody proves anything.

    `secured` are the names of the listeners with TLS or SASL.
    """
    reachable = [
        str(listener)
        for listener in listeners
        if listener.name not in secured and not _is_loopback(listener.host)
    ]
    if not reachable or stated.get(_AUTHORIZER, "").strip():
        return []
    return [
        f"Any client that reaches {' or '.join(reachable)} may read, change and delete everything"
        " here: the connections are in plain text, and there is no authorizer. On a network that"
        " you do not trust, listen on 127.0.0.1, or follow docs/security.md."
    ]


def _is_loopback(host: str) -> bool:
    is_address = host.startswith("127.") and host.replace(".", "").isdigit()
    return is_address or host.lower() in ("localhost", "::1")


def _refusal(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, message)
