"""What is true of a simulated cluster, seen from outside: its disks, its images, its replicas."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from tierlog.clients.record.batch import RecordBatch, batches
from tierlog.clients.record.control import ControlRecordType
from tierlog.clients.topic_partition import TopicPartition
from tierlog.replication.metadata.cluster_image import ClusterImage, PartitionImage
from tierlog.replication.partition.partition import Partition
from tierlog.tests.simulation.cluster_clients import Promises
from tierlog.tests.simulation.cluster_member import LOG_DIR, Member
from tierlog.tests.simulation.disk import SimulatedDirectory, SimulatedFile


def is_stranded(partition: PartitionImage) -> bool:
    """Whether nobody has a claim to lead: only an unclean election ends that."""
    return not (partition.isr or partition.elr or partition.last_known_elr)


class ClusterTruth:
    """See the module."""

    def __init__(self, members: Sequence[Member], promises: Promises) -> None:
        self.members = members
        self.promises = promises

    @property
    def image(self) -> ClusterImage | None:
        """The newest committed image that any process has had: it stays true when that is gone."""
        images = [each.image for each in self.members]
        return max(filter(None, images), key=lambda image: image.offset, default=None)

    def partitions(self) -> Iterator[tuple[TopicPartition, PartitionImage]]:
        """All partitions of the newest image."""
        image = self.image
        for topic in image.topics_by_name.values() if image else ():
            for index, partition in topic.partitions.items():
                yield TopicPartition(topic.name, index), partition

    def replica(self, member: Member, name: TopicPartition) -> Partition | None:
        """A member's replica of a partition."""
        return member.replicas.partitions.get(name) if member.replicas else None

    def fullest_first(self, name: TopicPartition, replicas: Sequence[int]) -> list[int]:
        """The replicas; the first one has all that any of them has of the newest leader."""

        def progress(member: Member) -> tuple[int, int]:
            replica = self.replica(member, name)
            if replica is None:
                return -1, -1
            return replica.log.leader_epochs.latest_epoch, replica.log.log_end_offset

        fullest = max((each for each in self.members if each.id in replicas), key=progress).id
        return [fullest, *(each for each in replicas if each != fullest)]

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
        """Nothing is lost, double, out of order, or different on two disks."""
        for name, partition in self.partitions():
            contents = {
                member.id: self.content(member, name)
                for member in self.members
                if member.id in partition.replicas
            }
            if not all(content.startswith(bytes(8)) for content in contents.values() if content):
                # A part is only in the tier, and each has kept another part.
                self._check_tails(name, contents)
                continue
            first = contents[partition.leader]
            for member_id, content in contents.items():
                assert content == first, (
                    f"{name}: the logs of {partition.leader} and {member_id} differ"
                    f" ({_outline(first)} and {_outline(content)})"
                )
            self._check_records(name, first)
            self._check_epochs(name, partition)
        image = self.image
        assert image is not None
        for name in self.promises.acknowledged:
            assert image.partition(*name) is not None, f"{name} is gone"
        self._check_copies(image)
        self._check_images(image)

    def _check_tails(self, name: TopicPartition, contents: dict[int, bytes]) -> None:
        """What several have on their disks is the same."""
        shortest = min(contents.values(), key=len)
        for member_id, content in contents.items():
            assert content.endswith(shortest), f"{name}: the log of {member_id} differs"

    def _check_epochs(self, name: TopicPartition, partition: PartitionImage) -> None:
        """The leader epochs of all replicas are the same."""
        entries = {
            member.id: list(replica.log.leader_epochs.entries)
            for member in self.members
            if (replica := self.replica(member, name)) and member.id in partition.replicas
        }
        first = entries[partition.leader]
        leader = next(each for each in self.members if each.id == partition.leader)
        assert first or not self.content(leader, name), f"{name}: records, and no epochs"
        for member_id, each in entries.items():
            assert each == first, (
                f"{name}: epochs {first} of {partition.leader}, {each} of {member_id}"
            )
        self.promises.counts["several leader epochs"] += len(first) > 1
        assert all(a < b for a, b in pairwise(first)), f"{name}: epochs {first} do not rise"

    def _check_images(self, image: ClusterImage) -> None:
        """All have the same image, and no replica that it gives to others."""
        for member in self.members:
            assert member.controller is not None
            own = member.controller.image
            assert own.offset != image.offset or own == image, f"the image of {member.id} differs"
            for name in member.replicas.partitions if member.replicas else ():
                partition = image.partition(*name)
                assert partition is not None, f"{name} is deleted, and still on {member.id}"
                assert member.id in partition.replicas, f"{name} is still on {member.id}"
            # A start keeps the logs of replicas that were moved away meanwhile.
            for name in self._directories(member) if member.starts == 1 else ():
                partition = image.partition(*name)
                assert partition is not None, f"the directory of {name} is still on {member.id}"
                is_own = member.id in partition.replicas
                assert is_own, f"the directory of {name} is still on {member.id}"

    def _directories(self, member: Member) -> Iterator[TopicPartition]:
        directory = member.disk.directory(LOG_DIR)
        for name, node in directory.entries.items():
            if isinstance(node, SimulatedDirectory) and not name.endswith(("-delete", "-stray")):
                topic, _, index = name.rpartition("-")
                if index.isdigit() and topic != "__cluster_metadata":
                    yield TopicPartition(topic, int(index))

    def written_values(self, name: TopicPartition) -> list[bytes]:
        """What a reader without transactions sees of a partition."""
        content = self._content_of_leader(name)
        return [value for batch in batches(memoryview(content)) for value in _values(batch)]

    def _content_of_leader(self, name: TopicPartition) -> bytes:
        image = self.image
        partition = image.partition(*name) if image else None
        assert partition is not None
        leader = next(each for each in self.members if each.id == partition.leader)
        return self.content(leader, name)

    def committed_values(self, name: TopicPartition) -> list[bytes]:
        """What a reader of committed records sees of a partition."""
        open_: dict[int, list[bytes]] = {}
        values: list[bytes] = []
        for batch in batches(memoryview(self._content_of_leader(name))):
            if batch.is_control:
                ended = open_.pop(batch.producer_id, [])
                if batch.control_type() is ControlRecordType.COMMIT:
                    values += ended
            else:
                open_.setdefault(batch.producer_id, []).extend(_values(batch))
        assert not open_, f"{name}: a transaction is open"
        return values

    def _check_copies(self, image: ClusterImage) -> None:
        """What was copied is what was there to copy, once and in its order, and on both."""
        if image.partition("copies", 0) is None:
            return
        source = self.written_values(TopicPartition("orders", 0))
        for index in (0, 1):
            name = TopicPartition("copies", index)
            copied = self.committed_values(name)
            assert copied == source[: len(copied)], f"{name}: {_difference(copied, source)}"
            assert len(copied) == self.promises.copied, (
                f"{name}: {len(copied)} are copied, and {self.promises.copied} are committed"
            )

    def _check_records(self, name: TopicPartition, content: bytes) -> None:
        next_offset, last_epoch = 0, 0
        values: dict[int, bytes] = {}
        for batch in batches(memoryview(content)):
            assert batch.base_offset == next_offset, f"{name}: no record at {next_offset}"
            next_offset = batch.last_offset + 1
            assert batch.partition_leader_epoch >= last_epoch, f"{name}: epochs go back"
            last_epoch = batch.partition_leader_epoch
            if batch.is_control:
                continue
            for record in batch.records():
                values[record.offset] = record.value or b""
        self.check_values(name, values)

    def check_values(self, name: TopicPartition, values: dict[int, bytes]) -> None:
        """What was acknowledged is there, and nothing is double or out of order."""
        acknowledged = self.promises.acknowledged.get(name, {})
        last_of: dict[bytes, bytes] = {}
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


def _values(batch: RecordBatch) -> list[bytes]:
    return [record.value or b"" for record in batch.records()]


def _difference(copied: list[bytes], source: list[bytes]) -> str:
    for index, value in enumerate(copied):
        if index >= len(source) or source[index] != value:
            return f"number {index} is {value!r}, and not {source[index : index + 1]}"
    return "nothing differs"
