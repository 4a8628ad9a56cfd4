"""The properties of listeners with SASL: Kafka's `sasl.*` for one listener and one mechanism.

A key's value is that of `listener.name.<listener>.<mechanism>.<key>`, or else that of
`listener.name.<listener>.<key>`, or else that of `<key>`. A setting that protects but cannot be
honoured prevents the start. No error message contains a password.
"""

from collections.abc import Mapping
from typing import cast

from ...clients.config_def import parse_value
from ...clients.errors import ErrorCode, KafkaError
from ...clients.sasl.jaas import JaasEntry, LoginModule, parse_jaas
from ...clients.sasl.scram_keys import SCRAM_BY_NAME
from ...security.sasl.oauth.properties import (
    CALLBACK_HANDLER,
    EFFECTIVE_KEYS,
    TokenSettingError,
    read_tokens,
    token_warnings,
)
from ...security.sasl.settings import MechanismSettings, SaslSettings
from .config_safety import LISTENER_PREFIX, split_listener_name
from .config_values import TABLES

_PLAIN = "PLAIN"
_OAUTHBEARER = "OAUTHBEARER"
_MECHANISMS = (_PLAIN, *SCRAM_BY_NAME, _OAUTHBEARER)
_MODULES = {_PLAIN: LoginModule.PLAIN, _OAUTHBEARER: LoginModule.OAUTHBEARER}
_JAAS = "sasl.jaas.config"
_USER_PREFIX = "user_"
_REAUTH = "connections.max.reauth.ms"
_LISTENER_KEYS = (
    "sasl.enabled.mechanisms",
    "sasl.server.max.receive.size",
    "connection.failed.authentication.delay.ms",
    _REAUTH,
)
_MECHANISM_KEYS = (_JAAS, _REAUTH)
_PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


def _refusal(listener: str, message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, f"Listener {listener} cannot use SASL: {message}.")


class _Values:
    """The values of one listener, for one of its mechanisms or for all."""

    def __init__(self, stated: Mapping[str, str], listener: str, mechanism: str = "") -> None:
        self._stated = stated
        of_listener = f"{LISTENER_PREFIX}{listener.lower()}."
        of_mechanism = f"{of_listener}{mechanism.lower()}." if mechanism else of_listener
        self._prefixes = dict.fromkeys((of_mechanism, of_listener, ""))

    def full_name(self, key: str) -> str:
        """The name under which a key is set, to be shown."""
        names = (f"{prefix}{key}" for prefix in self._prefixes)
        return next((name for name in names if name in self._stated), key)

    def value(self, key: str) -> object:
        """The value that is set, or the default; checked. Raises KafkaError(INVALID_CONFIG)."""
        definition = TABLES.find(key)
        assert definition is not None, f"{key} is in no table of properties"
        name = self.full_name(key)
        text = self._stated.get(name, definition.default)
        return parse_value(definition._replace(name=name), text)

    def integer(self, key: str) -> int:
        """The value of a number."""
        value = self.value(key)
        assert isinstance(value, int), f"{key} has no integer"
        return value


def read_sasl(stated: Mapping[str, str], listener: str) -> SaslSettings:
    """The SASL settings of one listener. Raises KafkaError(INVALID_CONFIG)."""
    values = _Values(stated, listener)
    enabled = values.value("sasl.enabled.mechanisms")
    names = [str(each).strip() for each in cast("list[object]", enabled or [])]
    shown = values.full_name("sasl.enabled.mechanisms")
    if not names:
        raise _refusal(listener, f"{shown} is empty; the mechanisms are {', '.join(_MECHANISMS)}")
    for name in names:
        if name not in _MECHANISMS:
            is_default = not any(each.endswith("sasl.enabled.mechanisms") for each in stated)
            shown += ", by default," if is_default else ""
            raise _refusal(
                listener,
                f"{shown} holds {name}, which tierlog does not support; the mechanisms are "
                f"{', '.join(_MECHANISMS)}",
            )
    return SaslSettings(
        listener,
        tuple(_mechanism(stated, listener, name) for name in dict.fromkeys(names)),
        values.integer("sasl.server.max.receive.size"),
        values.integer("connection.failed.authentication.delay.ms"),
    )


def _mechanism(stated: Mapping[str, str], listener: str, name: str) -> MechanismSettings:
    values = _Values(stated, listener, name)
    entry = _entry(stated, listener, name)
    module = _MODULES.get(name, LoginModule.SCRAM)
    if entry is not None and entry.module is not module:
        raise _refusal(
            listener, f"{_jaas_name(listener, name)} names {entry.module.value}, not {module.value}"
        )
    max_reauth_ms = max(0, values.integer(_REAUTH))
    if name == _OAUTHBEARER:
        # Without that prefix it has no effect in Kafka, and would set the handler of other
        # mechanisms too.
        handler = stated.get(_full_name(listener, name, CALLBACK_HANDLER), "").strip()
        try:
            tokens = read_tokens(handler, values, entry)
        except TokenSettingError as error:
            raise _refusal(listener, str(error)) from None
        return MechanismSettings(name, max_reauth_ms, tokens=tokens)
    if values.value(CALLBACK_HANDLER):
        raise _refusal(
            listener,
            f"{values.full_name(CALLBACK_HANDLER)} names a Java class that decides who is let in, "
            "which tierlog cannot load",
        )
    if name != _PLAIN:
        return MechanismSettings(name, max_reauth_ms)
    if entry is None:
        raise _refusal(
            listener,
            f"{_jaas_name(listener, name)} has to name the users of PLAIN, such as "
            f'{_PLAIN_MODULE} required user_alice="...";',
        )
    users = {
        option.removeprefix(_USER_PREFIX): password
        for option, password in entry.options.items()
        if option.startswith(_USER_PREFIX)
    }
    return MechanismSettings(name, max_reauth_ms, users)


def _full_name(listener: str, mechanism: str, key: str) -> str:
    return f"{LISTENER_PREFIX}{listener.lower()}.{mechanism.lower()}.{key}"


def _jaas_name(listener: str, mechanism: str) -> str:
    return _full_name(listener, mechanism, _JAAS)


def _entry(stated: Mapping[str, str], listener: str, mechanism: str) -> JaasEntry | None:
    """The login module of a mechanism; it is read only under the prefix of listener and mechanism,
    as in Kafka."""
    name = _jaas_name(listener, mechanism)
    text = stated.get(name, "")
    if not text.strip():
        return None
    try:
        return parse_jaas(text)
    except KafkaError as error:
        raise KafkaError(error.code, error.message.replace(_JAAS, name, 1)) from None


def login_entry(
    stated: Mapping[str, str], listener: str, mechanism: str
) -> tuple[str, JaasEntry | None]:
    """The name of the property with a mechanism's login module, and the module if it is set.

    Raises KafkaError(INVALID_CONFIG).
    """
    return _jaas_name(listener, mechanism), _entry(stated, listener, mechanism)


def has_effect(
    name: str, listeners: Mapping[str, SaslSettings], logins: Mapping[str, str] = {}
) -> bool:
    """Whether a property of one listener, or of a mechanism of it, has an effect there.

    `logins` has the mechanisms with which this node logs in, by the listener.
    """
    listener, own_name = split_listener_name(name)
    if own_name == f"{logins.get(listener.upper(), '').lower()}.{_JAAS}":
        return True
    settings = listeners.get(listener.upper())
    if settings is None:
        return False
    if own_name in _LISTENER_KEYS:
        return True
    has_tokens = any(each.tokens is not None for each in settings.mechanisms)
    mechanism = next(
        (each for each in settings.mechanisms if own_name.startswith(f"{each.name.lower()}.")), None
    )
    if mechanism is None:
        return has_tokens and own_name in EFFECTIVE_KEYS
    key = own_name[len(mechanism.name) + 1 :]
    return key in _MECHANISM_KEYS or (mechanism.tokens is not None and key in EFFECTIVE_KEYS)


def sasl_warnings(listeners: Mapping[str, SaslSettings]) -> list[str]:
    """Warnings about what the listeners do not verify."""
    return [
        warning
        for listener, settings in listeners.items()
        for mechanism in settings.mechanisms
        for warning in token_warnings(listener, mechanism.tokens)
    ]
