"""Shared by tests: runs of metadata records of every kind that changes an image, none refused."""

from collections.abc import Callable, Iterator, Sequence

from hypothesis import strategies as st

from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.protocol.schema import Message
from tierlog.replication.metadata.cluster_image import ClusterDelta, ClusterImage
from tierlog.replication.metadata.metadata_records import (
    AccessControlEntryRecord,
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    ControllerEndpoint,
    ControllerFeature,
    FeatureLevelRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    QuotaEntityData,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
)

Step = tuple[int, int, int]
"""A kind of step, what it is about, and a value: each any number."""

PLANS = st.lists(
    st.tuples(st.integers(0, 100), st.integers(0, 2), st.integers(0, 5)), min_size=0, max_size=40
)


class RecordWalk:
    """Turns steps into records that follow from the records before them."""

    def __init__(self, branch: int = 0) -> None:
        """Topics of different branches have different ids."""
        self._branch = branch
        self._topics: dict[int, tuple[Uuid, int]] = {}
        self._brokers: set[int] = set()
        self._acls: set[int] = set()
        self._scram: set[int] = set()
        self._made = 0
        self._next_producer_id = 0
        self._steps: list[Callable[[int, int], Iterator[Message]]] = [
            self._topic,
            self._topic,
            self._partition,
            self._change,
            self._change,
            self._remove,
            self._config,
            self._broker,
            self._broker_change,
            self._controller,
            self._feature,
            self._quota,
            self._producer_ids,
            self._clear_elr,
            self._acl,
            self._scram_credential,
        ]

    def records(self, plan: Sequence[Step]) -> list[Message]:
        records: list[Message] = []
        for kind, about, value in plan:
            records += self._steps[kind % len(self._steps)](about, value)
        return records

    def _topic(self, about: int, value: int) -> Iterator[Message]:
        if about in self._topics:
            yield from self._change(about, value)
            return
        self._made += 1
        topic_id = Uuid(bytes([self._branch]) + self._made.to_bytes(15, "big"))
        self._topics[about] = (topic_id, 0)
        yield TopicRecord(name=f"t{about}", topic_id=topic_id)
        yield from self._partition(about, value)

    def _partition(self, about: int, value: int) -> Iterator[Message]:
        if about not in self._topics:
            return
        topic_id, count = self._topics[about]
        self._topics[about] = (topic_id, count + 1)
        yield PartitionRecord(
            partition_id=count,
            topic_id=topic_id,
            replicas=[1, 2, value + 3],
            isr=[1, 2],
            removing_replicas=[2] * (value == 1),
            adding_replicas=[1] * (value == 2),
            leader=1,
            leader_recovery_state=value % 2,
            leader_epoch=value,
            partition_epoch=value + 1,
            directories=[Uuid(bytes([value] * 16))] * 3,
            eligible_leader_replicas=[value + 3] if value > 2 else None,
            last_known_elr=[] if value == 4 else None,
        )

    def _change(self, about: int, value: int) -> Iterator[Message]:
        if about not in self._topics:
            return
        topic_id, count = self._topics[about]
        change = PartitionChangeRecord(partition_id=value % count, topic_id=topic_id)
        if value % 2:
            change.leader = value
        if value % 3 == 0:
            change.isr = [1]
            change.eligible_leader_replicas = [2]
            change.last_known_elr = [3]
        yield change

    def _remove(self, about: int, _value: int) -> Iterator[Message]:
        if about in self._topics:
            topic_id, _ = self._topics.pop(about)
            yield RemoveTopicRecord(topic_id=topic_id)

    def _config(self, about: int, value: int) -> Iterator[Message]:
        is_topic = about in self._topics
        yield ConfigRecord(
            resource_type=2 if is_topic else 4,
            resource_name=f"t{about}" if is_topic else "",
            name=f"c{about}",
            value=str(value) if value else None,
        )

    def _broker(self, about: int, value: int) -> Iterator[Message]:
        if about in self._brokers and value == 0:
            self._brokers.remove(about)
            yield UnregisterBrokerRecord(broker_id=about)
            return
        self._brokers.add(about)
        yield RegisterBrokerRecord(
            broker_id=about,
            incarnation_id=Uuid(bytes([value]) * 16),
            broker_epoch=value,
            end_points=[BrokerEndpoint(name=f"L{each}", host="h", port=each) for each in (2, 1)],
            features=[BrokerFeature(name="f", max_supported_version=value)],
            rack="r" if value % 2 else None,
            fenced=value > 2,
            log_dirs=[Uuid(bytes([about]) * 16)],
            cordoned_log_dirs=[] if value == 3 else None,
        )

    def _broker_change(self, about: int, value: int) -> Iterator[Message]:
        if about in self._brokers:
            yield BrokerRegistrationChangeRecord(
                broker_id=about,
                fenced=value % 3 - 1,
                in_controlled_shutdown=value % 2,
                log_dirs=[Uuid(bytes([value]) * 16)] * (value == 4),
                cordoned_log_dirs=[Uuid(bytes([about]) * 16)] if value == 5 else None,
            )

    def _controller(self, about: int, value: int) -> Iterator[Message]:
        yield RegisterControllerRecord(
            controller_id=about,
            incarnation_id=Uuid(bytes([value]) * 16),
            end_points=[ControllerEndpoint(name="C", host="h", port=value)],
            features=[ControllerFeature(name="f", max_supported_version=value)],
        )

    def _feature(self, about: int, value: int) -> Iterator[Message]:
        name = ("metadata.version", "group.version", "a.version")[about]
        yield FeatureLevelRecord(name=name, feature_level=value)

    def _acl(self, about: int, value: int) -> Iterator[Message]:
        entry_id = Uuid(bytes([9, self._branch]) + about.to_bytes(14, "big"))
        if value == 0 and about in self._acls:
            self._acls.remove(about)
            yield RemoveAccessControlEntryRecord(id=entry_id)
            return
        self._acls.add(about)
        yield AccessControlEntryRecord(
            id=entry_id,
            resource_type=2 + value % 4,
            resource_name="t",
            pattern_type=3 + value % 2,
            principal="User:u",
            host="*",
            operation=2 + value,
            permission_type=2 + value % 2,
        )

    def _scram_credential(self, about: int, value: int) -> Iterator[Message]:
        user, mechanism = f"u{about}", 1 + about % 2
        if value == 0 and about in self._scram:
            self._scram.remove(about)
            yield RemoveUserScramCredentialRecord(name=user, mechanism=mechanism)
            return
        self._scram.add(about)
        key = bytes([self._branch, value])
        yield UserScramCredentialRecord(
            name=user,
            mechanism=mechanism,
            salt=b"salt" + key,
            stored_key=b"stored" + key,
            server_key=b"server" + key,
            iterations=4096 + value,
        )

    def _quota(self, about: int, value: int) -> Iterator[Message]:
        entity = [QuotaEntityData(entity_type="user", entity_name="u" if about else None)]
        if about == 2:
            entity.append(QuotaEntityData(entity_type="client-id", entity_name="c"))
        yield ClientQuotaRecord(
            entity=entity, key=f"k{value % 2}", value=value / 2, remove=value == 0
        )

    def _producer_ids(self, about: int, value: int) -> Iterator[Message]:
        self._next_producer_id += value
        yield ProducerIdsRecord(broker_id=about, next_producer_id=self._next_producer_id)

    def _clear_elr(self, about: int, value: int) -> Iterator[Message]:
        if about in self._topics:
            yield ClearElrRecord(topic_name=f"t{about}" if value else "")
        yield NoOpRecord()


def folded(records: Sequence[Message], base: ClusterImage | None = None) -> ClusterImage:
    """The image of the records, after those of `base`."""
    delta = ClusterDelta(ClusterImage("cluster") if base is None else base)
    delta.replay_all(records)
    return delta.apply(delta.base.offset + len(records), 1)
