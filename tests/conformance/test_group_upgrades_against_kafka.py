"""Groups change their protocol while members stay, as they do in Kafka: answers and records.

Classic members (JoinGroup, SyncGroup, Heartbeat, LeaveGroup) and members of the consumer protocol
meet in one group, in either order.
"""

import re
from collections.abc import Iterator

import pytest

from tierlog.bench.harness.processes.kafka_peer import KafkaNode
from tierlog.clients.errors import ErrorCode
from tierlog.clients.protocol.messages.join_group import JoinGroupRequestProtocol

from ..broker_process import BrokerProcess
from .classic_members import ClassicMember, classic_group, kept_of, leaving, subscription
from .consumer_members import ConsumerMembers, assigned
from .dumped_groups import comparable, dumped
from .twins import Twins, committing, prepare, topic_ids

pytestmark = pytest.mark.requires("java", "mvn")

SETTINGS = {
    "node.id": "1",
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
}


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


def live(twins: Twins) -> None:
    """Up, both protocols side by side, and down again."""
    carl = classic_group(twins, "up and down", "carl")
    story = ConsumerMembers(twins, "up and down")
    assert assigned(story.join("anna")) == []
    assert carl.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert carl.join([0, 1]) == ErrorCode.NONE
    carl.sync()
    assert carl.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS, "it is to give up one partition"
    story.beat("anna", owned=[])
    # It tells what it has kept.
    protocols = kept_of(carl)
    assert carl.join(protocols) == ErrorCode.NONE
    carl.sync()
    assert carl.heartbeat() == ErrorCode.NONE
    given = assigned(story.beat("anna", owned=[]))
    assert sorted([*protocols, *given]) == [0, 1]
    story.beat("anna", owned=given)
    story.beat("anna", -1)
    assert carl.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert carl.join(protocols) == ErrorCode.NONE
    carl.sync([0, 1])
    assert carl.heartbeat() == ErrorCode.NONE
    carl.leave()


def test_a_group_goes_up_and_down(twins: Twins) -> None:
    live(twins)


def test_a_classic_member_joins_a_consumer_group(twins: Twins) -> None:
    story, carl = ConsumerMembers(twins, "mixed"), ClassicMember(twins, "mixed", "carl")
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
    story, carl = ConsumerMembers(twins, "apart"), ClassicMember(twins, "apart", "carl")
    story.join("anna")
    assert carl.join(protocol_type="connect") == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert carl.join() == ErrorCode.MEMBER_ID_REQUIRED
    assert carl.join() == ErrorCode.NONE
    # Who is refused is not even told its own id.
    assert carl.join(protocol_type="connect") == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    dave = ClassicMember(twins, "apart", "dave", "fourth")
    other = JoinGroupRequestProtocol(name="other", metadata=subscription())
    assert dave.join(protocols=[other]) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    story.beat("anna", -1)
    worker = ClassicMember(twins, "workers", "worker", "first")
    assert worker.join(protocol_type="connect") == ErrorCode.NONE
    refused = ConsumerMembers(twins, "workers").join("anna")
    assert refused["error_code"] == ErrorCode.GROUP_ID_NOT_FOUND


def test_static_members_change_their_protocol(twins: Twins) -> None:
    story = ConsumerMembers(twins, "static upgrade")
    carl = ClassicMember(twins, "static upgrade", "carl", "one")
    assert carl.join() == ErrorCode.NONE
    carl.sync([0, 1])
    # The new client has the instance id of the old one, which need not have left.
    assert assigned(story.join("anna", instance_id="one")) == [0, 1]
    assert carl.heartbeat() == ErrorCode.FENCED_INSTANCE_ID
    story.beat("anna", instance_id="one", owned=[0, 1])
    # And back: the group is a classic one again.
    dora = ClassicMember(twins, "static upgrade", "dora", "one")
    assert dora.join([0, 1]) == ErrorCode.NONE
    dora.sync()
    assert dora.heartbeat() == ErrorCode.NONE
    dora.leave()


def test_an_empty_group_is_of_whichever_protocol_comes_next(twins: Twins) -> None:
    carl = classic_group(twins, "empty", "carl")
    carl.leave()
    story = ConsumerMembers(twins, "empty")
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
    ConsumerMembers(twins, "last").join("anna")
    kafka, ours = brokers
    directories = (kafka.directory / "logs", ours.log.parent / "data")
    logs = [comparable([DRAWN.sub("…", line) for line in dumped(each)]) for each in directories]
    assert logs[1] == logs[0]
    assert len(logs[0]) >= 30
