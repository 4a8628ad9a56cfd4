"""What must hold in the cluster's state after every committed record.

A leader is in the ISR, and its broker is active, at the record that elects it. An ISR is of
replicas, and who joins it is active. Nobody is in ISR and ELR, and with enough in the ISR the ELR
is empty. Epochs of leaders, partitions and brokers grow, that of a leader exactly if the record
names one. No partition is led by a fenced broker. A broker that stopped uncleanly is in no ISR or
ELR when it is registered again. Blocks of producer ids are disjoint. The image is the same on all
nodes: `quorum_invariants.py` compares it at every offset.

A client's change that was acknowledged is there, once; one that was refused is not.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.protocol.schema import Message
from tierlog.replication.control.leadership.leader_and_isr import ELR_FEATURE
from tierlog.replication.metadata.cluster_image import (
    BrokerImage,
    ClusterDelta,
    ClusterImage,
    PartitionImage,
)
from tierlog.replication.metadata.metadata_records import (
    NO_LEADER,
    NO_LEADER_CHANGE,
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)

from .controller_node import EMPTY
from .controller_records import decode_change
from .quorum_log import Batch


class ControllerRules:
    """See the module. It replays what is committed for itself, record by record."""

    def __init__(self, counts: Counter[str]) -> None:
        self.image = EMPTY
        """What is committed anywhere."""
        self.created: dict[Uuid, str] = {}
        """All topics that were ever created."""
        self.clean_epochs: dict[int, int] = {}
        """The last epoch in which a broker stopped cleanly, as it really was."""
        self.offsets: dict[int, tuple[int, int]] = {}
        """The epoch of a broker's living process, and the offset that it has replayed."""
        self.shutdown_offsets: dict[int, int] = {}
        """The last offset of the records that began a broker's controlled shutdown."""
        self._counts = counts
        self._epochs: dict[int, int] = {}
        self._last = -1

    def on_committed(self, batch: Batch) -> None:
        """Check the records of a batch, each in the state before it."""
        if batch.is_control:
            return
        delta = ClusterDelta(self.image)
        self._last = batch.next_offset - 1
        records = decode_change(batch.payload)
        for record in records:
            self._before(delta, record, batch)
            before = _partition_of(delta, record)
            delta.replay(record)
            self._after(delta, record, before)
        self.image = delta.apply(batch.next_offset - 1, batch.partition_leader_epoch)
        if any(isinstance(record, BrokerRegistrationChangeRecord) for record in records):
            self._check_leaders()

    def _before(self, delta: ClusterDelta, record: Message, batch: Batch) -> None:
        match record:
            case TopicRecord():
                names = {self.created[each] for each in _topics(delta)}
                assert record.name not in names, f"topic {record.name} is created twice"
                assert record.topic_id not in self.created, "a topic id is used twice"
                self.created[record.topic_id] = record.name
            case ProducerIdsRecord():
                before = delta.next_producer_id
                assert record.next_producer_id > before, "a block of producer ids is given twice"
            case RegisterBrokerRecord():
                self._check_registration(delta, record, batch)
            case BrokerRegistrationChangeRecord():
                self._check_broker_change(delta, record)
            case UnregisterBrokerRecord():
                for partition in _partitions(delta):
                    assert not self._is_in_sync(delta, partition, record.broker_id), (
                        f"broker {record.broker_id} is unregistered and in an ISR"
                    )
            case _:
                pass

    def _check_registration(
        self, delta: ClusterDelta, record: RegisterBrokerRecord, batch: Batch
    ) -> None:
        broker_id = record.broker_id
        before = self._epochs.get(broker_id, -1)
        registered = _brokers(delta).get(broker_id)
        if registered is not None and registered.incarnation_id == record.incarnation_id:
            assert record.broker_epoch == before, "an incarnation that gets another epoch"
            return
        assert record.broker_epoch > before, f"broker epoch {record.broker_epoch} after {before}"
        assert record.broker_epoch == batch.base_offset, "a broker epoch that is not an offset"
        assert record.fenced, "a broker is registered unfenced"
        self._epochs[broker_id] = record.broker_epoch
        was_clean = before >= 0 and self.clean_epochs.get(broker_id) == before
        for partition in _partitions(delta):
            assert broker_id != partition.leader, f"broker {broker_id} leads at its registration"
            assert not self._is_in_sync(delta, partition, broker_id), (
                f"broker {broker_id} is registered anew and is in an ISR"
            )
            assert was_clean or broker_id not in partition.elr, (
                f"broker {broker_id} stopped uncleanly and is an eligible leader"
            )

    @staticmethod
    def _is_in_sync(delta: ClusterDelta, partition: PartitionImage, broker_id: int) -> bool:
        """Whether a broker is in an ISR; without ELR the last member stays, whatever happens."""
        if not _has_elr(delta) and partition.isr == (broker_id,):
            return partition.leader == broker_id
        return broker_id in partition.isr

    def _check_broker_change(
        self, delta: ClusterDelta, record: BrokerRegistrationChangeRecord
    ) -> None:
        broker_id = record.broker_id
        assert record.broker_epoch == self._epochs.get(broker_id), "a change of another epoch"
        if record.in_controlled_shutdown > 0:
            self.shutdown_offsets[broker_id] = self._last
        if record.fenced > 0:
            for partition in _partitions(delta):
                assert partition.leader != broker_id, f"broker {broker_id} is fenced and leads"
        if record.fenced < 0:
            epoch, at = self.offsets.get(broker_id, (-1, -1))
            assert epoch != record.broker_epoch or at >= epoch, (
                f"broker {broker_id} is unfenced at offset {at}, before {record.broker_epoch}"
            )

    def _after(self, delta: ClusterDelta, record: Message, before: PartitionImage | None) -> None:
        if not isinstance(record, PartitionRecord | PartitionChangeRecord):
            return
        after = _partition_of(delta, record)
        assert after is not None
        where = f"partition {record.partition_id} of {self.created[record.topic_id]}"
        brokers = _brokers(delta)
        assert set(after.isr) <= set(after.replicas), f"{where}: ISR {after.isr}"
        assert not set(after.isr) & set(after.elr), f"{where}: ISR and ELR {after.elr}"
        assert after.isr or _has_elr(delta), f"{where}: nobody is in the ISR"
        assert len(after.isr) < _min_isr(delta, record, after) or not after.elr, (
            f"{where}: ELR {after.elr} beside ISR {after.isr}"
        )
        assert after.leader in (NO_LEADER, *after.isr), f"{where}: {after.leader} is not in sync"
        for member in set(after.isr) - set(() if before is None else before.isr):
            assert _is_active(brokers, member), f"{where}: {member} joins the ISR, inactive"
        if isinstance(record, PartitionRecord) or before is None:
            elected = True
        else:
            elected = record.leader != NO_LEADER_CHANGE
            self._check_epochs(where, before, after, elected)
            self._check_unclean(where, delta, before, after, record)
            self._count(before, after)
        if elected and after.leader != NO_LEADER:
            assert _is_active(brokers, after.leader), f"{where}: {after.leader} is not active"

    @staticmethod
    def _check_epochs(
        where: str, before: PartitionImage, after: PartitionImage, elected: bool
    ) -> None:
        leader_epoch = before.leader_epoch + elected
        assert after.leader_epoch == leader_epoch, f"{where}: leader epoch {after.leader_epoch}"
        assert after.leader == before.leader or elected, f"{where}: another leader"
        partition_epoch = before.partition_epoch + 1
        assert after.partition_epoch == partition_epoch, f"{where}: {after.partition_epoch}"

    @staticmethod
    def _check_unclean(
        where: str,
        delta: ClusterDelta,
        before: PartitionImage,
        after: PartitionImage,
        record: PartitionChangeRecord,
    ) -> None:
        if after.leader in (before.leader, NO_LEADER):
            return
        topic = delta.base.topics_by_id.get(record.topic_id)
        name = "unclean.leader.election.enable"
        value = None if topic is None else delta.base.topic_config(topic.name).get(name)
        may_lose = value == "true"
        assert may_lose or after.leader in (*before.isr, *before.elr, *before.last_known_elr), (
            f"{where}: {after.leader} leads uncleanly after ISR {before.isr}"
        )

    def _count(self, before: PartitionImage, after: PartitionImage) -> None:
        if after.leader in before.elr:
            self._counts["leader from the ELR"] += 1
        if after.leader_recovery_state > before.leader_recovery_state:
            self._counts["unclean leader"] += 1
        if after.leader == NO_LEADER != before.leader:
            self._counts["partition without leader"] += 1

    def _check_leaders(self) -> None:
        for topic in self.image.topics_by_id.values():
            for number, partition in topic.partitions.items():
                leader = partition.leader
                assert leader == NO_LEADER or _is_active(self.image.brokers, leader), (
                    f"partition {number} of {topic.name} is led by inactive broker {leader}"
                )


def _is_active(brokers: Mapping[int, BrokerImage], broker_id: int) -> bool:
    broker = brokers.get(broker_id)
    return broker is not None and broker.is_active


def _has_elr(delta: ClusterDelta) -> bool:
    return delta.base.features.get(ELR_FEATURE, 0) > 0


def _brokers(delta: ClusterDelta) -> dict[int, BrokerImage]:
    brokers = {**delta.base.brokers, **delta.changed_brokers}
    return {broker_id: broker for broker_id, broker in brokers.items() if broker is not None}


def _topics(delta: ClusterDelta) -> Sequence[Uuid]:
    topics = {**dict.fromkeys(delta.base.topics_by_id), **dict.fromkeys(delta.changed_topics)}
    return [topic_id for topic_id in topics if topic_id not in delta.deleted_topics]


def _partitions(delta: ClusterDelta) -> Iterator[PartitionImage]:
    """All partitions as they are after the records so far."""
    for topic_id in _topics(delta):
        base, changed = delta.base.topics_by_id.get(topic_id), delta.changed_topics.get(topic_id)
        partitions = {} if base is None else dict(base.partitions)
        if changed is not None:
            partitions.update(changed.changed_partitions)
        yield from partitions.values()


def _partition_of(delta: ClusterDelta, record: Message) -> PartitionImage | None:
    if not isinstance(record, PartitionRecord | PartitionChangeRecord):
        return None
    changed = delta.changed_topics.get(record.topic_id)
    if changed is not None and record.partition_id in changed.changed_partitions:
        return changed.changed_partitions[record.partition_id]
    topic = delta.base.topics_by_id.get(record.topic_id)
    return None if topic is None else topic.partitions.get(record.partition_id)


def _min_isr(
    delta: ClusterDelta, record: PartitionRecord | PartitionChangeRecord, after: PartitionImage
) -> int:
    topic = delta.base.topics_by_id.get(record.topic_id)
    value = (
        "1"
        if topic is None
        else delta.base.topic_config(topic.name).get("min.insync.replicas", "1")
    )
    return min(int(value), len(after.replicas))


def active_members(image: ClusterImage, partition: PartitionImage) -> list[int]:
    """Who of an ISR could lead."""
    return [each for each in partition.isr if _is_active(image.brokers, each)]
