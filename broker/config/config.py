"""Reads and checks a broker's configuration.

The names are Kafka's (KRaft), so an existing server.properties works unchanged. tierlog adds the
remote tier: `rsm.config.url` is any fsspec URL, and `rsm.config.option.<name>` sets a storage
option. Without a file, `tierlog serve` starts a dev broker: 127.0.0.1:9092, data in ./data, tiered
to ./data/remote, or to `remote` in another log directory that is named.

A process is a whole cluster, broker and controller with one voter, unless its properties name other
controllers or a single role: then it is a member of a cluster of several processes. A listener for
controllers is opened if `controller.listener.names` names one.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ...clients.errors import ErrorCode, KafkaError
from ...clients.runtime.absolute_path import absolute_path
from ...storage.cleaner.cleaner_config import LARGEST_DEDUPE_BUFFER
from ...tiering.config import (
    METADATA_PREFIX_NAME,
    METADATA_SETTINGS,
    STORAGE_PREFIX_NAME,
    PluginClass,
    RemoteLogManagerConfig,
)
from ...tiering.store.remote_url import RemoteUrl, remote_url
from .authorizer_config import (
    anonymous_node_warnings,
    configured_authorizer,
    super_user_warnings,
)
from .config_safety import (
    check_lower_case,
    check_protections,
    idle_protection_warnings,
    split_listener_name,
    unknown_listener_warnings,
)
from .config_values import ConfigValues, is_property, unknown_name_warnings, unused_names
from .listeners import (
    Listeners,
    is_whole_cluster,
    listener_of_brokers,
    listener_protocols,
    read_listeners,
)
from .mount_config import MOUNT_PREFIX, MountConfig, read_mounts
from .quorum_config import PORT_MAX, QuorumConfig, read_quorum
from .remote_plugins import (
    COMMON_CLIENT,
    KAFKA_LOCAL_STORAGE,
    STORAGE_CLASS,
    check_listener,
    local_storage_url,
    metadata_listener,
    metadata_plugin,
    stated_bootstrap,
    storage_plugin,
)
from .value_rules import check_values

if TYPE_CHECKING:
    from ...clients.network.security import ClientContext
    from ...clients.sasl.client_mechanism import ClientMechanism
    from ...security.sasl.settings import SaslSettings
    from ...security.tls.settings import TlsSettings


def dev_properties(directory: str = "data") -> dict[str, str]:
    """The properties of a broker started without a file; it stores everything in `directory`."""
    return with_dev_defaults({"log.dirs": directory})


def with_dev_defaults(stated: Mapping[str, str]) -> dict[str, str]:
    """The properties of a broker started without a file, where they are not set.

    Its tier is in its first log directory. Raises KafkaError(INVALID_CONFIG) for a relative path
    where there is no current directory.
    """
    properties = {**_DEV, **stated}
    if "log.dir" not in stated:
        properties.setdefault("log.dirs", "data")
    directories = properties.get("log.dirs", properties.get("log.dir", ""))
    first = directories.partition(",")[0].strip()
    if first and _URL not in stated:
        properties[_URL] = f"file://{absolute_path(first)}/remote"
    return properties


_URL = "rsm.config.url"
_DEV = {
    "listeners": "PLAINTEXT://127.0.0.1:9092",
    "group.initial.rebalance.delay.ms": "0",
    # Show the effect of tiering within seconds; Kafka's intervals take minutes.
    "log.initial.task.delay.ms": "1000",
    "log.retention.check.interval.ms": "5000",
    "remote.log.manager.task.interval.ms": "5000",
}
STATUS_PORT = "tierlog.status.port"
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""By their codes in registrations."""
_ENABLE = "remote.log.storage.system.enable"


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """A checked configuration. `values` holds the properties that have no field here."""

    values: ConfigValues
    quorum: QuorumConfig
    listeners: Listeners
    log_dirs: tuple[str, ...]
    remote_storage: RemoteUrl | None
    remote_log_manager: RemoteLogManagerConfig
    mounts: tuple[MountConfig, ...] = ()
    storage_plugin: PluginClass | None = None
    """A Python class that stores segments instead of fsspec."""
    metadata_plugin: PluginClass | None = None
    """A Python class that stores the segments' metadata instead of the metadata topic."""
    is_member: bool = False
    """Whether this process is part of a larger cluster; False in a single-node cluster."""
    may_move_status: bool = False
    """Whether the status page may be served at any free port if its own is in use."""
    tls: "Mapping[str, TlsSettings]" = field(default_factory=dict[str, "TlsSettings"])
    """The settings of the listeners that speak TLS, by name."""
    tls_of_others: "Mapping[str, TlsSettings]" = field(default_factory=dict[str, "TlsSettings"])
    """Those of the controllers' listeners that speak TLS, where this process has none."""
    node_contexts: "dict[str, ClientContext]" = field(
        default_factory=dict[str, "ClientContext"], compare=False, repr=False
    )
    """What connects to each listener of other nodes, by its name; `node_context` fills it."""
    sasl: "Mapping[str, SaslSettings]" = field(default_factory=dict[str, "SaslSettings"])
    """The settings of the listeners with SASL, by name."""
    logins: "Mapping[str, ClientMechanism]" = field(default_factory=dict[str, "ClientMechanism"])
    """What this node logs in with at such listeners of other nodes, by name."""
    metadata_login: "ClientMechanism | None" = None
    """What logs in to the metadata topic of the tier, if that differs."""

    @property
    def node_id(self) -> int:
        """The id of this broker, and of this controller."""
        return self.quorum.node_id

    @property
    def is_tiered(self) -> bool:
        """Whether topics can have a remote tier."""
        return self.remote_storage is not None or self.storage_plugin is not None

    @property
    def keeps_tier_metadata(self) -> bool:
        """Whether the remote tier's metadata is in this cluster's `__remote_log_metadata`."""
        is_here = self.metadata_plugin is None and not stated_bootstrap(self.values)
        return self.is_tiered and is_here

    def protocol_code(self, listener: str) -> int:
        """The code of a listener's security protocol in registrations (`SecurityProtocol.id`)."""
        return _PROTOCOLS.index(self.protocol_name(listener))

    def protocol_name(self, listener: str) -> str:
        """The security protocol of one of this node's listeners."""
        transport = "SSL" if listener in self.tls else "PLAINTEXT"
        return f"SASL_{transport}" if listener in self.sasl else transport

    def internal_topic_replication_factor(self, name: str) -> int:
        """The replication factor that property `name` sets; 1 if this is the only broker.

        With a larger factor the topic could never be created there.
        """
        return self.values.integer(name) if self.is_member else 1


def with_dev_status(config: BrokerConfig) -> BrokerConfig:
    """The dev broker's configuration, with its status page at the port after its own."""
    values = config.values
    if STATUS_PORT in values.stated or not config.listeners.bound:
        return config
    own = config.listeners.bound[0].port
    port = own + 1 if 0 < own < PORT_MAX else 0
    stated = {**values.stated, STATUS_PORT: str(port)}
    return replace(config, values=ConfigValues(stated), may_move_status=True)


def _refusal(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, message)


def read_config(stated: Mapping[str, str], local_host_name: str = "localhost") -> BrokerConfig:
    """Check the properties that the user set. Raises KafkaError(INVALID_CONFIG)."""
    values = ConfigValues(stated)
    check_values(values)
    node_id = _node_id(values)
    quorum = read_quorum(values, node_id)
    protocols = listener_protocols(values, quorum)
    secured = [name for name, protocol in protocols.items() if protocol in ("SSL", "SASL_SSL")]
    check_lower_case(stated, protocols)
    check_protections(stated, values.text(METADATA_PREFIX_NAME), secured, protocols)
    configured_authorizer(values)
    if "log.dirs" in stated and not stated["log.dirs"].strip():
        raise _refusal("At least one log directory must be defined via log.dirs or log.dir.")
    named = values.texts("log.dirs") or values.texts("log.dir")
    if not named or not all(named):
        raise _refusal("log.dirs holds an empty directory name.")
    log_dirs = tuple(absolute_path(directory) for directory in named)
    if len(set(log_dirs)) < len(log_dirs):
        raise _refusal("log.dirs names the same directory twice.")
    listeners = read_listeners(values, quorum, local_host_name)
    own = {endpoint.name for endpoint in (*listeners.bound, *listeners.controllers)}
    tls = _read_tls(stated, secured, own, protocols)
    sasl = _read_sasl(stated, protocols, own)
    is_member = not is_whole_cluster(quorum, listeners)
    tier = _remote_storage(values)
    remote_storage = tier if isinstance(tier, RemoteUrl) else None
    if tier is not None:
        check_listener(values, listeners)
        # Set explicitly even if implied by the URL: administrators look up this property.
        values = ConfigValues({**stated, _ENABLE: "true"})
    mounts = read_mounts(stated, remote_storage)
    if is_member:
        from .member_config import check_member, metadata_directory_first

        check_member(values, quorum, listeners, has_mounts=bool(mounts))
        log_dirs = metadata_directory_first(values, log_dirs)
    config = BrokerConfig(
        values,
        quorum,
        listeners,
        log_dirs,
        remote_storage,
        RemoteLogManagerConfig.from_properties(stated, node_id, log_dirs[0]),
        mounts,
        tier if isinstance(tier, PluginClass) else None,
        None if tier is None else metadata_plugin(values),
        is_member,
        tls={name: settings for name, settings in tls.items() if name in own},
        tls_of_others={name: settings for name, settings in tls.items() if name not in own},
        sasl=sasl,
    )
    if all(protocol == "PLAINTEXT" for protocol in protocols.values()):
        return config
    from .sasl.node_logins import Node, read_node_logins

    keeps_metadata = config.keeps_tier_metadata
    logins, metadata_login = read_node_logins(
        Node(values, quorum, listeners, protocols, sasl, is_member, keeps_metadata)
    )
    return replace(config, logins=logins, metadata_login=metadata_login)


def _read_tls(
    stated: Mapping[str, str],
    secured: Sequence[str],
    own: Collection[str],
    protocols: Mapping[str, str],
) -> "dict[str, TlsSettings]":
    """The settings of each listener that speaks TLS, also those that are not this node's `own`.

    Raises KafkaError(INVALID_CONFIG).
    """
    if not secured:
        return {}
    from .security_config import check_names, read_tls

    check_names(stated)
    return {
        name: read_tls(stated, name, needs_key=name in own, has_sasl=protocols[name] == "SASL_SSL")
        for name in secured
    }


def _read_sasl(
    stated: Mapping[str, str], protocols: Mapping[str, str], own: Collection[str]
) -> "dict[str, SaslSettings]":
    """The settings of each of this node's `own` listeners with SASL.

    Raises KafkaError(INVALID_CONFIG).
    """
    names = [name for name in protocols if name in own and protocols[name].startswith("SASL_")]
    if not names:
        return {}
    from .sasl_config import read_sasl
    from .security_config import check_names

    check_names(stated)
    return {name: read_sasl(stated, name) for name in names}


def _node_id(values: ConfigValues) -> int:
    stated = values.stated
    if "broker.id" not in stated:
        return values.integer("node.id")
    broker_id = values.integer("broker.id")
    if "node.id" in stated and values.integer("node.id") != broker_id:
        raise _refusal("node.id and broker.id name the same property but have different values.")
    if broker_id < 0:
        raise _refusal("broker.id must not be negative.")
    return broker_id


def _remote_storage(values: ConfigValues) -> RemoteUrl | PluginClass | None:
    """The remote tier, if any. A URL enables it unless the file disables it."""
    own = values.with_prefix(values.text("remote.log.storage.manager.impl.prefix"))
    url = own.get("url", "").strip()
    if not values.boolean(_ENABLE) and (_ENABLE in values.stated or not url):
        return None
    own = local_storage_url(values, own)
    plugin_class = storage_plugin(values)
    if plugin_class is not None:
        return plugin_class
    if not own.get("url", "").strip():
        plugin = values.text(STORAGE_CLASS)
        reason = f" ({plugin} is a Java class, which tierlog cannot load)" if plugin else ""
        raise _refusal(
            f"{_ENABLE}=true needs rsm.config.url, the fsspec URL of the tier, such as"
            f" s3://bucket/path or file:///path{reason}."
        )
    return remote_url(own)


def unknown_property_warnings(config: BrokerConfig) -> list[str]:
    """Warnings about names that are no property, or one of a listener that is not there."""
    strangers, served = _strangers(config)
    return strangers + unknown_name_warnings(served, _plugin_names(config))


def _strangers(config: BrokerConfig) -> tuple[list[str], list[str]]:
    """Warnings about listeners that are not there, and the names that are not theirs."""
    stated = config.values.stated
    bound = (*config.listeners.bound, *config.listeners.controllers)
    listeners = [*(endpoint.name for endpoint in bound), *config.quorum.controller_listeners]
    strangers = unknown_listener_warnings(stated, listeners)
    served = [name for name in stated if not any(each.startswith(name) for each in strangers)]
    return strangers, served


def config_warnings(config: BrokerConfig) -> list[str]:
    """Warnings about properties that the user set but that do not work as in Kafka, or at all."""
    stated = config.values.stated
    _, served = _strangers(config)
    warnings = unknown_property_warnings(config)
    warnings += idle_protection_warnings(
        stated, [name for name in config.sasl if name in config.tls]
    )
    if config.sasl:
        from .sasl_config import sasl_warnings

        warnings += sasl_warnings(config.sasl)
    warnings += super_user_warnings(config.values)
    warnings += anonymous_node_warnings(config.values, _plain_listeners_of_nodes(config))
    unused = _without_effect(config, served)
    if unused:
        # List every name: a user may rely on one of them.
        warnings.append(
            f"{len(unused)} of Kafka's properties have no effect here: {', '.join(unused)}"
        )
    prefix = config.values.text("remote.log.storage.manager.impl.prefix")
    options = [name for name in stated if name.startswith(f"{prefix}option.")]
    if options and not stated.get(f"{prefix}url", "").strip():
        warnings.append(f"{', '.join(options)} have no effect without {prefix}url.")
    warnings += _option_warnings(config, prefix)
    if config.is_member:
        from .member_config import member_warnings

        warnings += member_warnings(config.values)
    elif "metadata.log.dir" in stated:
        warnings.append(
            "metadata.log.dir has no effect in a cluster of one process: the metadata log is in the"
            " first directory of log.dirs."
        )
    if config.values.integer("log.cleaner.dedupe.buffer.size") > LARGEST_DEDUPE_BUFFER:
        warnings.append(
            "Cannot use more than 2G of cleaner buffer space per cleaner thread, ignoring excess"
            " buffer space of log.cleaner.dedupe.buffer.size."
        )
    shortest, longest = (
        config.values.integer(f"group.{bound}.session.timeout.ms") for bound in ("min", "max")
    )
    if longest < shortest:
        # Kafka accepts this silently.
        warnings.append(
            f"group.max.session.timeout.ms is below group.min.session.timeout.ms ({longest} and "
            f"{shortest}): no session timeout is valid, so no client can join a group with the "
            "classic protocol."
        )
    plugin = stated.get(STORAGE_CLASS, "").strip()
    if config.remote_storage and plugin and plugin != KAFKA_LOCAL_STORAGE:
        warnings.append(
            f"{STORAGE_CLASS} names a Java class, which tierlog does not load;"
            f" segments go to {config.remote_storage} through fsspec."
        )
    return warnings


def _plain_listeners_of_nodes(config: BrokerConfig) -> list[str]:
    """The names of the listeners without TLS to which nodes connect, this one too."""
    values, listeners = config.values, config.listeners
    names: list[str] = []
    if config.is_member:
        names += config.quorum.controller_listeners
        names += [
            endpoint.name
            for endpoint in listeners.bound
            if endpoint.name == listener_of_brokers(values)
        ]
    if config.keeps_tier_metadata and listeners.bound:
        names.append(metadata_listener(values, listeners, is_member=config.is_member).name)
    secured = {*config.tls, *config.tls_of_others, *config.sasl, *config.logins}
    return [name for name in names if name not in secured]


def _without_effect(config: BrokerConfig, served: Sequence[str]) -> list[str]:
    """The names of Kafka's properties that this configuration sets for nothing."""
    of_tls = {name for name in served if split_listener_name(name)[1].startswith("ssl.")}
    unused = {name for name in unused_names(served) if name not in of_tls}
    if of_tls and (config.tls or config.tls_of_others):
        from .security_config import without_effect

        of_tls = without_effect(of_tls, (*config.tls, *config.tls_of_others))
    if config.sasl or config.logins:
        from .sasl_config import has_effect

        logins = {listener: mechanism.name for listener, mechanism in config.logins.items()}
        unused -= {name for name in unused if has_effect(name, config.sasl, logins)}
    return [name for name in served if name in unused or (name in of_tls and is_property(name))]


def _option_warnings(config: BrokerConfig, prefix: str) -> list[str]:
    """Warnings about options unknown to the file systems of the tier and of the mounts."""
    places = [(mount.location, f"{MOUNT_PREFIX}{mount.name}.") for mount in config.mounts]
    if config.remote_storage is not None:
        places.insert(0, (config.remote_storage, prefix))
    if not any(location.options for location, _ in places):
        return []
    from ...tiering.store.option_names import unknown_options

    warnings = [unknown_options(location, prefix) for location, prefix in places]
    return [warning for warning in warnings if warning is not None]


def _plugin_names(config: BrokerConfig) -> dict[str, Collection[str]]:
    """The known property names of storage and metadata, by prefix; empty for a plugin."""
    values = config.values
    storage = () if config.storage_plugin else ("url", "dir", "option.")
    metadata = () if config.metadata_plugin else (*METADATA_SETTINGS, COMMON_CLIENT)
    return {
        values.text(STORAGE_PREFIX_NAME): storage,
        values.text(METADATA_PREFIX_NAME): metadata,
    }
