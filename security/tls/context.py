"""OpenSSL contexts of TLS listeners, made of their settings (`DefaultSslEngineFactory`).

`load_cert_chain` takes only paths: the key goes through a file in memory or a pipe that nobody else
can open, never through a temporary file. Every failure is a `KafkaError` with one message that
names the listener's property; none shows a key or a password.
"""

import errno
import ssl
from collections.abc import Callable
from typing import NamedTuple

from ...clients.errors import ErrorCode, KafkaError
from ...storage.files import OsFiles
from ...storage.system_calls import secret_file
from .der import DerError, alternative_names, most_iterations, subject_of
from .pem import Block, PemError, certificates, private_key
from .pkcs12 import (
    ITERATIONS_MAX,
    Pkcs12Error,
    endless,
    read_key_store,
    read_trust_store,
)
from .principal import MappingError, parse_rules
from .settings import KeyStore, TlsSettings

STORE_BYTES_MAX = 4 * 1024 * 1024
"""A larger file is no store of keys or certificates."""

_DSA = bytes.fromhex("06072a8648ce380401")
"""What only a certificate with a DSA key holds: the object identifier of such keys (RFC 3279)."""

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


class ServerContext(NamedTuple):
    """What new connections of a TLS listener use."""

    settings: TlsSettings
    context: ssl.SSLContext
    chain: tuple[bytes, ...]
    """The listener's own certificates in DER, its own first."""
    name_of: Callable[[str], str]
    """From a certificate's subject to the name of a principal."""
    read_at: tuple[int, ...] = ()
    """When its files were last modified (`modification_times`)."""
    client: ssl.SSLContext | None = None
    """What brokers with the same stores connect with, of a listener between brokers."""

    @property
    def subject(self) -> str:
        """The subject of the listener's own certificate."""
        return subject_of(self.chain[0])


def refusal(listener: str, message: str) -> KafkaError:
    """The error for settings of a listener that cannot be honoured."""
    return KafkaError(ErrorCode.INVALID_CONFIG, f"Listener {listener} cannot use TLS: {message}.")


def server_context(settings: TlsSettings) -> ServerContext:
    """Read the stores of a listener and make its context. Raises KafkaError(INVALID_CONFIG)."""
    # Before they are read: what is written meanwhile is read next time.
    read_at = modification_times(settings)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[settings.oldest]
    context.maximum_version = _VERSIONS[settings.newest]
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    # A client's session lasts, so a ticket for the next one would only be two more writes.
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET
    if settings.ciphers:
        try:
            context.set_ciphers(":".join(settings.ciphers))
        except ssl.SSLError:
            raise refusal(
                settings.listener, "OpenSSL has none of the suites in ssl.cipher.suites"
            ) from None
    chain = _load_keys(context, settings)
    context.verify_mode = _CLIENT_AUTH[settings.client_auth]
    if settings.client_auth != "none":
        _load_trust(context, settings)
    try:
        name_of = parse_rules(settings.mapping_rules)
    except MappingError as error:
        raise refusal(settings.listener, f"ssl.principal.mapping.rules {error}") from None
    return ServerContext(settings, context, chain, name_of, read_at)


def node_side(settings: TlsSettings) -> ssl.SSLContext:
    """The context with which this node connects to such listeners of other nodes.

    It shows the listener's own certificate. Raises KafkaError(INVALID_CONFIG).
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = _VERSIONS[settings.oldest]
    context.maximum_version = _VERSIONS[settings.newest]
    context.check_hostname = settings.checks_host
    renew_node_side(context, settings)
    return context


def renew_node_side(context: ssl.SSLContext, settings: TlsSettings) -> None:
    """Let new connections of `node_side` show these keys, and trust these authorities as well.

    Raises KafkaError(INVALID_CONFIG).
    """
    if settings.keys is not None:
        _load_keys(context, settings)
    _load_trust(context, settings)


def modification_times(settings: TlsSettings) -> tuple[int, ...]:
    """When each file of a listener's stores was last modified, in ms; -1 for one that is gone."""
    files = OsFiles(max_open=1)
    times: list[int] = []
    for store in (settings.keys, settings.trust):
        if store is not None and store.location:
            try:
                times.append(files.modified_ms(store.location))
            except OSError:
                times.append(-1)
    return tuple(times)


def check_replacement(old: ServerContext, new: ServerContext) -> None:
    """Refuse stores that would make the listener another one (`SslFactory.CertificateEntries`).

    Raises KafkaError(INVALID_CONFIG).
    """
    listener = new.settings.listener
    if (old.settings.trust is None) != (new.settings.trust is None):
        raise refusal(listener, "a trust store can be replaced, but not added or removed")
    if old.subject != new.subject and not new.settings.allows_dn_changes:
        raise refusal(
            listener,
            f"the new certificate is of {new.subject}, not of {old.subject}; if that is meant, set"
            " ssl.allow.dn.changes=true in the broker's file",
        )
    names = alternative_names(old.chain[0]) <= alternative_names(new.chain[0])
    if not names and not new.settings.allows_san_changes:
        raise refusal(
            listener,
            "the new certificate lacks alternative names of the old one; if that is meant, set"
            " ssl.allow.san.changes=true in the broker's file",
        )


def _read(listener: str, name: str, path: str) -> bytes:
    """A store's content. Raises KafkaError(INVALID_CONFIG)."""
    files = OsFiles(max_open=1)
    try:
        # What is no plain file has no size, and may never end.
        if not 0 < files.size(path) <= STORE_BYTES_MAX:
            raise refusal(
                listener, f"{name}={path} is empty, or larger than {STORE_BYTES_MAX} bytes"
            )
        return files.read(path)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise refusal(listener, f"{name}={path} cannot be read ({reason})") from None


def _load_keys(context: ssl.SSLContext, settings: TlsSettings) -> tuple[bytes, ...]:
    """Load the private key and its certificates; returns the certificates."""
    keys, listener = settings.keys, settings.listener
    assert keys is not None, "A listener of this node has a key."
    key_name, chain_name = "ssl.keystore.key", "ssl.keystore.certificate.chain"
    if keys.location:
        key_name = chain_name = f"ssl.keystore.location={keys.location}"
    if keys.kind == "PKCS12":
        assert keys.password is not None, "A key store in PKCS12 has a password."
        content = _read(listener, "ssl.keystore.location", keys.location)
        password = keys.password.reveal()
        try:
            key, chain = read_key_store(content, password)
        except Pkcs12Error as error:
            raise refusal(listener, f"{key_name} {error}") from None
    else:
        key, chain = _pem_keys(keys, listener, key_name, chain_name)
        password = "" if keys.key_password is None else keys.key_password.reveal()
    if key.label == "ENCRYPTED PRIVATE KEY" and not password:
        raise refusal(listener, f"the key of {key_name} is encrypted: set ssl.key.password")
    if (count := most_iterations(key.der)) > ITERATIONS_MAX:
        raise refusal(listener, f"{key_name} {endless(count)}")
    _load_chain(context, settings, key, chain, password)
    try:
        subject_of(chain[0].der)
        alternative_names(chain[0].der)
    except DerError as error:
        raise refusal(listener, f"{chain_name} has a certificate in which {error}") from None
    return tuple(block.der for block in chain)


def _pem_keys(
    keys: KeyStore, listener: str, key_name: str, chain_name: str
) -> tuple[Block, list[Block]]:
    """The private key and the certificates of a store in PEM. Raises KafkaError(INVALID_CONFIG)."""
    if keys.location:
        content = _read(listener, "ssl.keystore.location", keys.location)
        key_text = chain_text = content.decode("utf-8", "replace")
    else:
        assert keys.key is not None, "A store without a location is inline."
        assert keys.chain is not None, "A store without a location is inline."
        key_text, chain_text = keys.key.reveal(), keys.chain.reveal()
    try:
        key = private_key(key_text)
    except PemError as error:
        raise refusal(listener, f"{key_name} {error}") from None
    try:
        return key, certificates(chain_text)
    except PemError as error:
        raise refusal(listener, f"{chain_name} {error}") from None


def _load_chain(
    context: ssl.SSLContext,
    settings: TlsSettings,
    key: Block,
    chain: list[Block],
    password: str,
) -> None:
    if _DSA in chain[0].der:
        raise refusal(
            settings.listener,
            "its certificate has a DSA key, with which OpenSSL lets no client connect: make one"
            " with an RSA or EC key",
        )
    chain_text = "".join(block.text for block in chain)
    try:
        # Each path is opened once: OpenSSL reads the certificates first, then the key.
        with (
            secret_file(chain_text.encode("ascii")) as chain_path,
            secret_file(key.text.encode("ascii")) as key_path,
        ):
            # Without a function OpenSSL would ask at the terminal.
            context.load_cert_chain(chain_path, key_path, password=lambda: password)
    except OSError as error:
        raise refusal(settings.listener, _objection(error, has_password=bool(password))) from None


def _objection(error: OSError, *, has_password: bool) -> str:
    """What is wrong with a key and its certificates."""
    if error.errno == errno.EFBIG:
        return "its key or its certificates are larger than what this system lets through a pipe"
    # Of what OpenSSL rejects in a pipe, Python gives no reason.
    reason = error.reason if isinstance(error, ssl.SSLError) else None
    if reason == "KEY_VALUES_MISMATCH":
        return "its private key does not belong to the first certificate of its chain"
    if reason in ("EE_KEY_TOO_SMALL", "CA_MD_TOO_WEAK", "CA_KEY_TOO_SMALL"):
        return f"OpenSSL rejects a certificate as too weak ({reason})"
    if has_password:
        return "ssl.key.password does not open its private key, or the key is damaged"
    if reason is None:
        return "OpenSSL cannot use its key and certificates: one is damaged, or they are not a pair"
    return f"OpenSSL cannot use its key and certificates ({reason})"


def _load_trust(context: ssl.SSLContext, settings: TlsSettings) -> None:
    """Load the certificates that vouch for clients, or the system's."""
    trust, listener = settings.trust, settings.listener
    if trust is None:
        is_client = context.protocol is ssl.PROTOCOL_TLS_CLIENT
        purpose = ssl.Purpose.SERVER_AUTH if is_client else ssl.Purpose.CLIENT_AUTH
        context.load_default_certs(purpose)
        return
    # Java trusts each certificate of a store, whatever its issuer.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    name, content = "ssl.truststore.certificates", b""
    if trust.location:
        name = f"ssl.truststore.location={trust.location}"
        content = _read(listener, "ssl.truststore.location", trust.location)
    try:
        if trust.kind == "PKCS12":
            password = None if trust.password is None else trust.password.reveal()
            trusted = read_trust_store(content, password)
        else:
            inline = "" if trust.certificates is None else trust.certificates.reveal()
            trusted = certificates(content.decode("utf-8", "replace") or inline)
        context.load_verify_locations(cadata="".join(block.text for block in trusted))
    except (PemError, Pkcs12Error) as error:
        raise refusal(listener, f"{name} {error}") from None
    except ssl.SSLError as error:
        raise refusal(
            listener,
            f"{name} has a certificate that OpenSSL cannot read ({error.reason or 'damaged'})",
        ) from None
