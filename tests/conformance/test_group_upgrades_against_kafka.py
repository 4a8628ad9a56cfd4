"""Groups change their protocol while members stay, as they do in Kafka: answers and records.

Classic members (JoinGroup, SyncGroup, Heartbeat, LeaveGroup) and members of the consumer protocol
meet in one group, in either order.
"""

import re
import struct
from collections.abc import Iterator, Sequence

import pytest

from tierlog.bench.kafka_peer import KafkaNode
from tierlog.clients.errors import ErrorCode
from tierlog.clients.protocol.messages.heartbeat import HeartbeatRequest
from tierlog.clients.protocol.messages.join_group import JoinGroupRequestProtocol
from tierlog.clients.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tierlog.clients.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)

from ..broker_process import BrokerProcess
from .dumped_groups import comparable, dumped
from .side_by_side import Plain
from .test_consumer_groups_against_kafka import Story, assigned
from .twins import TOPIC, Ask, Side, Twins, committing, prepare, topic_ids

pytestmark = pytest.mark.requires("java", "mvn")

SETTINGS = {
    "node.id": "1",
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
}


def topic_partitions(numbers: Sequence[int]) -> bytes:
    name = TOPIC.encode()
    listed = struct.pack(">i", len(numbers)) + b"".join(struct.pack(">i", n) for n in numbers)
    return struct.pack(">ih", 1, len(name)) + name + listed


def subscription(owned: Sequence[int] = ()) -> bytes:
    """A consumer's wish for the topic, version 1: with what it has (KIP-429)."""
    name = TOPIC.encode()
    wanted = struct.pack(">hih", 1, 1, len(name)) + name + struct.pack(">i", -1)
    return wanted + (topic_partitions(owned) if owned else struct.pack(">i", 0))


def assignment(numbers: Sequence[int]) -> bytes:
    return struct.pack(">h", 1) + topic_partitions(numbers) + struct.pack(">i", -1)


class Classic:
    """A member of the classic protocol, with the generation that it was told last."""

    def __init__(self, twins: Twins, group: str, name: str, instance: str | None = None) -> None:
        self.twins = twins
        self.group = group
        self.name = name
        self.instance = instance
        self.generation = -1

    def join(self, owned: Sequence[int] = (), **changes: object) -> Plain:
        stated: dict[str, object] = {
            "group_id": self.group,
            "group_instance_id": self.instance,
            "protocols": [JoinGroupRequestProtocol(name="range", metadata=subscription(owned))],
        }
        answer = self.twins.join(self.name, 5, **{**stated, **changes})
        assert isinstance(answer, dict)
        told = answer["generation_id"]
        if not answer["error_code"] and isinstance(told, int):
            self.generation = told
        return answer["error_code"]

    def sync(self, given: Sequence[int] | None = None, generation: int | None = None) -> Plain:
        """What it is told; `given` is what it assigns to itself if it leads."""
        number = self.generation if generation is None else generation

        def ask(side: Side) -> SyncGroupRequest:
            member_id = side.id_of(self.name)
            assigned = [] if given is None else [assignment(given)]
            return SyncGroupRequest(
                group_id=self.group,
                generation_id=number,
                member_id=member_id,
                group_instance_id=self.instance,
                assignments=[
                    SyncGroupRequestAssignment(member_id=member_id, assignment=each)
                    for each in assigned
                ],
            )

        return self.twins.same(ask, 3)

    def heartbeat(self, generation: int | None = None, name: str | None = None) -> Plain:
        number = self.generation if generation is None else generation
        answer = self.twins.same(
            lambda side: HeartbeatRequest(
                group_id=self.group,
                generation_id=number,
                member_id=side.id_of(name or self.name),
                group_instance_id=self.instance,
            ),
            3,
        )
        assert isinstance(answer, dict)
        return answer["error_code"]

    def leave(self) -> Plain:
        return self.twins.same(leaving(self.group, self.name, self.instance), 3)


def leaving(group: str, name: str, instance: str | None = None) -> Ask:
    return lambda side: LeaveGroupRequest(
        group_id=group,
        members=[MemberIdentity(member_id=side.id_of(name), group_instance_id=instance)],
    )


def classic_group(twins: Twins, group: str, name: str) -> Classic:
    """A classic group of one, who has both partitions."""
    member = Classic(twins, group, name)
    assert member.join() == ErrorCode.MEMBER_ID_REQUIRED
    assert member.join() == ErrorCode.NONE
    member.sync([0, 1])
    return member


def live(twins: Twins) -> None:
    """Up, both protocols side by side, and down again."""
    carl = classic_group(twins, "up and down", "carl")
    story = Story(twins, "up and down")
    assert assigned(story.join("anna")) == []
    assert carl.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert carl.join([0, 1]) == ErrorCode.NONE
    carl.sync()
    assert carl.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS, "it is to give up one partition"
    story.beat("anna", owned=[])
    # It tells what it has kept.
    told = kept_of(carl)
    assert carl.join(told) == ErrorCode.NONE
    carl.sync()
    assert carl.heartbeat() == ErrorCode.NONE
    given = assigned(story.beat("anna", owned=[]))
    assert sorted([*told, *given]) == [0, 1]
    story.beat("anna", owned=given)
    story.beat("anna", -1)
    assert carl.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert carl.join(told) == ErrorCode.NONE
    carl.sync([0, 1])
    assert carl.heartbeat() == ErrorCode.NONE
    carl.leave()


def kept_of(member: Classic) -> list[int]:
    """What a member of the classic protocol is told that it has."""
    answer = member.sync()
    assert isinstance(answer, dict)
    data = answer["assignment"]
    assert isinstance(data, bytes)
    start = len(struct.pack(">hih", 1, 1, 0)) + len(TOPIC)
    (count,) = struct.unpack_from(">i", data, start)
    return list(struct.unpack_from(f">{count}i", data, start + 4))


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[KafkaNode, BrokerProcess]]:
    kafka = KafkaNode(tmp_path_factory.mktemp("kafka"), properties=SETTINGS, heap="512m")
    with kafka, BrokerProcess.on(tmp_path_factory.mktemp("ours"), SETTINGS) as ours:
        for port in (kafka.port, ours.port):
            prepare(port)
        yield kafka, ours


@pytest.fixture
def twins(brokers: tuple[KafkaNode, BrokerProcess]) -> Iterator[Twins]:
    kafka, ours = brokers
    both = Twins(kafka.port, ours.port)
    topic_ids(both)
    yield both
    both.close()


def test_a_group_goes_up_and_down(twins: Twins) -> None:
    live(twins)


def test_a_classic_member_joins_a_consumer_group(twins: Twins) -> None:
    story, carl = Story(twins, "mixed"), Classic(twins, "mixed", "carl")
    story.join("anna")
    assert carl.join() == ErrorCode.MEMBER_ID_REQUIRED
    assert carl.join() == ErrorCode.NONE
    carl.sync()
    assert carl.heartbeat() == ErrorCode.NONE, "it waits for what anna has"
    kept = assigned(story.beat("anna", owned=[0, 1]))
    story.beat("anna", owned=kept)
    assert carl.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS, "there is more to be had now"
    assert carl.join() == ErrorCode.NONE
    assert sorted([*kept_of(carl), *kept]) == [0, 1]
    for generation in (1, 99):
        assert carl.heartbeat(generation) == ErrorCode.ILLEGAL_GENERATION
        carl.sync(generation=generation)
    assert carl.heartbeat(name="nobody") == ErrorCode.UNKNOWN_MEMBER_ID
    assert carl.heartbeat(name="anna") == ErrorCode.UNKNOWN_MEMBER_ID
    for generation in (carl.generation - 1, carl.generation, carl.generation + 1):
        for version in (7, 9):
            twins.same(committing("carl", generation, group_id="mixed"), version)
    story.beat("carl", 3)
    twins.same(leaving("mixed", "anna"), 3)
    carl.leave()
    carl.leave()
    story.beat("anna", owned=kept)


def test_what_cannot_agree_does_not_meet(twins: Twins) -> None:
    story, carl = Story(twins, "apart"), Classic(twins, "apart", "carl")
    story.join("anna")
    assert carl.join(protocol_type="connect") == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert carl.join() == ErrorCode.MEMBER_ID_REQUIRED
    assert carl.join() == ErrorCode.NONE
    # Who is refused is not even told its own id.
    assert carl.join(protocol_type="connect") == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    dave = Classic(twins, "apart", "dave", "fourth")
    other = JoinGroupRequestProtocol(name="other", metadata=subscription())
    assert dave.join(protocols=[other]) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    story.beat("anna", -1)
    worker = Classic(twins, "workers", "worker", "first")
    assert worker.join(protocol_type="connect") == ErrorCode.NONE
    refused = Story(twins, "workers").join("anna")
    assert refused["error_code"] == ErrorCode.GROUP_ID_NOT_FOUND


def test_static_members_change_their_protocol(twins: Twins) -> None:
    story = Story(twins, "static upgrade")
    carl = Classic(twins, "static upgrade", "carl", "one")
    assert carl.join() == ErrorCode.NONE
    carl.sync([0, 1])
    # The new client has the instance id of the old one, which need not have left.
    assert assigned(story.join("anna", instance_id="one")) == [0, 1]
    assert carl.heartbeat() == ErrorCode.FENCED_INSTANCE_ID
    story.beat("anna", instance_id="one", owned=[0, 1])
    # And back: the group is a classic one again.
    dora = Classic(twins, "static upgrade", "dora", "one")
    assert dora.join([0, 1]) == ErrorCode.NONE
    dora.sync()
    assert dora.heartbeat() == ErrorCode.NONE
    dora.leave()


def test_an_empty_group_is_of_whichever_protocol_comes_next(twins: Twins) -> None:
    carl = classic_group(twins, "empty", "carl")
    carl.leave()
    story = Story(twins, "empty")
    assert assigned(story.join("anna")) == [0, 1]
    story.beat("anna", -1)
    # A JoinGroup of carl is refused too, but has Kafka forget the group without a record of it.
    carl.sync()
    assert carl.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    carl.leave()
    again = classic_group(twins, "empty", "carl again")
    again.leave()


DRAWN = re.compile(r'"(memberId|leader)":"[^"]{20,}"|"(currentStateTimestamp)":"?\d+"?')


def test_the_same_records_are_written(
    brokers: tuple[KafkaNode, BrokerProcess], twins: Twins
) -> None:
    Story(twins, "last").join("anna")
    kafka, ours = brokers
    directories = (kafka.directory / "logs", ours.log.parent / "data")
    logs = [comparable([DRAWN.sub("…", line) for line in dumped(each)]) for each in directories]
    assert logs[1] == logs[0]
    assert len(logs[0]) >= 30
