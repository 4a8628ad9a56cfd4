"""Three brokers that share a tier, of tierlog or of Kafka, and the steps of stories with replicas.

Their controller is apart, so that any of them may die.
Each broker is looked at as `OneBroker` does: its disk, and what it answers. The epochs of a story
are those of a partition that has changed hands as often: `lead` makes a replica lead, which begins
one epoch, and nothing else does but a broker that dies.
"""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from confluent_kafka.cimpl import NewTopic

from tierlog.bench.harness.processes.cluster import Cluster, ClusterNode, Kind, separate
from tierlog.bench.harness.processes.live_files import live_paths
from tierlog.clients.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from tierlog.clients.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tierlog.tests import wire
from tierlog.tests.broker_process import RawClient
from tierlog.tests.waiting import wait_until

from .one_broker import (
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST,
    LATEST_TIERED,
    PROPERTIES,
    OneBroker,
    finish,
    tiered_configs,
)
from .tier_stores import DirectoryTier

A, B, C = 11, 12, 13
WITHIN_S = 180.0
"""Three brokers on a machine that does many things at once."""

_REMOTE = "org.apache.kafka.server.log.remote"
_QUICK = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.fetch.backoff.ms": "200",
    "auto.leader.rebalance.enable": "false",
    # Segments leave the disk at once, and so does what a test looks for.
    "log.segment.delete.delay.ms": "0",
}
_PREFERRED = 0
_BROKER = 4


def _kafkas(directory: Path) -> dict[str, str]:
    """What a node of Kafka needs for the tier of its own tests."""
    return {
        "remote.log.storage.manager.class.name": f"{_REMOTE}.storage.LocalTieredStorage",
        "remote.log.storage.manager.impl.prefix": "rsm.config.",
        "rsm.config.dir": str(directory / "tier"),
        "rsm.config.delete.enable": "true",
        "remote.log.metadata.manager.class.name": (
            f"{_REMOTE}.metadata.storage.TopicBasedRemoteLogMetadataManager"
        ),
        "remote.log.metadata.manager.impl.prefix": "rlmm.config.",
        "remote.log.metadata.manager.listener.name": "PLAINTEXT",
        "rlmm.config.remote.log.metadata.topic.replication.factor": "3",
    }


class Bounds(NamedTuple):
    """What a leader says of its log: its start, that of its local part, and its end."""

    start: int
    local_start: int
    end: int


class Replica(OneBroker):
    """One of the brokers."""

    def __init__(self, directory: Path, node: ClusterNode) -> None:
        super().__init__(directory, DirectoryTier(directory))
        self.member = node
        self.node = node
        self.log_dirs = [node.log_directory, node.directory / "more-logs"]
        node.state({"log.dirs": ",".join(map(str, self.log_dirs))})
        if node.kind == "tierlog":
            node.state({"tierlog.metrics.port": str(self.metrics_port)})

    def has_log(self, topic: str) -> bool:
        """Whether there is a segment of it on its disk."""
        return any(any(live_paths(each, f"{topic}-0/*.log")) for each in self.log_dirs)

    def epochs(self, topic: str) -> dict[int, int]:
        """The leader epochs in its checkpoint, and where each begins."""
        lines = self.epoch_file(topic).decode().splitlines()[2:]
        return {int(epoch): int(start) for epoch, start in (line.split() for line in lines)}

    def epoch_file(self, topic: str) -> bytes:
        """Its epoch checkpoint."""
        return (self.directory(topic) / "leader-epoch-checkpoint").read_bytes()

    def snapshot_at(self, topic: str, offset: int) -> bytes:
        """Its producer snapshot at an offset."""
        return (self.directory(topic) / f"{offset:020}.snapshot").read_bytes()

    def log_bytes(self, topic: str, start: int) -> bytes:
        """The records that it has on its disk, from the segment that begins at an offset on."""
        files = sorted(self.directory(topic).glob("*.log"))
        return b"".join(each.read_bytes() for each in files if int(each.stem) >= start)

    def bounds(self, topic: str) -> Bounds:
        """What it says as the leader."""
        start, local_start, end = (
            self.offset(topic, name)[0] for name in (EARLIEST, EARLIEST_LOCAL, LATEST)
        )
        return Bounds(start, local_start, end)


class ManyBrokers:
    """The cluster, and its brokers by their ids."""

    def __init__(self, directory: Path, kind: Kind, more: Mapping[str, str] | None = None) -> None:
        properties = {**PROPERTIES, **_QUICK, **(more or {})}
        if kind == "kafka":
            properties |= _kafkas(directory)
        else:
            properties |= DirectoryTier(directory).properties
        kinds: list[Kind] = [kind] * 3
        self.cluster = Cluster(directory, separate(kinds[:1], kinds), properties)
        self._tier = directory / "tier"
        self.replicas = {
            node.node_id: Replica(directory / f"node-{node.node_id}", node)
            for node in self.cluster.brokers
        }

    def __getitem__(self, node_id: int) -> Replica:
        return self.replicas[node_id]

    def create(
        self, topic: str, replicas: Sequence[int], *, per_segment: int, **configs: object
    ) -> None:
        """A tiered topic of one partition with these replicas, of which the first one leads."""
        via = self._alive()
        new = NewTopic(
            topic,
            num_partitions=1,
            replica_assignment=[list(replicas)],
            config=tiered_configs(per_segment, configs),
        )
        finish(via.admin.create_topics([new]).values())  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType] # published without all types
        self.wait_for_leader(topic, replicas[0])

    def assign(self, topic: str, replicas: Sequence[int]) -> None:
        """Give the partition these replicas, and wait until all are in sync."""
        self.begin_to_assign(topic, replicas)
        self.wait_for_isr(topic, replicas)

    def begin_to_assign(self, topic: str, replicas: Sequence[int]) -> None:
        """Give the partition these replicas; it has them all once the new ones are in sync."""
        partition = wire.ReassignablePartition(partition_index=0, replicas=list(replicas))
        request = wire.AlterPartitionReassignmentsRequest(
            topics=[wire.ReassignableTopic(name=topic, partitions=[partition])]
        )
        with RawClient(self._alive().node.port) as client:
            answer = client.ask(request, 0, wire.AlterPartitionReassignmentsResponse)
        assert not answer.error_code, answer
        assert not answer.responses[0].partitions[0].error_code, answer

    def lead(self, topic: str, node_id: int) -> None:
        """Make a replica in sync the leader: a clean election, which begins the next epoch.

        The former one has copied all that it may: what two leaders copy at once is not told here.
        """
        self.wait_until_copied(topic)
        others = [each for each in self.partition(topic).replica_nodes if each != node_id]
        self.begin_to_assign(topic, [node_id, *others])
        wait_until(
            lambda: self.partition(topic).replica_nodes[0] == node_id,
            WITHIN_S,
            lambda: f"{self.partition(topic)}",
        )
        asked = TopicPartitions(topic=topic, partitions=[0])
        request = ElectLeadersRequest(election_type=_PREFERRED, topic_partitions=[asked])
        with RawClient(self._alive().node.port) as client:
            answer = client.ask(request, 2, ElectLeadersResponse)
        assert not answer.error_code, answer
        self.wait_for_leader(topic, node_id)

    def wait_until_copied(self, topic: str) -> None:
        """Until the leader knows that the tier has all its closed segments."""
        leader = self[self.partition(topic).leader_id]

        def is_so() -> bool:
            starts = leader.local_starts(topic)
            return bool(starts) and leader.offset(topic, LATEST_TIERED)[0] == starts[-1] - 1

        wait_until(is_so, WITHIN_S, lambda: f"{leader.local_starts(topic)}")

    def kill(self, node_id: int, topic: str) -> None:
        """End a broker at once, and wait until it leads the topic no more and is out of its ISR."""
        self[node_id].node.kill()

        def is_out() -> bool:
            now = self.partition(topic)
            return now.leader_id != node_id and (
                node_id not in now.isr_nodes or now.isr_nodes == [node_id]
            )

        wait_until(is_out, WITHIN_S, lambda: f"{self.partition(topic)}")

    def start(self, node_id: int) -> None:
        self.cluster.nodes[node_id].start(WITHIN_S)

    def enable_last_tiered(self, is_enabled: bool) -> None:
        """Set `follower.fetch.last.tiered.offset.enable` for all brokers (KIP-1023)."""
        change = AlterableConfig(
            name="follower.fetch.last.tiered.offset.enable", value=str(is_enabled).lower()
        )
        everyone = AlterConfigsResource(resource_type=_BROKER, resource_name="", configs=[change])
        with RawClient(self._alive().node.port) as client:
            request = IncrementalAlterConfigsRequest(resources=[everyone])
            answer = client.ask(request, 1, IncrementalAlterConfigsResponse)
        assert not answer.responses[0].error_code, answer

    def lose_tail(self, node_id: int, topic: str, kept: int) -> None:
        """Cut a dead broker's first segment to so many bytes, as a power loss may; nothing that
        was written later is there."""
        directory = self[node_id].directory(topic)
        for each in directory.iterdir():
            is_later = each.suffix in (".log", ".index", ".timeindex", ".snapshot")
            if is_later and (int(each.stem) > 0 or each.suffix != ".log"):
                each.unlink()
        (log,) = directory.glob("*.log")
        log.write_bytes(log.read_bytes()[:kept])
        recovery_points = directory.parent / "recovery-point-offset-checkpoint"
        lines = recovery_points.read_text().splitlines()
        of_others = [line for line in lines[2:] if not line.startswith(f"{topic} ")]
        lines = [lines[0], str(len(of_others)), *of_others]
        recovery_points.write_text("".join(f"{line}\n" for line in lines))

    @contextmanager
    def hidden_segment(self, topic: str, start: int) -> Generator[None]:
        """All objects of a segment are out of the tier meanwhile."""
        aside = self._tier.parent / "aside"
        hidden = [
            (path, aside / path.relative_to(self._tier))
            for path in live_paths(self._tier, f"**/{topic}-0-*/{start:020}*")
        ]
        assert hidden
        for path, elsewhere in hidden:
            elsewhere.parent.mkdir(parents=True, exist_ok=True)
            path.rename(elsewhere)
        yield
        for path, elsewhere in hidden:
            elsewhere.rename(path)

    def wait_for_failed_builds(self, node_id: int, topic: str, *, at_least: int) -> None:
        """Until a broker of ours has failed so often to read its state from the tier."""

        def failures() -> float:
            return self[node_id].count("BuildRemoteLogAuxStateErrorsPerSec", topic)

        wait_until(lambda: failures() >= at_least, WITHIN_S, lambda: f"failed {failures()} times")

    def move_log(self, topic: str, node_id: int) -> None:
        """Move a broker's replica to its other log directory, and wait until it is there alone."""
        replica = self[node_id]
        current = replica.directory(topic).parent
        (other,) = (each for each in replica.log_dirs if each != current)
        moved = wire.AlterReplicaLogDirTopic(name=topic, partitions=[0])
        target = wire.AlterReplicaLogDir(path=str(other), topics=[moved])
        with RawClient(replica.node.port) as client:
            request = wire.AlterReplicaLogDirsRequest(dirs=[target])
            answer = client.ask(request, 2, wire.AlterReplicaLogDirsResponse)
        assert not answer.results[0].partitions[0].error_code, answer
        wait_until(
            lambda: (other / f"{topic}-0").exists() and not (current / f"{topic}-0").exists(),
            WITHIN_S,
            lambda: f"{sorted(other.glob(topic + '-*'))} {sorted(current.glob(topic + '-*'))}",
        )

    def reimage(self, node_id: int, topic: str) -> None:
        """Take a broker's replica from its disk while it is down."""
        directory = self[node_id].directory(topic)
        for each in directory.iterdir():
            each.unlink()
        directory.rmdir()

    def _alive(self) -> Replica:
        return next(each for each in self.replicas.values() if each.node.is_alive())

    def partition(self, topic: str) -> wire.MetadataResponsePartition:
        """The partition as the first living broker knows it."""
        return self._partition_at(self._alive(), topic)

    def _partition_at(self, replica: Replica, topic: str) -> wire.MetadataResponsePartition:
        request = wire.MetadataRequest(
            topics=[wire.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
        )
        with RawClient(replica.node.port) as client:
            answer = client.ask(request, 9, wire.MetadataResponse).topics[0]
        if not answer.partitions:
            return wire.MetadataResponsePartition(partition_index=0, leader_id=-2, leader_epoch=-2)
        return answer.partitions[0]

    def wait_for_leader(self, topic: str, leader: int) -> None:
        """Until every living broker knows it."""
        alive = [each for each in self.replicas.values() if each.node.is_alive()]

        def leaders() -> list[int]:
            return [self._partition_at(each, topic).leader_id for each in alive]

        wait_until(
            lambda: set(leaders()) == {leader}, WITHIN_S, lambda: f"{leaders()}, not {leader}"
        )

    def epoch_end(self, topic: str, epoch: int) -> tuple[int, int]:
        """What the leader says a client of that epoch: the epoch that it has, and its end."""
        leader = self.partition(topic).leader_id
        asked = wire.OffsetForLeaderPartition(
            partition=0, current_leader_epoch=-1, leader_epoch=epoch
        )
        request = wire.OffsetForLeaderEpochRequest(
            replica_id=-1, topics=[wire.OffsetForLeaderTopic(topic=topic, partitions=[asked])]
        )
        with RawClient(self[leader].node.port) as client:
            answer = client.ask(request, 4, wire.OffsetForLeaderEpochResponse)
        of_partition = answer.topics[0].partitions[0]
        assert not of_partition.error_code, of_partition
        return of_partition.leader_epoch, of_partition.end_offset

    def wait_for_isr(self, topic: str, isr: Sequence[int]) -> None:
        def is_so() -> bool:
            now = self.partition(topic)
            return list(now.replica_nodes) == list(isr) and sorted(now.isr_nodes) == sorted(isr)

        wait_until(is_so, WITHIN_S, lambda: f"{self.partition(topic)}, not {isr}")

    def wait_until_same(self, topic: str, *node_ids: int) -> None:
        """Until these replicas have the same epochs and the same records, from the latest of their
        local starts on."""

        def is_so() -> bool:
            replicas = [self[each] for each in node_ids]
            if not all(each.has_log(topic) for each in replicas):
                return False
            start = max(each.local_starts(topic)[0] for each in replicas)
            epochs = {tuple(each.epochs(topic).items()) for each in replicas}
            return (
                len(epochs) == 1 and len({each.log_bytes(topic, start) for each in replicas}) == 1
            )

        wait_until(is_so, WITHIN_S, lambda: self._differences(topic, node_ids))

    def _differences(self, topic: str, node_ids: Sequence[int]) -> str:
        return "; ".join(
            f"{each}: {self[each].local_starts(topic)} {self[each].epochs(topic)}"
            for each in node_ids
        )

    def tier_starts(self, topic: str) -> list[int]:
        """The first offsets of the segments in the tier, an offset as often as it is there."""
        return sorted(
            int(path.name[:20]) for path in live_paths(self._tier, f"**/{topic}-0-*/*.log")
        )

    def wait_for_tier(self, topic: str, starts: Sequence[int]) -> None:
        """Until just these segments are in the tier."""
        wait_until(
            lambda: self.tier_starts(topic) == list(starts),
            WITHIN_S,
            lambda: f"in the tier: {self.tier_starts(topic)}, not {starts}",
        )

    def expect_same_state(self, topic: str, offset: int) -> None:
        """A has led up to an offset, and B has its state there from the tier: the same bytes.

        Kafka 4.3.1 leaves an empty producer snapshot there after KIP-1023's start.
        """
        assert self[B].epoch_file(topic) == self[A].epoch_file(topic)
        if self[B].member.kind == "tierlog":
            assert self[B].snapshot_at(topic, offset) == self[A].snapshot_at(topic, offset)

    def wait_for_epochs(self, topic: str, node_id: int, epochs: Mapping[int, int]) -> None:
        """Until its epoch checkpoint has just these; Kafka writes it in the background."""
        replica = self[node_id]
        wait_until(
            lambda: replica.epochs(topic) == epochs,
            WITHIN_S,
            lambda: f"{replica.epochs(topic)}, not {epochs}",
        )

    def expect_states_built(
        self, node_id: int, topic: str, *, at_least: int, at_most: int = 100
    ) -> None:
        """How often a broker of ours has read its state from the tier since its start."""
        if self[node_id].member.kind == "tierlog":
            built = self[node_id].count("BuildRemoteLogAuxStateRequestsPerSec", topic)
            assert at_least <= built <= at_most

    def wait_for_active_alone(self, topic: str, node_id: int) -> int:
        """Until only the active segment is on a disk; its first offset."""
        replica = self[node_id]
        wait_until(
            lambda: len(replica.local_starts(topic)) == 1,
            WITHIN_S,
            lambda: f"{replica.local_starts(topic)}",
        )
        return replica.local_starts(topic)[0]

    def wait_for_local(self, topic: str, start: int, *node_ids: int) -> None:
        """Until the first segment on these disks is this one."""
        for node_id in node_ids:
            self[node_id].wait_for_local(topic, start)


@contextmanager
def many_brokers(
    directory: Path, kind: Kind = "tierlog", more: Mapping[str, str] | None = None
) -> Generator[ManyBrokers]:
    """The brokers while they run; when all is well, none has met an internal error."""
    many = ManyBrokers(directory, kind, more)
    with many.cluster:
        many.cluster.wait_until_caught_up()
        try:
            yield many
        except BaseException as error:
            error.add_note(many.cluster.log_tails(40))
            raise
        for replica in many.replicas.values():
            if kind == "tierlog":
                assert "internal error" not in replica.node.output
