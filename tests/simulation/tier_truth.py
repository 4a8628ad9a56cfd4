"""What is true of a tier, seen from outside: the metadata topic's files, the logs, the store.

Nothing is asked of the code that is under test but the two folds that everybody shares: the records
of the metadata topic are read from the simulated disk and folded into one `RemoteLog` per user
partition, and the objects are those of the store.
"""

from collections.abc import ItemsView, Iterator

from tierlog.clients.record.batch import batches
from tierlog.clients.record.checksum import crc32c
from tierlog.clients.topic_partition import TopicIdPartition, TopicPartition
from tierlog.storage.log.unified_log import UnifiedLog
from tierlog.storage.manager.log_manager import LogManager
from tierlog.storage.remote.remote_lineage import epoch_of_offset
from tierlog.storage.remote.remote_log import RemoteLog
from tierlog.storage.remote.remote_segment import (
    RemoteLogMetadata,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
)
from tierlog.tests.simulation.broker import SimulatedBroker
from tierlog.tests.simulation.cluster_member import Member
from tierlog.tests.simulation.disk import Node, SimulatedDirectory, SimulatedFile
from tierlog.tests.simulation.object_store import SimulatedStore
from tierlog.tiering.metadata.metadata_events import METADATA_TOPIC, decode_event
from tierlog.tiering.store.manifest import decode_manifest
from tierlog.tiering.store.object_keys import (
    MANIFEST_SUFFIX,
    ObjectKey,
    object_key,
    parse_object_key,
)
from tierlog.tiering.tier_owner import OWNER_KEY

FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED


def apply_event(logs: dict[TopicIdPartition, RemoteLog], event: RemoteLogMetadata) -> None:
    """Fold a record of the metadata topic into the remote log of its partition."""
    partition = event.topic_id_partition
    remote = logs.setdefault(partition, RemoteLog(partition))
    if isinstance(event, RemoteLogSegmentMetadata):
        remote.apply_copy_started(event)
    elif isinstance(event, RemoteLogSegmentMetadataUpdate):
        remote.apply_update(event)
    else:
        remote.apply_partition_delete(event.state)


class TierTruth:
    """See the module. Holds while the broker runs, recovered.

    With `durable` the metadata is what a loss of power would leave of it for sure.
    """

    def __init__(
        self, broker: "SimulatedBroker | Member", store: SimulatedStore, *, durable: bool = False
    ) -> None:
        self._broker = broker
        self._store = store
        self._durable = durable
        self._seen: tuple[int, int] | None = None
        self._remote_logs: dict[TopicIdPartition, RemoteLog] = {}

    @property
    def logs(self) -> LogManager | None:
        """The logs of the process that runs, once they are open."""
        return self._broker.logs

    def log(self, partition: TopicIdPartition) -> UnifiedLog | None:
        """The log of this incarnation."""
        log = self.logs.get_log(partition.topic_partition) if self.logs else None
        return log if log is not None and log.topic_id == partition.topic_id else None

    def remote_logs(self) -> dict[TopicIdPartition, RemoteLog]:
        """What was published, by user partition, deleted ones included."""
        contents = [file.durable if self._durable else file.content for file in self._files()]
        seen = (self._broker.starts, sum(map(len, contents)))
        if seen != self._seen:
            self._seen, self._remote_logs = seen, {}
            for content in contents:
                self._fold(bytes(content))
        return self._remote_logs

    def remote_log(self, partition: TopicIdPartition) -> RemoteLog:
        """What was published of one user partition."""
        return self.remote_logs().get(partition) or RemoteLog(partition)

    def _files(self) -> Iterator[SimulatedFile]:
        """The files of the metadata topic."""
        for name, directory in sorted(self._names(self._broker.disk.directory("/data"))):
            if name.startswith(f"{METADATA_TOPIC}-") and isinstance(directory, SimulatedDirectory):
                for file_name, file in sorted(self._names(directory)):
                    if file_name.endswith(".log") and isinstance(file, SimulatedFile):
                        yield file

    def _names(self, directory: SimulatedDirectory) -> ItemsView[str, Node]:
        return (directory.durable if self._durable else directory.entries).items()

    def _fold(self, content: bytes) -> None:
        for batch in batches(content):
            for record in batch.records():
                apply_event(self._remote_logs, decode_event(record.value or b""))

    def keys(self) -> dict[str, ObjectKey]:
        """Every object, and what its key says."""
        found = {key: parse_object_key(key) for key in self._store.objects if key != OWNER_KEY}
        known = {key: each for key, each in found.items() if each is not None}
        assert found == known, "the tier holds what is none of ours"
        return known

    def orphans(self) -> list[str]:
        """Objects of which the metadata does not say that they are a part of a segment."""
        return [key for key, said in self.keys().items() if not self._is_known(said)]

    def _is_known(self, said: ObjectKey) -> bool:
        segment = self.remote_log(said.topic_id_partition).segment(said.segment_id)
        if segment is None or segment.state is not FINISHED:
            return segment is not None
        manifest = self._store.objects[object_key(segment, MANIFEST_SUFFIX)].content
        return said.suffix in {MANIFEST_SUFFIX, *decode_manifest(manifest).parts}

    def fault_of(self, segment: RemoteLogSegmentMetadata, *, thorough: bool = False) -> str:
        """What is missing of a segment's objects, or differs from the manifest; empty if whole."""
        manifest_key = object_key(segment, MANIFEST_SUFFIX)
        if manifest_key not in self._store.objects:
            return f"{manifest_key} is missing"
        manifest = decode_manifest(self._store.objects[manifest_key].content)
        for suffix, part in manifest.parts.items():
            key = object_key(segment, suffix)
            if key not in self._store.objects:
                return f"{key} is missing"
            content = self._store.objects[key].content
            if len(content) != part.size or (thorough and crc32c(content) != part.crc):
                return f"{key} is damaged"
        return ""

    def check_readable(self, partition: TopicIdPartition, from_offset: int) -> None:
        """What is not on the disk is whole in the tier, finished, in this log's lineage."""
        log = self.log(partition)
        if log is None:
            return
        remote, history = self.remote_log(partition), log.leader_epochs.entries
        offset = max(log.log_start_offset, from_offset)
        while offset < log.local_log_start_offset:
            epoch = epoch_of_offset(history, offset)
            segment = remote.segment_for(epoch, offset)
            assert segment is not None, (
                f"{partition}: offset {offset} (epoch {epoch}) is neither on the disk, which begins"
                f" at {log.local_log_start_offset}, nor finished in the tier"
            )
            fault = self.fault_of(segment)
            assert not fault, f"{partition}: offset {offset}: {fault}"
            offset = segment.end_offset_of_epoch(epoch) + 1

    def check_removal(self, key: str) -> None:
        """Whether this object may go now, which is still there: it is not readable any more."""
        said = parse_object_key(key)
        assert said is not None, f"{key} is none of ours"
        segment = self.remote_log(said.topic_id_partition).segment(said.segment_id)
        assert segment is None or segment.state is not FINISHED, f"{key} goes and is readable"

    def topics_on_disk(self) -> set[TopicPartition]:
        """The partitions that there are logs of."""
        return {log.topic_partition for log in self.logs.all_logs()} if self.logs else set()
