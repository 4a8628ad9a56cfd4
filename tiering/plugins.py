"""Remote storage and remote log metadata by class: Kafka's `*.manager.class.name`, in Python.

A class is named `package.module:Class` or `package.module.Class`. It is searched for on Python's
path and then in the folders of `*.manager.class.path` (separated as in PYTHONPATH), which come last
so that a plugin can shadow nothing. As in Kafka, it is created without arguments and configured
once: `configure(configs)` gets the properties under the plugin's prefix, with the prefix removed.

A Kafka broker's properties name Java classes; broker/config/remote_plugins.py maps them to the
classes here.

docs/tiering-plugins.md is the guide for plugin authors.
"""

import os
import sys
from collections.abc import Awaitable, Mapping
from importlib import import_module
from typing import Protocol, TypeVar, cast, runtime_checkable

from ..clients.errors import ErrorCode, KafkaError
from ..clients.topic_partition import TopicIdPartition
from ..storage.remote.remote_segment import RemoteLogSegmentMetadata
from .config import PluginClass
from .metadata.metadata_manager import RemoteLogMetadataManager
from .remote_storage import (
    IndexType,
    LogSegmentData,
    PartitionStorage,
    RemoteStorageError,
    RemoteStorageManager,
    SegmentInventory,
)

T = TypeVar("T")

_STORAGE_METHODS = (
    "copy_log_segment_data",
    "fetch_log_segment",
    "fetch_index",
    "delete_log_segment_data",
    "close",
)
_METADATA_METHODS = (
    "start",
    "stop",
    "assign",
    "forget",
    "watch_all",
    "is_ready",
    "remote_log",
    "remote_logs",
    "publish",
)


@runtime_checkable
class Configurable(Protocol):
    """A plugin that wants its configuration."""

    def configure(self, configs: Mapping[str, str]) -> None:
        """Called once, before anything else. If it raises, the broker does not start."""
        ...


def _refusal(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, message)


def find_class(plugin: PluginClass) -> type[object] | None:
    """The class; None if the name has no colon and no such module, as with a Java class.

    Raises KafkaError(INVALID_CONFIG) for any other module that cannot be imported, and for a module
    without such a class.
    """
    for folder in plugin.path.split(os.pathsep):
        if folder and folder not in sys.path:
            sys.path.append(folder)
    module_name, colon, class_name = plugin.name.partition(":")
    if not colon:
        module_name, _, class_name = plugin.name.rpartition(".")
    if not module_name or not class_name:
        raise _refusal(f"{plugin} is not a class name: it must be package.module:Class.")
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise _refusal(f"{plugin} cannot be loaded: {error}.") from error
        if colon:
            where = f" or in {plugin.path}" if plugin.path else ""
            raise _refusal(
                f"{plugin} cannot be loaded: no module {module_name} is on Python's module "
                f"path{where}."
            ) from error
        return None
    except Exception as error:
        raise _refusal(f"{plugin} cannot be loaded: {error!r}.") from error
    candidate: object = getattr(module, class_name, None)
    if not isinstance(candidate, type):
        raise _refusal(f"{plugin} cannot be loaded: {module_name} has no class {class_name}.")
    return cast("type[object]", candidate)


def _make(plugin: PluginClass, configs: Mapping[str, str], kind: str, *methods: str) -> object:
    plugin_class = find_class(plugin)
    if plugin_class is None:
        raise _refusal(f"{plugin} is a Java class, which tierlog cannot load.")
    missing = [name for name in methods if not callable(getattr(plugin_class, name, None))]
    if missing:
        raise _refusal(f"{plugin} is not a {kind}: it has no {', '.join(missing)}.")
    try:
        made = plugin_class()
        if isinstance(made, Configurable):
            made.configure(configs)
    except KafkaError:
        raise
    except Exception as error:
        raise _refusal(f"{plugin} cannot be configured: {error}.") from error
    return made


def make_storage(plugin: PluginClass, configs: Mapping[str, str]) -> RemoteStorageManager:
    """A configured remote storage manager. Raises KafkaError(INVALID_CONFIG)."""
    made = _make(plugin, configs, "remote storage manager", *_STORAGE_METHODS)
    if isinstance(made, SegmentInventory):
        return GuardedInventory(plugin.name, cast("RemoteStorageManager", made), made)
    return GuardedStorage(plugin.name, cast("RemoteStorageManager", made))


def make_metadata_manager(
    plugin: PluginClass, configs: Mapping[str, str]
) -> RemoteLogMetadataManager:
    """A configured remote log metadata manager. Raises KafkaError(INVALID_CONFIG)."""
    made = _make(plugin, configs, "remote log metadata manager", *_METADATA_METHODS)
    return cast("RemoteLogMetadataManager", made)


class GuardedStorage:
    """A plugin's storage; turns every exception that it raises into a `RemoteStorageError`."""

    def __init__(self, name: str, storage: RemoteStorageManager) -> None:
        self._name = name
        self._storage = storage

    def __str__(self) -> str:
        return self._name

    async def copy_log_segment_data(
        self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData
    ) -> bytes | None:
        return await self._guard(self._storage.copy_log_segment_data(metadata, data))

    async def fetch_log_segment(
        self, metadata: RemoteLogSegmentMetadata, start_position: int, end_position: int
    ) -> bytes:
        return await self._guard(
            self._storage.fetch_log_segment(metadata, start_position, end_position)
        )

    async def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> bytes:
        return await self._guard(self._storage.fetch_index(metadata, index_type))

    async def delete_log_segment_data(self, metadata: RemoteLogSegmentMetadata) -> None:
        await self._guard(self._storage.delete_log_segment_data(metadata))

    async def delete_partition(self, partition: TopicIdPartition) -> None:
        """Delegate to the storage; do nothing if it cannot delete partitions."""
        if isinstance(self._storage, PartitionStorage):
            await self._guard(self._storage.delete_partition(partition))

    async def close(self) -> None:
        await self._guard(self._storage.close())

    async def _guard(self, call: Awaitable[T]) -> T:
        try:
            return await call
        except RemoteStorageError:
            raise
        except Exception as error:
            raise RemoteStorageError(f"{self._name} failed: {error!r}") from error


class GuardedInventory(GuardedStorage):
    """A plugin's storage that can also list its complete copies."""

    def __init__(
        self, name: str, storage: RemoteStorageManager, inventory: SegmentInventory
    ) -> None:
        super().__init__(name, storage)
        self._inventory = inventory

    async def whole_segments(self, partition: TopicIdPartition) -> list[RemoteLogSegmentMetadata]:
        return await self._guard(self._inventory.whole_segments(partition))
