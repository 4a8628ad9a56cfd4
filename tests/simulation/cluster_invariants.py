"""What must hold in a simulated cluster at any moment: looked at again and again.

The newest committed image of all processes is the truth about who leads. Its leader's log below its
high watermark is what is committed: it only grows, and every replica's log below its own high
watermark is the beginning of it.
"""

from bisect import bisect_right
from collections.abc import Sequence

from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.record.batch import batches
from tierlog.clients.topic_partition import TopicPartition
from tierlog.replication.metadata.cluster_image import ClusterImage, PartitionImage
from tierlog.replication.partition.partition import Partition
from tierlog.storage.log.unified_log import UnifiedLog
from tierlog.tests.simulation.cluster_member import Member
from tierlog.tests.simulation.cluster_truth import ClusterTruth, is_stranded

MIN_ISR_CONFIG = "min.insync.replicas"
MIN_ISR = 2
"""`min.insync.replicas` of the cluster; some topics have a larger one for a while."""


class ClusterInvariants:
    """See the module."""

    def __init__(self, members: Sequence[Member], truth: ClusterTruth) -> None:
        self._members = members
        self._truth = truth
        self._image: ClusterImage | None = None
        self._published: dict[tuple[int, int], int] = {}
        self._leaders: dict[tuple[TopicPartition, Uuid, int], int] = {}
        self._high_watermarks: dict[tuple[int, int, TopicPartition, Uuid, int], int] = {}
        self._ends: dict[tuple[int, int, TopicPartition], int] = {}
        self._kept: dict[tuple[int, TopicPartition], tuple[UnifiedLog, int]] = {}
        self._committed: dict[tuple[TopicPartition, Uuid], _Committed] = {}

    def check(self) -> None:
        """What is cheap enough to be looked at very often."""
        image = self._truth.image
        if image is None:
            return
        if image is not self._image:
            if self._image is None or image.offset > self._image.offset:
                self._check_image(image, self._image)
            self._image = image if self._image is None else max(self._image, image, key=_offset)
        for member in self._members:
            if member.controller is not None:
                self._check_published(member, member.controller.image.offset)
            member.note_ends()
            for name, replica in member.replicas.partitions.items() if member.replicas else ():
                if replica.is_leader:
                    self._check_leader(member, name, replica)
                self._check_log(member, name, replica)
                key, end = (member.id, member.starts, name), replica.log.log_end_offset
                self._truth.promises.counts["truncated"] += end < self._ends.get(key, 0)
                self._ends[key] = end

    def check_read(self, name: TopicPartition, offset: int) -> None:
        """Nobody reads what was never committed."""
        high_watermark = max(each.high_watermark(name) for each in self._members)
        # A leader may move it, answer and end between two looks; then all in sync have the record.
        is_on_all = all(each.log_end(name) > offset for each in self._members)
        assert offset < high_watermark or is_on_all, (
            f"{name}: {offset} is read, above {high_watermark}"
        )

    def check_acknowledged(self, name: TopicPartition, offset: int) -> None:
        """What is acknowledged is on as many replicas as must be in sync."""
        holders = [each.id for each in self._members if each.log_end(name) > offset]
        assert len(holders) >= MIN_ISR, (
            f"{name}: {offset} was acknowledged, and only {holders} have it"
        )

    def _check_published(self, member: Member, offset: int) -> None:
        """The image of a process only grows."""
        key = (member.id, member.starts)
        assert offset >= self._published.get(key, -1), f"the image of {member.id} goes back"
        self._published[key] = offset

    def _check_image(self, image: ClusterImage, before: ClusterImage | None) -> None:
        for topic in image.topics_by_name.values():
            for index, partition in topic.partitions.items():
                name = f"{topic.name}-{index} at {image.offset}"
                self._check_partition(name, image, partition)
                if is_stranded(partition):
                    _check_stranding(name, TopicPartition(topic.name, index), image, before)
                old_topic = before.topics_by_id.get(topic.topic_id) if before else None
                if old_topic and index in old_topic.partitions:
                    _check_epochs(name, old_topic.partitions[index], partition)
                    self._count_isr(old_topic.partitions[index], partition)
                    _check_reassignment(name, old_topic.partitions[index], partition)
        for broker_id, broker in before.brokers.items() if before else ():
            now = image.brokers.get(broker_id)
            assert now is None or now.epoch >= broker.epoch, f"epoch of {broker_id} goes back"

    def _count_isr(self, before: PartitionImage, now: PartitionImage) -> None:
        counts = self._truth.promises.counts
        counts["ISR expanded"] += len(now.isr) > len(before.isr)
        counts["ISR shrunk"] += len(now.isr) < len(before.isr)

    def _check_partition(self, name: str, image: ClusterImage, partition: PartitionImage) -> None:
        assert set(partition.isr) <= set(partition.replicas), f"{name}: {partition}"
        assert len(set(partition.replicas)) == len(partition.replicas), f"{name}: {partition}"
        if partition.leader >= 0:
            assert partition.leader in partition.isr, f"{name}: {partition}"
            broker = image.brokers.get(partition.leader)
            assert broker is not None, f"{name}: led by nobody"
            assert not broker.fenced, f"{name}: led by {partition.leader}, which is fenced"
        if len(partition.isr) > 1:
            fenced = [each for each in partition.isr if image.brokers[each].fenced]
            assert not fenced, f"{name}: {fenced} are fenced and in the ISR"

    def _check_log(self, member: Member, name: TopicPartition, replica: Partition) -> None:
        """A log keeps what it has ever called committed, and no epochs without records."""
        log, key = replica.log, (member.id, name)
        # A replica that was moved away and back, or whose process has ended, has another log.
        before, kept = self._kept.get(key, (log, 0))
        kept = max(kept if before is log else 0, log.high_watermark)
        self._kept[key] = log, kept
        where = f"{name} of {member.id}"
        assert log.log_end_offset >= kept, (
            f"{where} ends at {log.log_end_offset}, and its high watermark was {kept}"
        )
        entries = log.leader_epochs.entries
        assert not entries or entries[-1].start_offset < log.log_end_offset, (
            f"{where} ends at {log.log_end_offset}, and has the epochs {entries}"
        )

    def _check_leader(self, member: Member, name: TopicPartition, replica: Partition) -> None:
        topic_id, epoch = replica.topic_id_partition.topic_id, replica.leader_epoch
        leader = self._leaders.setdefault((name, topic_id, epoch), member.id)
        assert leader == member.id, f"{name}: {leader} and {member.id} lead in epoch {epoch}"
        high_watermark = replica.log.high_watermark
        key = (member.id, member.starts, name, topic_id, epoch)
        before = self._high_watermarks.get(key, -1)
        assert high_watermark >= before, f"{name}: the high watermark goes back"
        self._high_watermarks[key] = high_watermark
        latest, start = replica.log.leader_epochs.latest_epoch, replica.leader_epoch_start_offset
        assert latest == epoch or replica.log.log_end_offset <= start, (
            f"{name}: {member.id} leads in epoch {epoch} since {start}, and appends in {latest}"
        )
        image = self._image
        current = image.partition(*name) if image else None
        if (
            image is not None
            and current is not None
            and image.topics_by_name[name.topic].topic_id == replica.topic_id_partition.topic_id
            and (current.leader, current.leader_epoch) == (member.id, epoch)
            and replica.isr_state.partition_epoch == current.partition_epoch
        ):
            self._check_maximal_isr(name, replica, image)

    def _check_maximal_isr(
        self, name: TopicPartition, replica: Partition, image: ClusterImage
    ) -> None:
        """Each member of the maximal ISR that can be asked has all below the high watermark."""
        for other in self._members:
            state = replica.isr_state
            if other.id not in {*state.isr, *state.requested_isr} or not other.is_serving:
                continue
            context = other.context
            follower = self._truth.replica(other, name)
            if context is None or context.member is None or follower is None:
                continue
            if follower.leader_epoch != replica.leader_epoch:
                continue
            end = follower.log.log_end_offset
            assert end >= replica.log.high_watermark, (
                f"{name}: {other.id} is in the ISR and ends at {end}, below the high watermark"
                f" {replica.log.high_watermark} of {replica.node_id}"
            )
            own, its = _committed_epoch(replica, replica), _committed_epoch(follower, replica)
            assert own == its, (
                f"{name}: what is committed at {replica.log.high_watermark} is of epoch {own} on"
                f" {replica.node_id}, and of {its} on {other.id}, which is in the ISR"
            )

    def check_committed(self) -> None:
        """What is committed stays, byte by byte, and is the same on all."""
        image = self._truth.image
        for name, partition in self._truth.partitions():
            assert image is not None
            topic_id = image.topics_by_name[name.topic].topic_id
            committed = self._committed.setdefault((name, topic_id), _Committed())
            for member in self._members:
                replica = self._truth.replica(member, name)
                if replica is None or replica.topic_id_partition.topic_id != topic_id:
                    continue
                if member.id not in partition.replicas or replica.log.local_log_start_offset:
                    continue
                content = self._truth.content(member, name)
                assert committed.agrees_with(content, replica.log.high_watermark), (
                    f"{name}: the log of {member.id} below its high watermark"
                    f" {replica.log.high_watermark} differs from what was committed"
                )


class _Committed:
    """The batches that are committed, and where each ends."""

    def __init__(self) -> None:
        self._content = b""
        self._offsets = [0]
        self._sizes = [0]

    def agrees_with(self, content: bytes, high_watermark: int) -> bool:
        """Whether a log is the same below its high watermark; what is new there is committed."""
        known = self._sizes[bisect_right(self._offsets, high_watermark) - 1]
        if content[:known] != self._content[:known]:
            return False
        if known == len(self._content):
            self._add(content[known:], high_watermark)
        return True

    def _add(self, content: bytes, high_watermark: int) -> None:
        end = len(self._content)
        for batch in batches(memoryview(content)):
            if batch.last_offset >= high_watermark:
                break
            end += batch.size_in_bytes
            self._offsets.append(batch.last_offset + 1)
            self._sizes.append(end)
        self._content += content[: end - len(self._content)]


def _committed_epoch(replica: Partition, leader: Partition) -> int | None:
    """The epoch of the last record below a leader's high watermark, in a replica's log."""
    offset = leader.log.high_watermark - 1
    entries = replica.log.leader_epochs.entries
    at = bisect_right([each.start_offset for each in entries], offset)
    return entries[at - 1].epoch if at else None


def _offset(image: ClusterImage) -> int:
    return image.offset


def _check_stranding(
    where: str, name: TopicPartition, image: ClusterImage, before: ClusterImage | None
) -> None:
    """Only another `min.insync.replicas` takes all claims to lead from a partition.

    Without a leader a partition keeps eligible replicas, or the last leader once restarts after
    power failures have taken those. A `ClearElrRecord` clears both, also while the ISR is empty
    (`TopicDelta.maybeClearElr` of Kafka looks at nothing else).
    """
    old = before.partition(*name) if before else None
    if old is not None and is_stranded(old):
        return
    is_cleared = old and before and _min_isr(before, name.topic) != _min_isr(image, name.topic)
    assert is_cleared, f"{where}: the ISR is empty, and so are its eligible replicas"


def _min_isr(image: ClusterImage, topic: str) -> tuple[str | None, str | None]:
    return (
        image.topic_config(topic).get(MIN_ISR_CONFIG),
        image.broker_config(None).get(MIN_ISR_CONFIG),
    )


def _check_epochs(name: str, before: PartitionImage, now: PartitionImage) -> None:
    """Epochs only grow, and another leader has another epoch."""
    assert now.leader_epoch >= before.leader_epoch, f"{name}: the leader epoch goes back"
    assert now.partition_epoch >= before.partition_epoch, f"{name}: the epoch goes back"
    if now.leader not in (before.leader, -1):
        assert now.leader_epoch > before.leader_epoch, f"{name}: another leader, same epoch"


def _check_reassignment(name: str, before: PartitionImage, now: PartitionImage) -> None:
    """A new replica is being added until it is in sync."""
    new = {*before.adding_replicas, *(set(now.replicas) - set(before.replicas))}
    joined = (new & set(now.replicas)) - set(now.adding_replicas)
    if now.partition_epoch <= before.partition_epoch + 3 and joined:
        assert joined <= set(now.isr), f"{name}: {before} ends as {now}"
