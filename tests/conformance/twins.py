"""Two clusters asked the same about groups, and the requests that stories are made of.

Members are called by names here: the ids that each cluster draws are put in when a request leaves
and taken out when its answer comes, so that the two clusters' answers can be compared.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from tierlog.clients.errors import ErrorCode
from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tierlog.clients.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from tierlog.clients.protocol.messages.heartbeat import HeartbeatRequest
from tierlog.clients.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from tierlog.clients.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from tierlog.clients.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tierlog.clients.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from tierlog.clients.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tierlog.clients.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tierlog.clients.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from tierlog.clients.protocol.schema import Message

from ..broker_process import RawClient
from ..waiting import wait_until
from .side_by_side import OUR_OWN, Plain, plain

UNKNOWN_ID = Uuid(b"\x01" * 16)
TOPIC = "known"
SUBSCRIPTION = b"\0\0\0\0\0\1\0\5known\0\0\0\0"


@dataclass
class Side:
    """One of the two clusters: a connection, and who its members are."""

    client: RawClient
    ids: dict[str, str] = field(default_factory=dict[str, str])
    topic_id: Uuid = UNKNOWN_ID

    def id_of(self, name: str) -> str:
        return self.ids.get(name, name)

    def named(self, value: Plain) -> Plain:
        """An answer with names in place of ids."""
        names = {member_id: name for name, member_id in self.ids.items()}
        match value:
            case str():
                return names.get(value, value)
            case list():
                # Kafka lists what it refused before what it accepted; nobody relies on that.
                return sorted((self.named(item) for item in value), key=repr)
            case dict():
                return {key: self.named(item) for key, item in value.items()}
            case _:
                return value


Ask = Callable[[Side], Message]


class Twins:
    """The two clusters side by side."""

    def __init__(self, kafka_port: int, our_port: int) -> None:
        self.kafka = Side(RawClient(kafka_port))
        self.ours = Side(RawClient(our_port))

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.kafka, self.ours

    def close(self) -> None:
        for side in self.sides:
            side.client.socket.close()

    def same(self, ask: Ask, version: int, *, ignoring: frozenset[str] = frozenset()) -> Plain:
        """Ask both; assert that both answer the same, and say what."""
        answers: list[Plain] = []
        for side in self.sides:
            answer = side.client.receive(side.client.send(ask(side), version))
            answers.append(side.named(plain(answer, OUR_OWN | ignoring)))
        expected, found = answers
        assert found == expected
        return expected

    def join(self, name: str, version: int, **changes: object) -> Plain:
        """Join as `name`, who is known from then on by the id that the answer gives."""
        answers: list[Plain] = []
        for side in self.sides:
            request = joining(side, name)
            for field_name, value in changes.items():
                setattr(request, field_name, value)
            answer = side.client.ask(request, version, JoinGroupResponse)
            before = side.ids.get(name, answer.member_id)
            if answer.member_id != before:
                side.ids[f"old {name}"] = before
            if answer.member_id:
                side.ids[name] = answer.member_id
            answers.append(side.named(plain(answer)))
        expected, found = answers
        assert found == expected
        return expected


def joining(side: Side, name: str) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="group",
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        member_id=side.ids.get(name, ""),
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)],
    )


def heartbeat(name: str, generation: int, instance: str | None = None) -> Ask:
    return lambda side: HeartbeatRequest(
        group_id="group",
        generation_id=generation,
        member_id=side.id_of(name),
        group_instance_id=instance,
    )


def syncing(name: str, generation: int, **changes: object) -> Ask:
    def ask(side: Side) -> Message:
        assignment = SyncGroupRequestAssignment(member_id=side.id_of(name), assignment=b"all")
        request = SyncGroupRequest(
            group_id="group",
            generation_id=generation,
            member_id=side.id_of(name),
            protocol_type="consumer",
            protocol_name="range",
            assignments=[assignment],
        )
        for field_name, value in changes.items():
            setattr(request, field_name, value)
        return request

    return ask


def committing(name: str = "", generation: int = -1, **changes: object) -> Ask:
    """Commit offset 42 for two partitions, of which the second does not exist."""

    def ask(side: Side) -> Message:
        topics = [
            OffsetCommitRequestTopic(
                name=TOPIC,
                topic_id=side.topic_id,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=partition,
                        committed_offset=42,
                        committed_leader_epoch=0,
                        committed_metadata="why",
                    )
                    for partition in (0, 9)
                ],
            )
        ]
        request = OffsetCommitRequest(
            group_id="group",
            generation_id_or_member_epoch=generation,
            member_id=side.id_of(name),
            topics=topics,
        )
        for field_name, value in changes.items():
            setattr(request, field_name, value)
        return request

    return ask


def leaving(*members: MemberIdentity) -> Ask:
    return lambda side: LeaveGroupRequest(
        group_id="group",
        members=[
            MemberIdentity(
                member_id=side.id_of(member.member_id), group_instance_id=member.group_instance_id
            )
            for member in members
        ],
    )


def fetching_one(group_id: str = "group", *, every: bool = False) -> Ask:
    topics = [OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0, 1])]
    return lambda side: OffsetFetchRequest(group_id=group_id, topics=None if every else topics)


def fetching_several(*group_ids: str, every: bool = False) -> Ask:
    def ask(side: Side) -> Message:
        topics = [
            OffsetFetchRequestTopics(name=TOPIC, topic_id=side.topic_id, partition_indexes=[0, 1]),
            OffsetFetchRequestTopics(name="gone", topic_id=UNKNOWN_ID, partition_indexes=[0]),
        ]
        groups = [
            OffsetFetchRequestGroup(group_id=group_id, topics=None if every else topics)
            for group_id in group_ids
        ]
        return OffsetFetchRequest(groups=groups, require_stable=True)

    return ask


def coordinator_is_up(client: RawClient) -> bool:
    """Kafka creates the topic behind its answer, and then still has to load it."""
    request = FindCoordinatorRequest(key="group")
    found = client.ask(request, 2, FindCoordinatorResponse)
    if found.error_code:
        return False
    probe = JoinGroupRequest(
        group_id="group", session_timeout_ms=30_000, member_id="x", protocol_type="consumer"
    )
    answer = client.ask(probe, 5, JoinGroupResponse)
    if answer.error_code != ErrorCode.UNKNOWN_MEMBER_ID:
        return False
    # Kafka's first block of producer ids comes behind the first answer, too.
    producer = InitProducerIdRequest(transactional_id=None)
    return client.ask(producer, 4, InitProducerIdResponse).error_code == ErrorCode.NONE


def topic_ids(twins: Twins) -> None:
    """Let each side know its own id of the topic."""
    for side in twins.sides:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])
        side.topic_id = side.client.ask(request, 12, MetadataResponse).topics[0].topic_id


def create_topic(client: RawClient) -> None:
    """Make the topic that the stories are about."""
    topic = CreatableTopic(name=TOPIC, num_partitions=2, replication_factor=1)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
    client.receive(client.send(request, 7))


def prepare(port: int) -> None:
    """Make the topic, and wait until groups are coordinated."""
    with RawClient(port) as client:
        create_topic(client)
        wait_until(partial(coordinator_is_up, client), 60, "no coordinator")
