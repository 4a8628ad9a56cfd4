"""What must hold in the tier of a simulated cluster at any moment.

The metadata topic of its leader, as far as it is committed, says what was copied. Only what is
committed is copied; what was copied stays readable as long as its topic lives, with all objects.
"""

from collections.abc import Sequence

from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.record.batch import batches
from tierlog.clients.topic_partition import TopicIdPartition, TopicPartition
from tierlog.storage.log.leader_epoch import EpochEntry
from tierlog.storage.remote.remote_lineage import epoch_of_offset
from tierlog.storage.remote.remote_log import RemoteLog
from tierlog.storage.remote.remote_segment import RemoteLogSegmentMetadata
from tierlog.tests.simulation.cluster_member import Member
from tierlog.tests.simulation.cluster_truth import ClusterTruth
from tierlog.tests.simulation.object_store import SimulatedStore
from tierlog.tests.simulation.tier_truth import FINISHED, TierTruth, apply_event
from tierlog.tiering.metadata.metadata_events import METADATA_TOPIC, decode_event
from tierlog.tiering.store.object_keys import parse_object_key

METADATA = TopicPartition(METADATA_TOPIC, 0)


class ClusterCopies:
    """See the module."""

    def __init__(
        self, members: Sequence[Member], truth: ClusterTruth, store: SimulatedStore
    ) -> None:
        self._members = members
        self._truth = truth
        self._objects = TierTruth(members[0], store)
        self._committed = 0
        """The highest high watermark of the metadata topic: that of a new leader lags for a while,
        and its log does not."""
        self._readable: dict[Uuid, int] = {}
        """By topic, below which offset all has been copied."""
        self._whole: set[Uuid] = set()
        """The segments that were looked at since the last removal."""
        self._begun: set[Uuid] = set()
        """Those of which an object has come."""

    def forget_whole(self, _: str) -> None:
        """An object was removed: look at all of them again."""
        self._whole.clear()

    def check_put(self, key: str) -> None:
        """A copy begins when all of its segment is committed; raises AssertionError."""
        said = parse_object_key(key)
        if said is None or said.segment_id in self._begun:
            return
        remote = self._remote_logs().get(said.topic_id_partition)
        segment = remote.segment(said.segment_id) if remote else None
        if segment is not None:
            self._begun.add(segment.id)
            self._check_committed(said.topic_id_partition.topic_partition, segment)

    def check(self) -> None:
        """Raises AssertionError."""
        image = self._truth.image
        for remote in self._remote_logs().values():
            name = remote.topic_id_partition
            topic = image.topics_by_id.get(name.topic_id) if image else None
            if image is None or topic is None:
                continue
            self._check_segments(name.topic_partition, remote)
            leader_id = topic.partitions[name.partition].leader
            history = self._history(leader_id, name)
            if history:
                self._check_readable(name, remote, history)

    def _led(self, leader_id: int, name: TopicPartition) -> Member | None:
        for member in self._members:
            replica = self._truth.replica(member, name)
            if member.id == leader_id and replica is not None and replica.is_leader:
                return member
        return None

    def _remote_logs(self) -> dict[TopicIdPartition, RemoteLog]:
        image = self._truth.image
        partition = image.partition(*METADATA) if image else None
        leader = self._led(partition.leader, METADATA) if partition else None
        replica = self._truth.replica(leader, METADATA) if leader else None
        logs: dict[TopicIdPartition, RemoteLog] = {}
        if leader is None or replica is None:
            return logs
        self._committed = max(self._committed, replica.log.high_watermark)
        for batch in batches(memoryview(self._truth.content(leader, METADATA))):
            if batch.last_offset >= self._committed:
                break
            for record in batch.records():
                apply_event(logs, decode_event(record.value or b""))
        return logs

    def _history(self, leader_id: int, name: TopicIdPartition) -> list[EpochEntry]:
        """The leader epochs of the log of a partition's leader, if that can be asked."""
        member = self._led(leader_id, name.topic_partition)
        replica = self._truth.replica(member, name.topic_partition) if member else None
        if replica is None or replica.topic_id_partition.topic_id != name.topic_id:
            return []
        return list(replica.log.leader_epochs.entries)

    def _check_segments(self, name: TopicPartition, remote: RemoteLog) -> None:
        for segment in remote.segments():
            if segment.state is not FINISHED or segment.id in self._whole:
                continue
            self._check_committed(name, segment)
            fault = self._objects.fault_of(segment)
            assert not fault, f"{name}: {segment.start_offset}-{segment.end_offset}: {fault}"
            self._whole.add(segment.id)

    def _check_committed(self, name: TopicPartition, segment: RemoteLogSegmentMetadata) -> None:
        high_watermark = max(each.high_watermark(name) for each in self._members)
        assert segment.end_offset < high_watermark, (
            f"{name}: copied up to {segment.end_offset}, committed below {high_watermark}"
        )

    def _check_readable(
        self, name: TopicIdPartition, remote: RemoteLog, history: list[EpochEntry]
    ) -> None:
        offset = history[0].start_offset
        while (segment := _segment_for(remote, history, offset)) is not None:
            offset = segment.end_offset_of_epoch(epoch_of_offset(history, offset)) + 1
        before = self._readable.get(name.topic_id, 0)
        assert offset >= before, (
            f"{name.topic_partition}: all below {before} was in the tier, and now below {offset}"
        )
        self._readable[name.topic_id] = offset


def _segment_for(
    remote: RemoteLog, history: list[EpochEntry], offset: int
) -> RemoteLogSegmentMetadata | None:
    return remote.segment_for(epoch_of_offset(history, offset), offset)
