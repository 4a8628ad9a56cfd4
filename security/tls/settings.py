"""What the properties of one TLS listener say, checked (`SslConfigs`).

Nothing here is read from a file yet: `context.py` reads stores. Keys and passwords are `Secret`, so
that no log line, traceback or error message shows them.
"""

from typing import Literal, NamedTuple

ClientAuth = Literal["none", "requested", "required"]
StoreKind = Literal["PEM", "PKCS12"]


class Secret:
    """A text that is never shown: its `repr` and `str` are stars."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself, for those who must use it."""
        return self._text

    def __repr__(self) -> str:
        return "********"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)


class KeyStore(NamedTuple):
    """Where the private key and its certificates are."""

    location: str = ""
    """The path of a file; empty if `key` and `chain` are inline."""
    key: Secret | None = None
    chain: Secret | None = None
    key_password: Secret | None = None
    kind: StoreKind = "PEM"
    password: Secret | None = None
    """The password of a PKCS12 store, which always has one."""


class TrustStore(NamedTuple):
    """Where the certificates are that vouch for clients."""

    location: str = ""
    """The path of a file; empty if the certificates are inline."""
    certificates: Secret | None = None
    kind: StoreKind = "PEM"
    password: Secret | None = None
    """The password of a PKCS12 store, if it has one."""


class TlsSettings(NamedTuple):
    """The TLS settings of one listener."""

    listener: str
    """The listener's name in upper case."""
    keys: KeyStore | None
    """None for a listener of other nodes, to which this one shows no certificate."""
    trust: TrustStore | None = None
    """None stands for the certificates that the system trusts."""
    client_auth: ClientAuth = "none"
    oldest: str = "TLSv1.2"
    """The oldest protocol, by Kafka's name."""
    newest: str = "TLSv1.3"
    """The newest protocol, by Kafka's name."""
    ciphers: tuple[str, ...] = ()
    """Suites of TLS 1.2 by OpenSSL's names; empty stands for OpenSSL's choice."""
    mapping_rules: str = "DEFAULT"
    """`ssl.principal.mapping.rules`."""
    checks_host: bool = True
    """Whether a node that connects to the listener checks the host name in its certificate."""
    allows_dn_changes: bool = False
    """Whether new stores may have a certificate with another subject."""
    allows_san_changes: bool = False
    """Whether new stores may have a certificate without alternative names that the old one has."""
