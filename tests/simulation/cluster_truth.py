"""What is true of a simulated cluster, seen from outside: its disks, its images, its replicas."""

from collections.abc import Iterator, Sequence

from tierlog.clients.record.batch import batches
from tierlog.clients.topic_partition import TopicPartition
from tierlog.replication.metadata.cluster_image import ClusterImage, PartitionImage
from tierlog.replication.partition.partition import Partition
from tierlog.tests.simulation.cluster_clients import Promises
from tierlog.tests.simulation.cluster_member import LOG_DIR, Member
from tierlog.tests.simulation.disk import SimulatedDirectory, SimulatedFile


class ClusterTruth:
    """See the module."""

    def __init__(self, members: Sequence[Member], promises: Promises) -> None:
        self.members = members
        self.promises = promises

    # -- Looking --------------------------------------------------------------------------------

    @property
    def image(self) -> ClusterImage | None:
        """The newest committed image that any process has."""
        images = [each.controller.image for each in self.members if each.controller]
        return max(images, key=lambda image: image.offset, default=None)

    def partitions(self) -> Iterator[tuple[TopicPartition, PartitionImage]]:
        """All partitions of the newest image."""
        image = self.image
        for topic in image.topics_by_name.values() if image else ():
            for index, partition in topic.partitions.items():
                yield TopicPartition(topic.name, index), partition

    def replica(self, member: Member, name: TopicPartition) -> Partition | None:
        """A member's replica of a partition."""
        return member.replicas.partitions.get(name) if member.replicas else None

    def content(self, member: Member, name: TopicPartition) -> bytes:
        """The bytes of a partition's segments on a member's disk, one after the other."""
        directory = member.disk.find(f"{LOG_DIR}/{name.topic}-{name.partition}")
        if not isinstance(directory, SimulatedDirectory):
            return b""
        return b"".join(
            bytes(node.content)
            for file, node in sorted(directory.entries.items())
            if file.endswith(".log") and isinstance(node, SimulatedFile)
        )

    # -- At the end -----------------------------------------------------------------------------

    def is_healed(self) -> bool:
        """Whether all serve, all replicas are in sync and nobody has to catch up."""
        image = self.image
        if image is None or not all(member.is_serving for member in self.members):
            return False
        if any(
            m.controller is None or m.controller.image.offset < image.offset for m in self.members
        ):
            return False
        for name, partition in self.partitions():
            if len(partition.isr) < len(partition.replicas) or partition.leader < 0:
                return False
            if partition.adding_replicas or partition.removing_replicas:
                return False
            if not self._is_in_sync(name, partition):
                return False
        return True

    def _is_in_sync(self, name: TopicPartition, partition: PartitionImage) -> bool:
        ends: set[int] = set()
        for member in self.members:
            if member.id in partition.replicas:
                replica = self.replica(member, name)
                if replica is None:
                    return False
                ends |= {replica.log.log_end_offset, replica.log.high_watermark}
        return len(ends) == 1

    def check_end(self) -> None:
        """P1, P2, P5, P6: nothing is lost, double, out of order, or different on two disks."""
        for name, partition in self.partitions():
            contents = {
                member.id: self.content(member, name)
                for member in self.members
                if member.id in partition.replicas
            }
            first = contents[partition.leader]
            for member_id, content in contents.items():
                assert content == first, (
                    f"{name}: the logs of {partition.leader} and {member_id} differ"
                    f" ({_outline(first)} and {_outline(content)})"
                )
            self._check_records(name, first)
        image = self.image
        assert image is not None
        for name in self.promises.acknowledged:
            assert image.partition(*name) is not None, f"{name} is gone"

    def _check_records(self, name: TopicPartition, content: bytes) -> None:
        acknowledged = self.promises.acknowledged.get(name, {})
        next_offset, last_epoch = 0, 0
        values: dict[int, bytes] = {}
        last_of: dict[bytes, bytes] = {}
        for batch in batches(memoryview(content)):
            assert batch.base_offset == next_offset, f"{name}: no record at {next_offset}"
            next_offset = batch.last_offset + 1
            assert batch.partition_leader_epoch >= last_epoch, f"{name}: epochs go back"
            last_epoch = batch.partition_leader_epoch
            if batch.is_control:
                continue
            for record in batch.records():
                values[record.offset] = record.value or b""
        for offset, value in acknowledged.items():
            assert values.get(offset) == value, (
                f"{name}: {value!r} was acknowledged at {offset}, where {values.get(offset)!r} is"
            )
        if acknowledged:
            for offset, value in values.items():
                writer, _, number = value.partition(b"/")
                assert last_of.get(writer, b"") < number, (
                    f"{name}: {value!r} at {offset} is double or out of order"
                )
                last_of[writer] = number


def _outline(content: bytes) -> str:
    ends = [(b.partition_leader_epoch, b.last_offset) for b in batches(memoryview(content))]
    return f"{len(content)} bytes, {ends[-3:]}"
