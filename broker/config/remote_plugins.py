"""Selects the classes that store the remote tier and its metadata, from the configuration.

remote.log.storage.manager.class.name    none: fsspec, at rsm.config.url
                                         Kafka's LocalTieredStorage: fsspec, at rsm.config.dir
                                         a Python class: that class (tiering/plugins.py)
remote.log.metadata.manager.class.name   none, or Kafka's: the metadata topic
                                         a Python class: that class
"""

from ...clients.errors import ErrorCode, KafkaError
from ...clients.runtime.absolute_path import absolute_path
from ...tiering.config import PluginClass
from ..network.socket_listener import Endpoint
from .config_values import ConfigValues
from .listeners import Listeners, listener_of_brokers

STORAGE_CLASS = "remote.log.storage.manager.class.name"
METADATA_CLASS = "remote.log.metadata.manager.class.name"
LISTENER = "remote.log.metadata.manager.listener.name"
COMMON_CLIENT = "remote.log.metadata.common.client."

_REMOTE = "org.apache.kafka.server.log.remote"
KAFKA_METADATA = f"{_REMOTE}.metadata.storage.TopicBasedRemoteLogMetadataManager"
KAFKA_LOCAL_STORAGE = f"{_REMOTE}.storage.LocalTieredStorage"


def storage_plugin(values: ConfigValues) -> PluginClass | None:
    """The Python class that stores segments; None for fsspec. Raises KafkaError(INVALID_CONFIG)."""
    name = values.text(STORAGE_CLASS).strip()
    if not name or name == KAFKA_LOCAL_STORAGE:
        return None
    return _python_class(values, name, "remote.log.storage.manager.class.path")


def metadata_plugin(values: ConfigValues) -> PluginClass | None:
    """The Python class that keeps the metadata; None for the topic. Raises KafkaError."""
    name = values.text(METADATA_CLASS).strip()
    if name == KAFKA_METADATA:
        return None
    plugin = _python_class(values, name, "remote.log.metadata.manager.class.path")
    if plugin is None:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"{METADATA_CLASS}={name} is a Java class, which tierlog cannot load; without it the"
            " metadata topic is used.",
        )
    return plugin


def _python_class(values: ConfigValues, name: str, path_name: str) -> PluginClass | None:
    # Imported only if the configuration names a class.
    from ...tiering.plugins import find_class

    plugin = PluginClass(name, values.text(path_name))
    return plugin if find_class(plugin) is not None else None


def local_storage_url(values: ConfigValues, own: dict[str, str]) -> dict[str, str]:
    """The storage properties, with the directory of Kafka's LocalTieredStorage as a URL."""
    if values.text(STORAGE_CLASS).strip() == KAFKA_LOCAL_STORAGE and not own.get("url"):
        folder = own.get("dir", "").strip()
        if folder:
            return {**own, "url": f"file://{absolute_path(folder)}"}
    return own


def check_listener(values: ConfigValues, listeners: Listeners) -> None:
    """Reject the name of a listener that does not exist. Raises KafkaError(INVALID_CONFIG)."""
    name = values.text(LISTENER)
    names = [endpoint.name for endpoint in listeners.bound]
    if name and name not in names:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Invalid value {name} for configuration {LISTENER}: Should be set as a listener name"
            f" within valid broker listener name list: {','.join(names)}",
        )


def stated_bootstrap(values: ConfigValues) -> str:
    """The bootstrap servers of the metadata topic's cluster; empty if it is this cluster."""
    own = values.with_prefix(values.text("remote.log.metadata.manager.impl.prefix"))
    return own.get(f"{COMMON_CLIENT}bootstrap.servers", "").strip()


def metadata_listener(
    values: ConfigValues, listeners: Listeners, *, is_member: bool = False
) -> Endpoint:
    """The listener for access to the metadata topic: the named one, or else the first.

    A member's is the one for brokers, if none is named: other brokers are reached there too. So is
    that of a whole cluster if the file names it.
    """
    is_named = is_member or "inter.broker.listener.name" in values.stated
    name = values.text(LISTENER) or (listener_of_brokers(values) if is_named else "")
    return next(
        (endpoint for endpoint in listeners.bound if endpoint.name == name), listeners.bound[0]
    )
