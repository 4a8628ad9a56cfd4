"""Who leads the partitions of a cluster and who is in sync, as its brokers say.

And what is on their disks: the replicas' bytes and their checkpoints of leader epochs.
"""

from collections.abc import Mapping, Sequence
from functools import partial

from tierlog.bench.harness.processes.cluster import Cluster, ClusterNode
from tierlog.bench.harness.requests.wire import Wire, WireError
from tierlog.clients.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from tierlog.clients.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
)
from tierlog.clients.record.batch import batches

from ..waiting import wait_until

_METADATA_VERSION = 9
_ASK_S = 10.0
_PATIENCE_S = 240.0
_PREFERRED = 0
_ELECT_VERSION = 2
_ALREADY = 84
"""ELECTION_NOT_NEEDED"""


class ReplicaStates:
    """What the brokers of a cluster say of its partitions."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def running(self) -> list[ClusterNode]:
        return [node for node in self._cluster.brokers if node.is_alive()]

    def said_by(self, node: ClusterNode, topic: str) -> list[MetadataResponsePartition]:
        """The partitions of a topic as one broker describes them; none if it does not answer."""
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
        )
        try:
            with Wire(node.bootstrap, _ASK_S) as wire:
                (answer,) = wire.ask(request, _METADATA_VERSION, MetadataResponse).topics
        except WireError:
            return []
        return sorted(answer.partitions, key=lambda each: each.partition_index)

    def leaders(self, topic: str) -> list[int]:
        """The leaders in the order of the partitions, once all brokers that run agree."""
        agreed: list[int] = []

        def is_agreed() -> bool:
            said = [
                [each.leader_id for each in self.said_by(node, topic)] for node in self.running()
            ]
            agreed[:] = said[0]
            return bool(agreed) and all(each == agreed for each in said) and -1 not in agreed

        wait_until(is_agreed, _PATIENCE_S, lambda: self._described(topic))
        return agreed

    def wait_until_in_sync(self, *topics: str) -> None:
        """Wait until, in the eyes of all brokers that run, all replicas are in sync and led."""

        def are_in_sync(node: ClusterNode, topic: str) -> bool:
            partitions = self.said_by(node, topic)
            return bool(partitions) and all(
                each.leader_id >= 0 and set(each.isr_nodes) == set(each.replica_nodes)
                for each in partitions
            )

        def all_are(topic: str) -> bool:
            return all(are_in_sync(node, topic) for node in self.running())

        for topic in topics:
            wait_until(partial(all_are, topic), _PATIENCE_S, partial(self._described, topic))

    def wait_until_led_by_others(self, topic: str, node_id: int) -> None:
        """Wait until no broker that runs says that this one leads, or that nobody does."""
        wait_until(
            lambda: node_id not in self.leaders(topic),
            _PATIENCE_S,
            lambda: self._described(topic),
        )

    def elect_preferred(self, topic: str, at: ClusterNode) -> None:
        """Ask a broker for the elections of all preferred leaders, and wait for them."""
        count = len(self.said_by(at, topic))
        partitions = [TopicPartitions(topic=topic, partitions=list(range(count)))]
        request = ElectLeadersRequest(election_type=_PREFERRED, topic_partitions=partitions)
        with Wire(at.bootstrap) as wire:
            answer = wire.ask(request, _ELECT_VERSION, ElectLeadersResponse)
        assert answer.error_code == 0
        for result in answer.replica_election_results[0].partition_result:
            assert result.error_code in (0, _ALREADY), result
        preferred = [each.replica_nodes[0] for each in self.said_by(at, topic)]
        wait_until(
            lambda: self.leaders(topic) == preferred, _PATIENCE_S, lambda: self._described(topic)
        )

    def _described(self, topic: str) -> str:
        said = {node.node_id: self.said_by(node, topic) for node in self.running()}
        return f"{topic}: {said}\n{self._cluster.log_tails()}"


def replica_bytes(node: ClusterNode, partition: str) -> bytes:
    """The replica's segments, one after the other."""
    files = sorted((node.log_directory / partition).glob("*.log"))
    return b"".join(file.read_bytes() for file in files)


def end_on_disk(node: ClusterNode, partition: str) -> int:
    """The offset after the last whole batch."""
    return max((each.next_offset for each in batches(replica_bytes(node, partition))), default=0)


def epochs_on_disk(node: ClusterNode, partition: str) -> str:
    return (node.log_directory / partition / "leader-epoch-checkpoint").read_text()


def differences(nodes: Sequence[ClusterNode], partitions: Sequence[str]) -> Mapping[str, str]:
    """Which replicas differ from the first node's, and in what; nothing if all are the same."""
    found: dict[str, str] = {}
    for partition in partitions:
        first = replica_bytes(nodes[0], partition)
        for node in nodes[1:]:
            if (other := replica_bytes(node, partition)) != first:
                found[f"{partition} at {node.node_id}"] = _first_difference(first, other)
        epochs = {node.node_id: epochs_on_disk(node, partition) for node in nodes}
        if len(set(epochs.values())) > 1:
            found[f"leader epochs of {partition}"] = str(epochs)
    return found


def _first_difference(first: bytes, other: bytes) -> str:
    for one, two in zip(batches(first), batches(other), strict=False):
        if bytes(one.view) != bytes(two.view):
            return f"{one!r} is {two!r}, from offset {one.base_offset}"
    return f"{len(first)} bytes are {len(other)}"
