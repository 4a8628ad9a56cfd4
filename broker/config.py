"""What one broker was asked to be: its configuration, read, checked and explained.

The names are Kafka's (KRaft), so that a node's server.properties works as it is. What tierlog
adds is the remote tier: `rsm.config.url` is any fsspec URL, and each `rsm.config.option.<name>` a
storage option. Without a file, `tierlog serve` is a dev broker: 127.0.0.1:9092, data in ./data,
tiered to ./data/remote.

One process is a whole cluster: broker and controller, one voter. The controller's listener is not
opened, because a single voter has nobody to talk to.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from ..clients.errors import ErrorCode, KafkaError
from ..tiering.config import RemoteLogManagerConfig
from ..tiering.remote_url import RemoteUrl, remote_url
from .config_values import ConfigValues, unknown_name_warnings, unused_names
from .listeners import Listeners, read_listeners
from .mount_config import MountConfig, read_mounts
from .value_rules import check_values


def dev_properties(directory: str = "data") -> dict[str, str]:
    """What a broker without a file is, with everything that it stores in `directory`."""
    data = os.path.abspath(directory)
    return {
        "listeners": "PLAINTEXT://127.0.0.1:9092",
        "log.dirs": data,
        "rsm.config.url": f"file://{data}/remote",
        "group.initial.rebalance.delay.ms": "0",
        # People who try tiering want to see it happen, not to wait minutes for Kafka's intervals.
        "log.initial.task.delay.ms": "1000",
        "log.retention.check.interval.ms": "5000",
        "remote.log.manager.task.interval.ms": "5000",
    }


_REMOTE_CLASS = "remote.log.storage.manager.class.name"


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """A checked configuration. `values` holds everything that is not spelt out here."""

    values: ConfigValues
    node_id: int
    listeners: Listeners
    log_dirs: tuple[str, ...]
    remote_storage: RemoteUrl | None
    remote_log_manager: RemoteLogManagerConfig
    mounts: tuple[MountConfig, ...] = ()

    def internal_topic_replication_factor(self, name: str) -> int:
        """Never more than the one broker there is: Kafka would wait for the others for ever."""
        return min(self.values.integer(name), 1)


def _refuse(sentence: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, sentence)


def read_config(stated: Mapping[str, str], local_host_name: str = "localhost") -> BrokerConfig:
    """Check what was stated. Raises KafkaError(INVALID_CONFIG) with one plain sentence."""
    values = ConfigValues(stated)
    check_values(values)
    node_id = _node_id(values)
    _require_single_voter(values, node_id)
    if values.stated.get("authorizer.class.name", "").strip():
        # Serving everyone where the file protects something would be no small difference.
        raise _refuse("authorizer.class.name asks for access control, which is not served yet.")
    named = values.texts("log.dirs") or values.texts("log.dir")
    if not named or not all(named):
        raise _refuse("log.dirs holds an empty directory name.")
    log_dirs = tuple(os.path.abspath(directory) for directory in named)
    if len(set(log_dirs)) < len(log_dirs):
        raise _refuse("log.dirs names the same directory twice.")
    remote_storage = _remote_storage(values)
    return BrokerConfig(
        values,
        node_id,
        read_listeners(values, local_host_name),
        log_dirs,
        remote_storage,
        RemoteLogManagerConfig.from_properties(stated, node_id, log_dirs[0]),
        read_mounts(stated, remote_storage),
    )


def _node_id(values: ConfigValues) -> int:
    stated = values.stated
    if "broker.id" not in stated:
        return values.integer("node.id")
    broker_id = values.integer("broker.id")
    if "node.id" in stated and values.integer("node.id") != broker_id:
        raise _refuse("node.id and broker.id are one thing, yet they are set to two values.")
    if broker_id < 0:
        raise _refuse("broker.id must not be negative.")
    return broker_id


def _require_single_voter(values: ConfigValues, node_id: int) -> None:
    roles = values.texts("process.roles")
    if set(roles) != {"broker", "controller"}:
        raise _refuse(
            f"process.roles={','.join(roles)} is not served yet: a tierlog process is both,"
            " broker,controller."
        )
    voters = [voter for voter in values.texts("controller.quorum.voters") if voter]
    servers = [server for server in values.texts("controller.quorum.bootstrap.servers") if server]
    if len(voters) > 1 or len(servers) > 1:
        raise _refuse("More than one controller is not served yet: name one voter, or none.")
    if voters and voters[0].partition("@")[0] != str(node_id):
        raise _refuse(f"The voter {voters[0]} is not this node, whose node.id is {node_id}.")


def _remote_storage(values: ConfigValues) -> RemoteUrl | None:
    """The tier, if there is one. Naming a URL enables it unless the file says otherwise."""
    own = values.with_prefix(values.text("remote.log.storage.manager.impl.prefix"))
    url = own.get("url", "").strip()
    enable = "remote.log.storage.system.enable"
    if not values.boolean(enable) and (enable in values.stated or not url):
        return None
    if not url:
        plugin = values.text(_REMOTE_CLASS)
        reason = f" ({plugin} is a Java class, which tierlog cannot load)" if plugin else ""
        raise _refuse(
            f"{enable}=true needs rsm.config.url, the fsspec URL of the tier, such as"
            f" s3://bucket/path or file:///path{reason}."
        )
    return remote_url(own)


def config_warnings(config: BrokerConfig) -> list[str]:
    """Plain sentences about what was stated and will not have the effect that it names."""
    stated = config.values.stated
    warnings = unknown_name_warnings(stated)
    unused = unused_names(stated)
    if unused:
        # Each by its name: one of them may be what somebody relies on.
        warnings.append(
            f"{len(unused)} of Kafka's properties have no effect here: {', '.join(unused)}"
        )
    prefix = config.values.text("remote.log.storage.manager.impl.prefix")
    options = [name for name in stated if name.startswith(f"{prefix}option.")]
    if options and not stated.get(f"{prefix}url", "").strip():
        warnings.append(
            f"Without {prefix}url there is no remote tier that needs {', '.join(options)}."
        )
    shortest, longest = (
        config.values.integer(f"group.{bound}.session.timeout.ms") for bound in ("min", "max")
    )
    if longest < shortest:
        # Kafka accepts it without a word.
        warnings.append(
            "group.max.session.timeout.ms is below group.min.session.timeout.ms"
            f" ({longest} and {shortest}): no session timeout is allowed, and nobody can join a"
            " group of the classic protocol."
        )
    if config.remote_storage and _REMOTE_CLASS in stated:
        warnings.append(
            f"{_REMOTE_CLASS} names a Java class, which tierlog does not load;"
            f" segments go to {config.remote_storage} through fsspec."
        )
    return warnings
