"""The TLS listeners of a process: what their connections share, and how their stores change.

An altered store is read and checked before the change is accepted, and again when it is published
(`SslFactory.reconfigure`). New connections use it; open ones keep theirs. A file is read again only
when this broker's configuration is altered, perhaps to the same path: nothing watches it.
"""

import logging
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from ...clients.errors import KafkaError
from ...clients.network.security import UNSECURED, ClientContext, ConnectionSecurity
from .config import BrokerConfig
from .config_values import ConfigValues
from .listeners import listener_of_brokers

if TYPE_CHECKING:
    from ...security.tls.context import ServerContext
    from ..network.tls_transport import TlsAcceptor

_log = logging.getLogger(__name__)


class TlsListeners:
    """The TLS listeners of one process."""

    def __init__(
        self,
        acceptors: "Mapping[str, TlsAcceptor]",
        node_contexts: "Mapping[str, ClientContext]",
        with_sasl: Collection[str] = (),
        between_brokers: str = "",
    ) -> None:
        self.acceptors = acceptors
        """What the connections of each listener share."""
        self._node_contexts = node_contexts
        self._with_sasl = with_sasl
        self._between_brokers = between_brokers
        self._is_started = False

    @property
    def names(self) -> Collection[str]:
        """The listeners' names in upper case."""
        return self.acceptors.keys()

    def check(self, values: ConfigValues) -> None:
        """Read the stores that these values name. Raises KafkaError(INVALID_CONFIG)."""
        for name in self.acceptors:
            self._renew(name, values)

    def apply(self, values: ConfigValues) -> None:
        """Let new connections use the stores that these values name; keep those that are bad.

        So do new connections that this node opens to such a listener of other nodes. The first
        call, before any client is let in, raises KafkaError(INVALID_CONFIG) for a bad store: those
        of the file may trust whom the altered ones keep out.
        """
        from ...security.tls.context import renew_node_side

        for name, acceptor in self.acceptors.items():
            try:
                renewed = self._renew(name, values)
                context = self._node_contexts.get(name)
                if context is not None and renewed is not acceptor.current:
                    renew_node_side(context, renewed.settings)
            except KafkaError as error:
                if not self._is_started:
                    raise
                _log.warning("Keeping the certificate of listener %s: %s", name, error.message)
                continue
            if renewed is not acceptor.current:
                acceptor.current = renewed
                _log.info("Listener %s has read its stores: it is %s", name, renewed.subject)
        self._is_started = True

    def _renew(self, name: str, values: ConfigValues) -> "ServerContext":
        """The current context, or a new one if settings or files have changed."""
        from ...security.tls.context import check_replacement, modification_times, server_context
        from .security_config import read_tls

        current = self.acceptors[name].current
        settings = read_tls(values.stated, name, has_sasl=name in self._with_sasl)
        if settings == current.settings and modification_times(settings) == current.read_at:
            return current
        renewed = server_context(settings)
        if self._is_started:
            check_replacement(current, renewed)
        if name == self._between_brokers:
            from ...security.tls.trial import check_between, with_client

            renewed = with_client(renewed)
            if self._is_started:
                check_between(current, renewed)
        return renewed


def tls_listeners(config: BrokerConfig) -> TlsListeners | None:
    """The listeners with TLS, if there are any. Raises KafkaError(INVALID_CONFIG)."""
    if not config.tls:
        return None
    # A broker in plain text does not load OpenSSL.
    from ...security.tls.context import server_context
    from ...security.tls.trial import with_client
    from ..network.tls_transport import TlsAcceptor

    between_brokers = listener_of_brokers(config.values)
    made = {name: server_context(settings) for name, settings in config.tls.items()}
    if between_brokers in made:
        made[between_brokers] = with_client(made[between_brokers])
    handshake_s = config.values.integer("tierlog.tls.handshake.timeout.ms") / 1000
    return TlsListeners(
        {name: TlsAcceptor(context, handshake_s) for name, context in made.items()},
        config.node_contexts,
        config.sasl.keys(),
        between_brokers,
    )


def node_context(config: BrokerConfig, listener: str) -> "ClientContext | None":
    """What this node connects to such listeners of other nodes with; None for plain text.

    All who connect to the same listener share it, so that a change of stores reaches them.

    Raises KafkaError(INVALID_CONFIG).
    """
    settings = config.tls.get(listener) or config.tls_of_others.get(listener)
    if settings is None:
        return None
    from ...security.tls.context import node_side

    context = config.node_contexts.get(listener)
    if context is None:
        context = config.node_contexts[listener] = node_side(settings)
    return context


def node_security(config: BrokerConfig, listener: str) -> ConnectionSecurity:
    """What a connection to such a listener of another node needs.

    Raises KafkaError(INVALID_CONFIG) for a store that cannot be read.
    """
    context, login = node_context(config, listener), config.logins.get(listener)
    if context is None and login is None:
        return UNSECURED
    return ConnectionSecurity(context, login, may_retry_login=True)
