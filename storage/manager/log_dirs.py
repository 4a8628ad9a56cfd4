"""The log directories of a broker: ownership, state and contents (Kafka's `LogManager`).

A directory is locked and its `meta.properties` checked before anything else in it is read. If a
disk fails, only its directory goes offline (KIP-112), but the broker cannot run without the first
directory of `log.dirs`, which has the metadata log.
"""

from collections.abc import Callable, Container, Iterator, Sequence

from ...clients.kafka_uuid import ZERO_UUID, Uuid
from ..directory.log_dir import (
    META_PROPERTIES_FILE,
    FailureListener,
    LogDir,
    LogDirError,
    MetaProperties,
)
from ..files import Files
from ..log_file import parse_partition_directory
from .partition_directory import read_topic_id

CLUSTER_METADATA_TOPIC = "__cluster_metadata"
"""Its log is in a log directory, but `LogManager` does not load it."""

METADATA_TOPIC_ID = Uuid(bytes(15) + b"\x01")
"""The id that Kafka reserves for the metadata topic."""


class LogDirs:
    """All log directories, in the order of `log.dirs`."""

    def __init__(self, files: Files, paths: Sequence[str]) -> None:
        self._files = files
        self.all = [LogDir(files, path) for path in paths]

    @property
    def online(self) -> list[LogDir]:
        """The directories whose disks have not failed."""
        return [log_dir for log_dir in self.all if log_dir.is_online]

    def on_failure(self, listener: FailureListener) -> None:
        """Call `listener` for each directory that goes offline or already is offline."""
        for log_dir in self.all:
            log_dir.on_failure(listener)

    def open(
        self,
        cluster_id: str,
        node_id: int,
        new_directory_id: Callable[[], Uuid],
        *,
        is_rebuild: bool = False,
    ) -> list[MetaProperties]:
        """Lock every directory and check that it belongs to this cluster and node.

        A new directory gets an id. A directory whose disk fails is offline afterwards and omitted
        from the result; for the first directory, which has the metadata log, OSError is raised
        instead. Raises LogDirError if a directory is in use, or belongs to another cluster or node.
        """
        properties: list[MetaProperties] = []
        for log_dir in self.all:
            try:
                log_dir.acquire(is_rebuild=is_rebuild)
                meta = log_dir.read_meta_properties()
                if meta is None:
                    meta = MetaProperties(cluster_id, node_id, new_directory_id())
                    log_dir.write_meta_properties(meta)
            except OSError as error:
                if log_dir is self.all[0]:
                    raise
                log_dir.fail(error)
                continue
            if meta.cluster_id != cluster_id or meta.node_id != node_id:
                remedy = "list only directories of one cluster in log.dirs"
                if meta.cluster_id == cluster_id:
                    remedy = f"set node.id={meta.node_id}, or use another directory in log.dirs"
                raise LogDirError(
                    f"{log_dir.path} belongs to node {meta.node_id} of cluster "
                    f"{meta.cluster_id} according to its {META_PROPERTIES_FILE}, not to node "
                    f"{node_id} of cluster {cluster_id}: {remedy}."
                )
            log_dir.directory_id = meta.directory_id
            properties.append(meta)
        return properties

    def take_clean_shutdown_markers(self) -> None:
        """Remove the markers durably before anything is written, so that a crash leads to recovery.

        A directory whose disk fails is offline afterwards.
        """
        for log_dir in self.online:
            try:
                log_dir.take_clean_shutdown_marker()
            except OSError as error:
                log_dir.fail(error)

    def stored_cluster_id(self) -> str | None:
        """The cluster id stored in the directories; None if all are new."""
        for log_dir in self.all:
            try:
                meta = log_dir.read_meta_properties()
            except OSError:
                # `open` gets the same error and handles it.
                continue
            if meta is not None:
                return meta.cluster_id
        return None

    def formatted_cluster_id(self) -> str:
        """The cluster id in the first directory, which must be formatted.

        Only a single-node cluster may make up an id: a member that lost its metadata
        directory would otherwise begin a second cluster. Its other directories may be new. Raises
        OSError and LogDirError.
        """
        first = self.all[0]
        meta = first.read_meta_properties()
        if meta is None:
            raise LogDirError(
                f"No `{META_PROPERTIES_FILE}` found in {first.path} (have you run `tierlog"
                " format`?): all nodes of a cluster must have the same cluster id. Run `tierlog"
                " format --cluster-id ID --config FILE` for each of them first; `tierlog"
                " random-uuid` prints an id."
            )
        return meta.cluster_id

    def logs_of_others(self, topics: Container[str]) -> Iterator[tuple[str, Uuid]]:
        """The directories of logs that belong to none of these topics, with their topic ids.

        Call this before the logs are loaded. A log without a topic id is omitted.
        """
        for log_dir in self.all:
            try:
                yield from self._logs_of_others(log_dir, topics)
            except OSError:
                # Loading gets the same error and notifies the listeners.
                continue

    def _logs_of_others(
        self, log_dir: LogDir, topics: Container[str]
    ) -> Iterator[tuple[str, Uuid]]:
        for name in self._files.listdir(log_dir.path):
            topic_partition = parse_partition_directory(name)
            if topic_partition is None or topic_partition.topic in topics:
                continue
            if topic_partition.topic == CLUSTER_METADATA_TOPIC:
                continue
            directory = f"{log_dir.path}/{name}"
            if self._files.is_directory(directory):
                # An unreadable file is handled when the log is loaded.
                topic_id = read_topic_id(self._files, directory, may_be_damaged=True)
                if topic_id != ZERO_UUID:
                    yield directory, topic_id
