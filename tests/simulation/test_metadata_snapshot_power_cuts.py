"""The power goes at every step of a snapshot, of its rename and of the move of the log start."""

import pytest

from tierlog.clients.kafka_uuid import Uuid
from tierlog.replication.metadata.cluster_image import ClusterDelta, ClusterImage
from tierlog.replication.metadata.image_records import image_records
from tierlog.replication.metadata.log_snapshots import DueDeletion
from tierlog.replication.metadata.metadata_log import MetadataLog, open_metadata_log
from tierlog.replication.metadata.metadata_records import RemoveTopicRecord, TopicRecord
from tierlog.replication.metadata.snapshot_format import SnapshotId, snapshot_batches
from tierlog.storage.directory.log_dir import LogDir, LogDirError
from tierlog.tests.simulation.crash_points import PowerCut, cut_power, cut_power_everywhere
from tierlog.tests.simulation.disk import Survival
from tierlog.tests.simulation.files import SimulatedFiles

DATA = "/data"
NODE_ID = 1
EMPTY = ClusterImage("cluster")


class Metadata:
    """A metadata log and the image of what is in it."""

    def __init__(self, files: SimulatedFiles) -> None:
        self.log: MetadataLog = open_metadata_log(LogDir(files, DATA), NODE_ID, 0)
        delta = ClusterDelta(EMPTY)
        offset = epoch = -1
        for committed in self.log.replay():
            delta.replay_all(committed.records)
            offset, epoch = committed.last_offset, committed.epoch
        self.image = delta.apply(offset, epoch)

    def change(self, *records: TopicRecord | RemoveTopicRecord) -> None:
        """Append a change and commit it."""
        delta = ClusterDelta(self.image)
        delta.replay_all(records)
        offset = self.log.append(records, 0)
        self.log.flush()
        self.image = delta.apply(offset, self.log.epoch)

    def take_snapshot(self, *, syncs: bool = True) -> SnapshotId:
        snapshot_id = SnapshotId(self.image.offset + 1, self.image.epoch)
        snapshots = self.log.snapshots
        snapshots.roll_if_larger(0, 0)
        timestamp = snapshots.timestamp_before(snapshot_id)
        writing = snapshots.begin(snapshot_id, "0123")
        records = image_records(self.image)
        for batch in snapshot_batches(snapshot_id, records, last_timestamp_ms=timestamp, now_ms=0):
            writing.append(batch)
        if syncs:
            writing.sync()
        writing.freeze()
        snapshots.add(snapshot_id)
        return snapshot_id


def topic(number: int) -> TopicRecord:
    return TopicRecord(name=f"t{number}", topic_id=Uuid(number.to_bytes(16, "big")))


class Snapshots:
    """Topics come and go, snapshots are taken, and the log start moves twice."""

    syncs = True

    def __init__(self) -> None:
        self.promised = EMPTY
        self.next_topic = 0

    def prepare(self, files: SimulatedFiles) -> None:
        files.mkdirs(DATA)
        files.sync_dir("/")
        metadata = Metadata(files)
        metadata.log.become_leader(0)
        metadata.log.flush()
        self._create(metadata)
        metadata.take_snapshot()

    def work(self, files: SimulatedFiles) -> None:
        metadata = Metadata(files)
        metadata.log.become_leader(0)
        metadata.log.flush()
        for _ in range(2):
            self._create(metadata)
            taken = metadata.take_snapshot(syncs=self.syncs)
            self._create(metadata)
            metadata.log.snapshots.delete_before(DueDeletion(taken, "a test"), 0)
            metadata.log.snapshots.delete_pending(60_000)

    def _create(self, metadata: Metadata) -> None:
        number = self.next_topic
        self.next_topic += 1
        metadata.change(topic(number))
        self.promised = metadata.image

    def check(self, files: SimulatedFiles) -> None:
        metadata = Metadata(files)
        promised = self.promised
        assert promised.topics_by_id.items() <= metadata.image.topics_by_id.items()
        assert promised.deleted_topic_ids <= metadata.image.deleted_topic_ids
        snapshots, log = metadata.log.snapshots, metadata.log
        if snapshots.earliest is not None:
            assert snapshots.damage_of(snapshots.earliest) is None
        # The log goes on, and what it says next is found again.
        log.become_leader(0)
        metadata.change(topic(10_000 + log.end_offset))
        metadata.take_snapshot()
        found = Metadata(files)
        assert found.image == metadata.image
        self.promised = found.image


def test_whenever_the_power_goes_the_log_and_its_snapshots_hold_what_was_committed() -> None:
    assert cut_power_everywhere(Snapshots) > 60


class Unsynced(Snapshots):
    """Gives a snapshot its final name before its content is on the disk."""

    syncs = False


def test_a_snapshot_that_is_not_synced_before_it_gets_its_name_is_found() -> None:
    with pytest.raises((AssertionError, LogDirError), match=r"no usable snapshot|header"):
        for operation in range(1, 200):
            cut_power(Unsynced, PowerCut(operation, Survival.NAMES, 0))
