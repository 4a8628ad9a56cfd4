"""Reassigns partitions of a cluster of processes, and compares the logs on all disks with it.

The check knows nothing of the brokers' state: after a reassignment, the directories of a partition
are on the brokers that Metadata names, with the same bytes on each, and on no other broker.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tierlog.bench.harness.processes.cluster import Cluster, ClusterNode
from tierlog.bench.harness.requests.wire import Wire
from tierlog.clients.admin import Admin, NewTopic
from tierlog.clients.errors import ErrorCode
from tierlog.clients.network.metadata import PartitionMetadata
from tierlog.clients.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from tierlog.clients.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from tierlog.clients.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

from ..waiting import wait_until
from .replicated_topics import run

WITHIN_S = 120


class Ongoing(NamedTuple):
    """A reassignment that is not complete."""

    adding: tuple[int, ...]
    removing: tuple[int, ...]


class ReassignedTopics:
    """The topics of one cluster, seen through whichever brokers run."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self._alive)

    @property
    def _alive(self) -> list[ClusterNode]:
        return [node for node in self.cluster.brokers if node.is_alive()]

    def create(self, topic: str, assignment: Mapping[int, Sequence[int]]) -> None:
        async def story() -> None:
            async with Admin(self.bootstrap) as admin:
                replicas = {number: list(each) for number, each in assignment.items()}
                await admin.create_topics([NewTopic(topic, replica_assignments=replicas)])

        run(story())
        wait_until(
            lambda: all(
                len(self.partitions(topic, node.bootstrap)) == len(assignment)
                for node in self._alive
            ),
            WITHIN_S,
            f"{topic} does not appear everywhere",
        )

    def delete(self, topic: str) -> None:
        async def story() -> None:
            async with Admin(self.bootstrap) as admin:
                await admin.delete_topics([topic])

        run(story())

    def grow(self, topic: str, count: int) -> None:
        async def story() -> None:
            async with Admin(self.bootstrap) as admin:
                await admin.create_partitions({topic: count})

        run(story())

    def partitions(self, topic: str, bootstrap: str | None = None) -> dict[int, PartitionMetadata]:
        """The partitions as Metadata has them; none if there is no such topic."""

        async def story() -> dict[int, PartitionMetadata]:
            async with Admin(bootstrap or self.bootstrap) as admin:
                metadata = (await admin.list_topics()).get(topic)
                return {} if metadata is None else metadata.partitions

        return run(story())

    def reassign(
        self, topic: str, targets: Mapping[int, Sequence[int] | None]
    ) -> dict[int, ErrorCode]:
        """Ask for these replicas, or cancel where the target is None."""
        changes = [
            ReassignablePartition(
                partition_index=number, replicas=None if each is None else list(each)
            )
            for number, each in targets.items()
        ]
        request = AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(name=topic, partitions=changes)]
        )
        with Wire(self._alive[0].bootstrap) as wire:
            answer = wire.ask(request, 1, AlterPartitionReassignmentsResponse)
        assert answer.error_code == ErrorCode.NONE, answer
        return {
            each.partition_index: ErrorCode(each.error_code)
            for one in answer.responses
            for each in one.partitions
        }

    def ongoing(self, topic: str) -> dict[int, Ongoing]:
        """The reassignments that are not complete."""
        with Wire(self._alive[0].bootstrap) as wire:
            answer = wire.ask(
                ListPartitionReassignmentsRequest(), 0, ListPartitionReassignmentsResponse
            )
        return {
            each.partition_index: Ongoing(
                tuple(each.adding_replicas), tuple(each.removing_replicas)
            )
            for one in answer.topics
            if one.name == topic
            for each in one.partitions
        }

    def wait_until_complete(self, topic: str) -> None:
        wait_until(
            lambda: not self.ongoing(topic),
            WITHIN_S,
            lambda: f"{self.ongoing(topic)} of {topic} goes on\n{self.cluster.log_tails(30)}",
        )

    def move(self, node_id: int, topic: str, numbers: Sequence[int], path: Path) -> None:
        """Move replicas of one broker to another of its directories."""
        moved = AlterReplicaLogDirTopic(name=topic, partitions=list(numbers))
        request = AlterReplicaLogDirsRequest(
            dirs=[AlterReplicaLogDir(path=str(path), topics=[moved])]
        )
        with Wire(self.cluster.nodes[node_id].bootstrap) as wire:
            answer = wire.ask(request, 2, AlterReplicaLogDirsResponse)
        codes = {each.error_code for one in answer.results for each in one.partitions}
        assert codes == {ErrorCode.NONE}, answer

    def directories(self, node_id: int, topic: str, number: int) -> list[Path]:
        """The directories of a replica on a broker, but for those that are being deleted."""
        name = f"{topic}-{number}"
        directory = self.cluster.nodes[node_id].directory
        return [
            each
            for log_dir in sorted(directory.glob("logs*"))
            for each in log_dir.glob(f"{name}*")
            if each.name == name or each.name.startswith(f"{name}.")
            if not each.name.endswith("-delete")
        ]

    def content(self, node_id: int, topic: str, number: int) -> bytes:
        """All bytes of a replica's segments."""
        (directory,) = self.directories(node_id, topic, number)
        return b"".join(each.read_bytes() for each in sorted(directory.glob("*.log")))

    def wait_until_settled(self, topic: str, assignment: Mapping[int, Sequence[int]]) -> None:
        """Wait until everything is as assigned: in Metadata, in the ISRs, and on the disks."""
        self.wait_until_complete(topic)
        wait_until(
            lambda: not self._wrong(topic, assignment),
            WITHIN_S,
            lambda: f"{self._wrong(topic, assignment)}\n{self.cluster.log_tails(30)}",
        )

    def _wrong(self, topic: str, assignment: Mapping[int, Sequence[int]]) -> list[str]:
        wrong: list[str] = []
        partitions = self.partitions(topic)
        if partitions.keys() != assignment.keys():
            return [f"{topic} has partitions {sorted(partitions)}"]
        for number, replicas in assignment.items():
            metadata = partitions[number]
            if list(metadata.replica_nodes) != list(replicas):
                wrong.append(f"{topic}-{number} has replicas {metadata.replica_nodes}")
            if set(metadata.isr_nodes) != set(replicas) or metadata.leader_id not in replicas:
                wrong.append(f"{topic}-{number} is {metadata}")
            wrong += self._wrong_disks(topic, number, replicas)
        return wrong

    def _wrong_disks(self, topic: str, number: int, replicas: Sequence[int]) -> list[str]:
        wrong: list[str] = []
        for node in self.cluster.brokers:
            count = len(self.directories(node.node_id, topic, number))
            if count != (node.node_id in replicas):
                wrong.append(f"broker {node.node_id} has {count} logs of {topic}-{number}")
        if not wrong:
            sizes = {each: len(self.content(each, topic, number)) for each in replicas}
            if len({self.content(each, topic, number) for each in replicas}) > 1:
                wrong.append(f"the replicas of {topic}-{number} differ: {sizes}")
        return wrong
