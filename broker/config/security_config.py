"""The properties of secured listeners: Kafka's `ssl.*`, each also for one listener (KIP-651).

A key's value is that of `listener.name.<listener>.<key>`, or else that of `<key>`. A
setting that protects but cannot be honoured prevents the start, each combination with a message of
its own: an ignored setting would let in clients that its file keeps out.
"""

import difflib
from collections.abc import Iterable, Mapping

from ...clients.config_def import parse_value
from ...clients.errors import ErrorCode, KafkaError
from ...security.tls.ciphers import TLS_1_3, openssl_name
from ...security.tls.settings import (
    ClientAuth,
    KeyStore,
    Secret,
    StoreKind,
    TlsSettings,
    TrustStore,
)
from .config_safety import LISTENER_PREFIX, split_listener_name
from .config_values import TABLES

_PROTOCOLS = ("TLSv1.2", "TLSv1.3")
_TOO_OLD = ("TLSv1", "TLSv1.1")
_CLIENT_AUTH: dict[str, ClientAuth] = {
    "none": "none",
    "requested": "requested",
    "required": "required",
}
_BLANKS = "".join(map(chr, range(33)))
_KINDS: dict[str, StoreKind] = {
    "PEM": "PEM",
    "PKCS12": "PKCS12",
    # The default. Java looks into such a file, and reads it if it is PKCS12; so does the context.
    "JKS": "PKCS12",
}


def _refusal(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, message)


class _Listener:
    """The values of one listener."""

    def __init__(self, name: str, stated: Mapping[str, str]) -> None:
        self.name = name
        self._stated = stated
        self._prefix = f"{LISTENER_PREFIX}{name.lower()}."

    def full_name(self, key: str) -> str:
        """The name under which a key is set, to be shown."""
        own = f"{self._prefix}{key}"
        return own if own in self._stated else key

    def text(self, key: str) -> str:
        """The value that is set, checked, or the default; empty if there is none."""
        definition = TABLES.find(key)
        assert definition is not None, f"{key} is in no table of properties"
        name = self.full_name(key)
        stated = self._stated.get(name)
        value = parse_value(definition._replace(name=name), stated)
        if stated is None:
            return definition.default or ""
        return ",".join(value) if isinstance(value, list) else stated.strip()

    def secret(self, key: str) -> Secret | None:
        """A password or PEM text; None if it is not set or empty."""
        # Kafka drops blanks at the ends of passwords, too, with Java's trim().
        text = self._stated.get(self.full_name(key), "").strip(_BLANKS)
        return Secret(text) if text else None

    def refusal(self, message: str) -> KafkaError:
        """The error for a combination that cannot be honoured."""
        return _refusal(f"Listener {self.name} cannot use TLS: {message}.")


def read_tls(
    stated: Mapping[str, str], listener: str, *, needs_key: bool = True, has_sasl: bool = False
) -> TlsSettings:
    """The TLS settings of one listener. Raises KafkaError(INVALID_CONFIG).

    A node `needs_key` for a listener of its own, but not to connect to other nodes. A client of a
    listener that `has_sasl` needs no certificate, unless the file says so for this listener.
    """
    if has_sasl:
        stated = {name: text for name, text in stated.items() if name != "ssl.client.auth"}
    values = _Listener(listener, stated)
    _refuse_java(values)
    client_auth = _CLIENT_AUTH[values.text("ssl.client.auth").lower() or "none"]
    oldest, newest = _versions(values)
    ciphers = _ciphers(values, oldest, newest)
    if ciphers is not None:
        oldest, newest = ciphers[1]
    return TlsSettings(
        listener,
        _key_store(values, needs_key=needs_key),
        _trust_store(values),
        client_auth,
        oldest,
        newest,
        () if ciphers is None else ciphers[0],
        values.text("ssl.principal.mapping.rules"),
        _checks_host(values),
        values.text("ssl.allow.dn.changes").lower() == "true",
        values.text("ssl.allow.san.changes").lower() == "true",
    )


def _refuse_java(values: _Listener) -> None:
    """Refuse what only a Java process has, where it changes who is let in, and how."""
    for key, what in (
        ("ssl.engine.factory.class", "a Java class that makes the TLS engine"),
        ("ssl.provider", "a security provider of Java"),
    ):
        if values.text(key):
            raise values.refusal(
                f"{values.full_name(key)} names {what}, which tierlog cannot load; remove the"
                " property if OpenSSL may be used instead"
            )
    protocol = values.text("ssl.protocol")
    if protocol not in ("TLS", *_TOO_OLD, *_PROTOCOLS):
        raise values.refusal(
            f"{values.full_name('ssl.protocol')}={protocol} is not a protocol of tierlog; use"
            " TLSv1.3, and limit versions with ssl.enabled.protocols"
        )


def _versions(values: _Listener) -> tuple[str, str]:
    """The oldest and the newest protocol. Older ones than TLSv1.2 are never used, as in Java."""
    name = "ssl.enabled.protocols"
    stated = [part.strip() for part in values.text(name).split(",") if part.strip()]
    for each in stated:
        if each not in (*_TOO_OLD, *_PROTOCOLS):
            raise values.refusal(
                f"{values.full_name(name)} holds {each}; the protocols are TLSv1.2 and TLSv1.3"
            )
    usable = [protocol for protocol in _PROTOCOLS if protocol in stated]
    if not usable:
        raise values.refusal(
            f"{values.full_name(name)} holds neither TLSv1.2 nor TLSv1.3; older protocols are not"
            " safe"
        )
    return usable[0], usable[-1]


def _ciphers(
    values: _Listener, oldest: str, newest: str
) -> tuple[tuple[str, ...], tuple[str, str]] | None:
    """The suites of TLS 1.2, and the protocols that suites leave; None without a list."""
    key = "ssl.cipher.suites"
    stated = [part.strip() for part in values.text(key).split(",") if part.strip()]
    if not stated:
        return None
    name = values.full_name(key)
    newer = [each for each in stated if each in TLS_1_3]
    older: list[str] = []
    for each in stated:
        if each in TLS_1_3:
            continue
        suite = openssl_name(each)
        if suite is None:
            raise values.refusal(f"{name} holds {each}, which OpenSSL does not have")
        older.append(suite)
    if newest == "TLSv1.3" and newer and set(newer) < TLS_1_3:
        raise values.refusal(
            f"{name} holds only some of TLS 1.3's suites, and Python cannot choose among them: list"
            f" all three ({', '.join(sorted(TLS_1_3))}), or set ssl.enabled.protocols=TLSv1.2"
        )
    if newest == "TLSv1.3" and not newer:
        newest = "TLSv1.2"
    if oldest == "TLSv1.2" and not older:
        oldest = "TLSv1.3"
    if oldest > newest:
        raise values.refusal(f"{name} holds no suite of the protocols in ssl.enabled.protocols")
    return tuple(older), (oldest, newest)


def _kind(values: _Listener, key: str, *, is_inline: bool) -> StoreKind:
    """The format of a store."""
    name = values.text(key).upper()
    kind = _KINDS.get(name)
    if kind is None:
        raise values.refusal(
            f"{key}={name} is a format that tierlog does not read: convert the store with keytool"
            f" -importkeystore -deststoretype PKCS12, and set {key}=PKCS12"
        )
    if is_inline and kind != "PEM":
        raise values.refusal(f"{key} is {name}, but the store is inline: set {key}=PEM")
    return kind


def _checks_host(values: _Listener) -> bool:
    key = "ssl.endpoint.identification.algorithm"
    algorithm = values.text(key).lower()
    if algorithm not in ("https", ""):
        raise values.refusal(f"{values.full_name(key)}={algorithm} is neither https nor empty")
    return algorithm == "https"


def _key_store(values: _Listener, *, needs_key: bool) -> KeyStore | None:
    location = values.text("ssl.keystore.location")
    key = values.secret("ssl.keystore.key")
    chain = values.secret("ssl.keystore.certificate.chain")
    key_password = values.secret("ssl.key.password")
    if location and (key or chain):
        raise values.refusal(
            "ssl.keystore.location is set beside ssl.keystore.key or"
            " ssl.keystore.certificate.chain: keep the file or the inline texts, not both"
        )
    if key and not chain:
        raise values.refusal(
            "ssl.keystore.key is set without ssl.keystore.certificate.chain, which holds the"
            " certificates of the key"
        )
    if chain and not key:
        raise values.refusal(
            "ssl.keystore.certificate.chain is set without ssl.keystore.key, its private key"
        )
    password = values.secret("ssl.keystore.password")
    if not location and not key:
        if password:
            raise values.refusal("ssl.keystore.password is set without ssl.keystore.location")
        if not needs_key:
            return None
        raise values.refusal(
            "it has no private key; set ssl.keystore.type=PEM and ssl.keystore.location, a file"
            " with the key and its certificates"
        )
    kind = _kind(values, "ssl.keystore.type", is_inline=not location)
    if kind == "PEM" and password:
        raise values.refusal(
            "ssl.keystore.password is set, but a PEM store has none; ssl.key.password is the"
            " password of its key"
        )
    if kind == "PKCS12":
        _check_passwords(values, password, key_password)
    return KeyStore(location, key, chain, key_password, kind, password)


def _check_passwords(
    values: _Listener, password: Secret | None, key_password: Secret | None
) -> None:
    """Refuse passwords that open no key store in PKCS12."""
    if password is None:
        raise values.refusal(
            "ssl.keystore.location is set without ssl.keystore.password; if the file is PEM, set"
            " ssl.keystore.type=PEM"
        )
    if key_password not in (None, password):
        raise values.refusal(
            "ssl.key.password is not ssl.keystore.password, but a store in PKCS12 has one password"
            " for both: remove ssl.key.password"
        )


def _trust_store(values: _Listener) -> TrustStore | None:
    location = values.text("ssl.truststore.location")
    inline = values.secret("ssl.truststore.certificates")
    password = values.secret("ssl.truststore.password")
    if location and inline:
        raise values.refusal(
            "ssl.truststore.location is set beside ssl.truststore.certificates: keep the file or"
            " the inline text, not both"
        )
    if not location and not inline:
        if password:
            raise values.refusal("ssl.truststore.password is set without ssl.truststore.location")
        return None
    kind = _kind(values, "ssl.truststore.type", is_inline=not location)
    if kind == "PEM" and password:
        raise values.refusal("ssl.truststore.password is set, but a PEM store has none")
    return TrustStore(location, inline, kind, password)


_PROTECTING = ("ssl.", "sasl.")
"""How the names of properties begin that protect a listener."""


def check_names(stated: Iterable[str]) -> None:
    """Refuse a name of `ssl.*` or `sasl.*`, or a listener's `connections.*`, that is no property:
    what it should have done would be missing.

    Raises KafkaError(INVALID_CONFIG).
    """
    for name in stated:
        listener, key = split_listener_name(name)
        of_protections = (*_PROTECTING, "connections.") if listener else _PROTECTING
        if not key.startswith(of_protections) or TABLES.find(key) is not None:
            continue
        names = [*TABLES.acted_on, *TABLES.unused]
        near = difflib.get_close_matches(key, names, n=1)
        hint = f"; did you mean {name.removesuffix(key)}{near[0]}?" if near else "."
        raise _refusal(
            f"{name} is not a property of Kafka or tierlog, so it protects nothing{hint}"
        )


def without_effect(stated: Iterable[str], secured: Iterable[str]) -> set[str]:
    """Which of the names of `ssl.*` no listener with TLS obeys."""
    listeners = {"", *(each.lower() for each in secured)}
    idle: set[str] = set()
    for name in stated:
        listener, key = split_listener_name(name)
        if key.startswith("ssl.") and (key not in TABLES.acted_on or listener not in listeners):
            idle.add(name)
    return idle
