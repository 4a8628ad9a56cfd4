"""Shared by tests: a metadata log after a start, and snapshots taken of its image."""

from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.protocol.schema import Message
from tierlog.replication.metadata.cluster_image import ClusterDelta, ClusterImage
from tierlog.replication.metadata.image_records import image_records
from tierlog.replication.metadata.log_snapshots import DueDeletion
from tierlog.replication.metadata.metadata_log import (
    METADATA_PARTITION,
    MetadataLog,
    open_metadata_log,
)
from tierlog.replication.metadata.metadata_records import TopicRecord
from tierlog.replication.metadata.snapshot_format import SnapshotId, snapshot_batches
from tierlog.storage.directory.log_dir import LogDir
from tierlog.tests.simulation.files import SimulatedFiles

DATA = "/data"
NODE_ID = 1
DIRECTORY = f"{DATA}/{METADATA_PARTITION}"
EMPTY = ClusterImage("cluster")


class Metadata:
    """A metadata log after a start, and what it says."""

    def __init__(self, files: SimulatedFiles) -> None:
        self.files = files
        self.log: MetadataLog = open_metadata_log(LogDir(files, DATA), NODE_ID, 0)
        delta = ClusterDelta(EMPTY)
        offset = epoch = -1
        for committed in self.log.replay():
            delta.replay_all(committed.records)
            offset, epoch = committed.last_offset, committed.epoch
        self.image = delta.apply(offset, epoch)

    def change(self, *records: Message) -> None:
        delta = ClusterDelta(self.image)
        delta.replay_all(records)
        offset = self.log.append(records, 0)
        self.log.flush()
        self.image = delta.apply(offset, self.log.epoch)

    def create(self, *names: str) -> None:
        for name in names:
            self.change(TopicRecord(name=name, topic_id=id_of(name)))

    def take_snapshot(self) -> SnapshotId:
        snapshot_id = SnapshotId(self.image.offset + 1, self.image.epoch)
        snapshots = self.log.snapshots
        snapshots.roll_if_larger(0, 0)
        writing = snapshots.begin(snapshot_id, "0123")
        for batch in snapshot_batches(
            snapshot_id,
            image_records(self.image),
            last_timestamp_ms=snapshots.timestamp_before(snapshot_id),
            now_ms=0,
            quorum=self.log.quorum_records,
        ):
            writing.append(batch)
        writing.sync()
        writing.freeze()
        snapshots.add(snapshot_id)
        return snapshot_id

    def cut_before(self, snapshot_id: SnapshotId) -> None:
        self.log.snapshots.delete_before(DueDeletion(snapshot_id, "a test"), 0)
        self.log.snapshots.delete_pending(10**9)

    def path(self, snapshot_id: SnapshotId) -> str:
        return f"{DIRECTORY}/{snapshot_id}.checkpoint"

    @property
    def topics(self) -> list[str]:
        return sorted(self.image.topics_by_name)


def id_of(name: str) -> Uuid:
    return Uuid(name.encode().ljust(16, b"."))
