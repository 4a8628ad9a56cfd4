"""Shared by tests: a controller's image that is changed step by step, with its rules checked.

The rules are those that hold at every record: the leader is in the ISR and active, the ISR is among
the replicas, ELR and ISR have nothing in common, epochs rise as they should, a reassignment ends or
stays, and only an unclean election takes a leader that may have lost records.
"""

from collections.abc import Sequence

from tierlog.clients.errors import ErrorCode
from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from tierlog.clients.protocol.schema import Message
from tierlog.replication.control.brokers.broker_control import (
    controlled_shutdown,
    unregister_broker,
)
from tierlog.replication.control.brokers.directory_control import directories_failed
from tierlog.replication.control.leadership.alter_partition import IsrRequest, alter_partitions
from tierlog.replication.control.leadership.leader_and_isr import (
    ELR_FEATURE,
    LostBroker,
    elect_missing,
    elect_preferred,
    with_broker,
    without_broker,
)
from tierlog.replication.control.leadership.partition_change import RECOVERING
from tierlog.replication.control.leadership.reassignment import alter_reassignments
from tierlog.replication.control.leadership.requested_elections import elect_leaders
from tierlog.replication.control.partition_control import is_online, new_partition
from tierlog.replication.metadata.cluster_image import ClusterDelta, ClusterImage, PartitionImage
from tierlog.replication.metadata.metadata_records import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from tierlog.replication.metadata.replica_epoch import ReplicaEpoch
from tierlog.tests import wire

TOPIC_ID = Uuid(b"t" * 16)
BROKERS = (1, 2, 3, 4)
_FENCE, _UNFENCE = 1, -1


def directories_of(broker_id: int) -> list[Uuid]:
    """The two log directories of a broker."""
    return [Uuid(bytes([broker_id, each]) * 8) for each in (1, 2)]


class PartitionWorld:
    """Four brokers, and the topic `orders` with two partitions of three replicas."""

    def __init__(self, *, has_elr: bool) -> None:
        self.has_elr = has_elr
        self.image = ClusterImage("cluster")
        # Whether the step may elect a leader that has lost records.
        self._may_lose = False
        # The replicas that the leader says are in sync.
        self._asked: Sequence[int] = ()
        if has_elr:
            self._replay([FeatureLevelRecord(name=ELR_FEATURE, feature_level=1)])
        for broker_id in BROKERS:
            self.register(broker_id, is_clean=True)
            self.unfence(broker_id)
        self._replay([TopicRecord(name="orders", topic_id=TOPIC_ID)])
        for number, replicas in enumerate([(1, 2, 3), (2, 3, 4)]):
            record = new_partition(self.image, TOPIC_ID, number, replicas)
            record.directories = [directories_of(replica)[number] for replica in replicas]
            self._replay([record])

    def partition(self, number: int) -> PartitionImage:
        found = self.image.partition("orders", number)
        assert found is not None
        return found

    def is_registered(self, broker_id: int) -> bool:
        return broker_id in self.image.brokers

    def fence(self, broker_id: int) -> None:
        self._replay([*without_broker(self.image, LostBroker(broker_id)), self._flag(broker_id)])

    def unfence(self, broker_id: int) -> None:
        change = self._flag(broker_id)
        change.fenced = _UNFENCE
        self._replay([change, *with_broker(self.image, broker_id)])

    def _flag(self, broker_id: int) -> BrokerRegistrationChangeRecord:
        epoch = self.image.brokers[broker_id].epoch
        return BrokerRegistrationChangeRecord(
            broker_id=broker_id, broker_epoch=epoch, fenced=_FENCE
        )

    def register(self, broker_id: int, *, is_clean: bool) -> None:
        """A new life of a broker begins; it is fenced."""
        lost = LostBroker(broker_id, is_unclean=not is_clean)
        moves = without_broker(self.image, lost)
        registered = RegisterBrokerRecord(
            broker_id=broker_id,
            broker_epoch=self.image.offset + 1,
            fenced=True,
            log_dirs=directories_of(broker_id),
        )
        self._replay([*moves, registered])
        if self.has_elr and not is_clean:
            for partition in self._partitions():
                assert broker_id not in (*partition.isr, *partition.elr)

    def shut_down(self, broker_id: int) -> None:
        self._replay(controlled_shutdown(self.image, broker_id))

    def unregister(self, broker_id: int) -> None:
        self._replay(unregister_broker(self.image, 0, broker_id).records)

    def lose_directory(self, broker_id: int, index: int) -> None:
        """A directory fails. A broker whose last one fails stops, and says nothing of it."""
        failed = [directories_of(broker_id)[index]]
        if set(self.image.brokers[broker_id].directories) <= set(failed):
            return
        self._replay(directories_failed(self.image, broker_id, failed).records)

    def alter_isr(self, number: int, isr: Sequence[int], *, is_late: bool = False) -> ErrorCode:
        """The leader asks for an ISR, of the epochs that it should know or of earlier ones."""
        partition = self.partition(number)
        if partition.leader < 0:
            return ErrorCode.NOT_CONTROLLER
        members = [ReplicaEpoch(each, self._epoch(each)) for each in isr]
        wanted = IsrRequest(
            TOPIC_ID, number, partition.leader_epoch, partition.partition_epoch - is_late, members
        )
        sender = ReplicaEpoch(partition.leader, self._epoch(partition.leader))
        decision = alter_partitions(self.image, sender, [wanted])
        (result,) = decision.answer
        assert not (is_late and decision.records)
        self._asked = isr
        self._replay(decision.records)
        self._asked = ()
        if result.state is not None:
            assert result.state == self.partition(number)
        return result.error

    def _epoch(self, broker_id: int) -> int:
        broker = self.image.brokers.get(broker_id)
        return -1 if broker is None else broker.epoch

    def elect(self, number: int, kind: int) -> None:
        self._may_lose = kind == 1
        asked = [TopicPartitions(topic="orders", partitions=[number])]
        request = ElectLeadersRequest(election_type=kind, topic_partitions=asked)
        self._replay(elect_leaders(self.image, request).records)
        self._may_lose = False

    def look(self) -> None:
        """The periodic elections of the controller."""
        self._replay(elect_preferred(self.image, 1_000))
        self._replay(elect_missing(self.image, 1_000))

    def reassign(self, number: int, replicas: Sequence[int] | None) -> ErrorCode:
        """Move a partition, or call off its move."""
        asked = wire.ReassignablePartition(
            partition_index=number, replicas=None if replicas is None else list(replicas)
        )
        topics = [wire.ReassignableTopic(name="orders", partitions=[asked])]
        request = wire.AlterPartitionReassignmentsRequest(topics=topics)
        decision = alter_reassignments(self.image, request)
        self._replay(decision.records)
        (result,) = decision.answer.responses[0].partitions
        return ErrorCode(result.error_code)

    def configure(self, name: str, value: str) -> None:
        record = ConfigRecord(resource_type=2, resource_name="orders", name=name, value=value)
        self._replay([record])

    def _partitions(self) -> list[PartitionImage]:
        topic = self.image.topics_by_name.get("orders")
        return [] if topic is None else list(topic.partitions.values())

    def _replay(self, records: Sequence[Message]) -> None:
        """Apply the records one by one, and check the rules at each."""
        for record in records:
            before = self.image
            delta = ClusterDelta(before)
            delta.replay(record)
            self.image = delta.apply(before.offset + 1, 1)
            if isinstance(record, PartitionChangeRecord):
                old = before.partition("orders", record.partition_id)
                assert old is not None
                self._check_change(old, self.partition(record.partition_id))
        for partition in self._partitions():
            self._check_leadership(partition)

    def _check_change(self, before: PartitionImage, after: PartitionImage) -> None:
        members, eligible = set(after.isr), set(after.elr)
        assert after != before
        assert after.partition_epoch == before.partition_epoch + 1
        assert len(members) == len(after.isr)
        assert members <= set(after.replicas)
        assert members or self.has_elr
        assert not eligible & members
        assert eligible <= set(after.replicas)
        min_isr = int(self.image.topic_config("orders").get("min.insync.replicas", "1"))
        if len(members) >= min(min_isr, len(after.replicas)):
            assert not eligible
        if after.leader != before.leader:
            assert after.leader_epoch == before.leader_epoch + 1
        if after.leader >= 0:
            assert after.leader in members
            assert self.image.brokers[after.leader].is_active
        if set(before.replicas) - set(after.replicas):
            assert after.leader_epoch == before.leader_epoch + 1
        assert set(after.adding_replicas) <= set(after.replicas)
        assert set(after.removing_replicas) < set(after.replicas)
        assert not set(after.adding_replicas) & set(after.removing_replicas)
        assert len(after.directories) == len(after.replicas) == len(set(after.replicas))
        self._check_losses(before, after)

    def _check_losses(self, before: PartitionImage, after: PartitionImage) -> None:
        if after.leader < 0 or after.leader in (*before.isr, *before.elr, *self._asked):
            return
        assert after.leader_recovery_state == RECOVERING
        assert after.isr == (after.leader,)
        value = self.image.topic_config("orders").get("unclean.leader.election.enable")
        was_last_known = self.has_elr and before.last_known_elr == (after.leader,)
        assert self._may_lose or value == "true" or was_last_known

    def _check_leadership(self, partition: PartitionImage) -> None:
        """Nobody leads who cannot, and somebody leads if one can without loss."""
        able = [each for each in partition.replicas if self._may_lead(partition, each)]
        assert partition.leader in (*able, -1)
        if partition.leader < 0:
            assert not set(partition.isr or partition.elr) & set(able)

    def _may_lead(self, partition: PartitionImage, broker_id: int) -> bool:
        broker = self.image.brokers.get(broker_id)
        return (
            broker is not None
            and broker.is_active
            and is_online(partition.directory(broker_id), broker.directories)
        )
