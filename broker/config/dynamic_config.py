"""The broker properties that can change at run time (KIP-226, `DynamicBrokerConfig`).

The sources of a value, by descending precedence: this broker's dynamic configuration, the cluster-
wide default, the node's file, Kafka's default. Dynamic values are ConfigRecords in the metadata
log, so they survive a restart and override the file. `DYNAMIC` lists the properties that tierlog
applies at once; the stores of a listener with TLS are read again. Thread counts are accepted and
shown even if tierlog has no such threads. Properties that Kafka can change at run time but tierlog
cannot are rejected with a message that says so; Kafka's other properties are rejected with its
message for read-only properties. An unknown name is kept, as in Kafka, because it may belong to a
plugin.

A stored value that is invalid here (a cluster created by Kafka may hold one) is ignored with a
warning; a change to an invalid value is rejected before it is stored.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ...clients.config_def import ConfigDef, ConfigType, parse_value
from ...clients.errors import ErrorCode, KafkaError
from ...clients.runtime.supervisor import Supervisor
from ...replication.control.controller_loop import PUBLICATION, listener_name
from ...replication.metadata.cluster_image import ClusterDelta, ClusterImage, ConfigResourceType
from ..broker_ids import parse_broker_id
from .config_safety import split_listener_name
from .config_values import TABLES, ConfigValues
from .settings import connection_limits
from .topic_defaults import TopicDefaults
from .value_rules import THREADS, check_change, check_values

if TYPE_CHECKING:
    from ...replication.control.configs.alter_configs import ConfigChange
    from .tls_listeners import TlsListeners

_log = logging.getLogger(__name__)

DYNAMIC = frozenset(
    {
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.type",
        "compression.zstd.level",
        "follower.fetch.last.tiered.offset.enable",
        "group.consumer.assignment.interval.ms",
        "log.cleaner.backoff.ms",
        "log.cleaner.dedupe.buffer.size",
        "log.cleaner.delete.retention.ms",
        "log.cleaner.io.buffer.load.factor",
        "log.cleaner.io.buffer.size",
        "log.cleaner.io.max.bytes.per.second",
        "log.cleaner.max.compaction.lag.ms",
        "log.cleaner.min.cleanable.ratio",
        "log.cleaner.min.compaction.lag.ms",
        "log.cleanup.policy",
        "log.flush.interval.messages",
        "log.flush.interval.ms",
        "log.index.interval.bytes",
        "log.index.size.max.bytes",
        "log.local.retention.bytes",
        "log.local.retention.ms",
        "log.message.timestamp.after.max.ms",
        "log.message.timestamp.before.max.ms",
        "log.message.timestamp.type",
        "log.preallocate",
        "log.retention.bytes",
        "log.retention.ms",
        "log.roll.jitter.ms",
        "log.roll.ms",
        "log.segment.bytes",
        "log.segment.delete.delay.ms",
        "max.connection.creation.rate",
        "max.connections",
        "max.connections.per.ip",
        "max.connections.per.ip.overrides",
        "message.max.bytes",
        "min.insync.replicas",
        "producer.id.expiration.ms",
        "remote.fetch.max.wait.ms",
        "remote.list.offsets.request.timeout.ms",
        "remote.log.index.file.cache.total.size.bytes",
        "remote.log.manager.copier.thread.pool.size",
        "remote.log.manager.copy.max.bytes.per.second",
        "remote.log.manager.expiration.thread.pool.size",
        "remote.log.manager.fetch.max.bytes.per.second",
        "remote.log.manager.follower.thread.pool.size",
        "remote.log.reader.threads",
        "unclean.leader.election.enable",
    }
)
"""The properties that can be changed without a restart."""

_NOT_HERE = frozenset(
    {
        "config.providers",
        "cordoned.log.dirs",
        "group.coordinator.cached.buffer.max.bytes",
        "group.share.assignment.interval.ms",
        "group.streams.assignment.interval.ms",
        "listener.security.protocol.map",
        "listeners",
        "metric.reporters",
        "principal.builder.class",
        "share.coordinator.cached.buffer.max.bytes",
        "transaction.partition.verification.enable",
    }
)
"""Properties besides `ssl.*` and `sasl.*` that Kafka can change at run time but tierlog cannot."""


_TLS_LISTENER_KEYS = frozenset(
    {
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
"""Properties of one broker's listener with TLS (`SslConfigs.RECONFIGURABLE_CONFIGS`)."""

_REPLICATION_RATES: Mapping[str, ConfigDef] = {
    name: ConfigDef(name, ConfigType.LONG, None, "[0,...]")
    for name in (
        "leader.replication.throttled.rate",
        "follower.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    )
}
"""Properties that a file cannot set."""


def is_dynamic(name: str) -> bool:
    """Whether a property may be changed while the broker runs."""
    is_plain = name in DYNAMIC or name in THREADS or name in _REPLICATION_RATES
    return is_plain or _is_of_tls(name)


def _is_of_tls(name: str) -> bool:
    """Whether it is a store of one listener, which can be read again."""
    listener, key = split_listener_name(name)
    return bool(listener) and key in _TLS_LISTENER_KEYS


def definition_of(name: str) -> ConfigDef | None:
    """The definition of a broker property; None for an unknown name."""
    if _is_of_tls(name):
        definition = TABLES.find(split_listener_name(name)[1])
        return None if definition is None else definition._replace(name=name)
    return TABLES.find(name) or _REPLICATION_RATES.get(name)


class DynamicConfig:
    """The current values, and the callbacks for changes."""

    def __init__(
        self,
        values: ConfigValues,
        node_id: int,
        topic_defaults: TopicDefaults,
        supervisor: Supervisor,
        tls: "TlsListeners | None",
    ) -> None:
        """`tls` has the listeners with TLS, if there are any."""
        self.values = values
        """The current values."""
        self._file = values
        self._node_id = node_id
        self.topic_defaults = topic_defaults
        self._supervisor = supervisor
        self._tls = tls
        self._listeners: list[Callable[[ConfigValues], None]] = []
        # The listeners that have not received the newest values yet.
        self._outdated: list[Callable[[ConfigValues], None]] = []

    def subscribe(self, listener: Callable[[ConfigValues], None]) -> None:
        """Call `listener` with the current values, now and whenever they change."""
        self._listeners.append(listener)
        listener(self.values)

    def publish(self, image: ClusterImage, delta: ClusterDelta) -> None:
        """Apply the changes of a new image. Must be subscribed before the users of topic defaults.

        If a listener fails, the others still get the change; the failed one is called again with
        the next image.
        """
        names = ("", str(self._node_id))
        if any(
            kind == ConfigResourceType.BROKER and name in names
            for kind, name in delta.changed_configs
        ):
            self._update(image)
        outdated, self._outdated = self._outdated, []
        for listener in outdated:
            with self._supervisor.attempt(PUBLICATION, listener_name(listener)) as attempt:
                listener(self.values)
            if attempt.has_failed:
                self._outdated.append(listener)

    def _update(self, image: ClusterImage) -> None:
        own = _effective(image.broker_config(self._node_id))
        everyone = _effective(image.broker_config(None))
        try:
            values = self._merge(own, everyone)
            self.topic_defaults.update(values, own, everyone)
        except KafkaError as error:
            _log.warning(
                "Ignoring invalid dynamic configurations, keeping the previous ones: %s",
                error.message,
            )
            return
        self.values = values
        self._outdated = list(self._listeners)

    def _merge(self, own: Mapping[str, str], everyone: Mapping[str, str]) -> ConfigValues:
        """The file's values, overridden by dynamic ones. Raises KafkaError(INVALID_CONFIG)."""
        values = ConfigValues({**self._file.stated, **everyone, **own})
        check_values(values)
        connection_limits(values)
        TopicDefaults(values).log_config()
        return values

    def check(
        self, image: ClusterImage, name: str, changes: "Sequence[ConfigChange]", replaces: bool
    ) -> None:
        """Reject an invalid change. Raises KafkaError: INVALID_REQUEST or INVALID_CONFIG.

        `name` is the broker's id, or empty for all brokers.
        """
        # Imported only when the configuration is altered.
        from ...replication.control.configs.alter_configs import apply_changes

        self.check_name(name)
        broker_id = self._node_id if name else None
        after = {} if replaces else _with_definition(image.broker_config(broker_id))
        _check_lists(changes)
        apply_changes(after, changes, {**TABLES.unused, **TABLES.acted_on})
        of_tls = [change.name for change in changes if _is_of_tls(change.name)]
        self._check_tls_names(of_tls, is_for_all=not name)
        fixed = sorted(
            each
            for each in after
            if (definition_of(each) is not None or each.startswith("listener.name."))
            and not is_dynamic(each)
        )
        for each in fixed:
            if each in _NOT_HERE or each.startswith(("ssl.", "sasl.", "listener.name.")):
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    f"tierlog cannot change {each} dynamically, unlike Kafka. Set it in the "
                    "configuration file of the broker and restart, if the documentation lists "
                    "it.",
                )
        if fixed:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Cannot update these configs dynamically: [{', '.join(fixed)}]",
            )
        stated = _with_definition(after)
        try:
            for each, text in stated.items():
                definition = definition_of(each)
                assert definition is not None, "Unknown names have been dropped."
                parse_value(definition, text)
            own = _effective(stated if name else image.broker_config(self._node_id))
            everyone = _effective(image.broker_config(None) if name else stated)
            values = self._merge(own, everyone)
            check_change(self.values, values)
            if of_tls and self._tls is not None:
                self._tls.check(values)
        except KafkaError as error:
            raise KafkaError(ErrorCode.INVALID_REQUEST, error.message) from error

    def _check_tls_names(self, names: Sequence[str], *, is_for_all: bool) -> None:
        if names and is_for_all:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Cannot update these configs at default cluster level: {', '.join(names)}",
            )
        for name in names:
            listener = split_listener_name(name)[0]
            if self._tls is None or listener.upper() not in self._tls.names:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    f"{name} has no effect: this broker has no listener {listener} with TLS.",
                )

    def check_name(self, name: str) -> None:
        """Reject the id of another broker. Raises KafkaError(INVALID_REQUEST)."""
        if not name:
            return
        broker_id = parse_broker_id(name)
        if broker_id is None:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}"
            )
        if broker_id != self._node_id:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Unexpected broker id, expected {self._node_id}, but received {name}",
            )


def _check_lists(changes: "Sequence[ConfigChange]") -> None:
    from ...replication.control.configs.alter_configs import ConfigOperation

    for name, operation, _ in changes:
        definition = TABLES.find(name)
        if operation in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT) and (
            definition is None or definition.type is not ConfigType.LIST
        ):
            verb = ConfigOperation(operation).name.lower()
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"Config value {verb} is not allowed for config key: {name}",
            )


def _with_definition(values: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in values.items() if definition_of(name) is not None}


def _effective(values: Mapping[str, str]) -> dict[str, str]:
    """The valid values of properties that are dynamic in tierlog."""
    effective: dict[str, str] = {}
    for name, text in values.items():
        definition = definition_of(name)
        if definition is None or not is_dynamic(name):
            continue
        try:
            parse_value(definition, text)
        except KafkaError as error:
            _log.warning("Ignoring an invalid dynamic property: %s", error.message)
        else:
            effective[name] = text
    return effective
