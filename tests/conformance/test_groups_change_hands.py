"""Consumer groups live on while their coordinator changes from tierlog to Apache Kafka and back.

The members stay: each next owner of the data directory finds the groups as the last one left them,
with members of both protocols, half-way through giving up partitions, gone for a while, or with a
pattern; and the members go on with the epochs that they have.
"""

from functools import partial
from pathlib import Path

import pytest

from tierlog.bench.harness.processes.broker_node import BrokerNode
from tierlog.bench.harness.processes.kafka_peer import KafkaNode
from tierlog.bench.harness.processes.tierlog_node import TierlogNode
from tierlog.clients.errors import ErrorCode
from tierlog.clients.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from tierlog.clients.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatResponse,
)
from tierlog.clients.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tierlog.clients.protocol.messages.join_group import (
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from tierlog.clients.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)

from ..broker_process import RawClient
from ..waiting import wait_until
from .classic_members import subscription
from .consumer_members import beating
from .side_by_side import Plain, plain
from .twins import TOPIC, Side, joining, prepare

pytestmark = [pytest.mark.long, pytest.mark.requires("java", "mvn")]

PROPERTIES = {
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
}
OUR_PROPERTIES = {"node.id": "1", "remote.log.storage.system.enable": "false", **PROPERTIES}
GROUPS = ["mixed", "static", "pattern"]


class Owner:
    """One owner of the directory, and a connection to it."""

    def __init__(self, node: BrokerNode) -> None:
        self.side = Side(RawClient(node.port))
        request = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])
        answer = self.side.client.ask(request, 12, MetadataResponse)
        self.side.topic_id = answer.topics[0].topic_id

    def beat(self, group: str, member: str, epoch: int, **changes: object) -> int:
        """A heartbeat that is accepted: the member's epoch."""
        request = beating(group, member, epoch, **changes)(self.side)
        answer = self.side.client.ask(request, 1, ConsumerGroupHeartbeatResponse)
        assert answer.error_code == ErrorCode.NONE, answer.error_message
        return answer.member_epoch

    def join(self, group: str, member: str, **changes: object) -> int:
        full: dict[str, object] = {
            "owned": (),
            "rebalance_timeout_ms": 300_000,
            "subscribed_topic_names": [TOPIC],
        }
        return self.beat(group, member, 0, **{**full, **changes})

    def join_classic(self, group: str, member: str) -> int:
        request = joining(self.side, member)
        request.group_id = group
        request.session_timeout_ms = request.rebalance_timeout_ms = 300_000
        request.member_id = member
        request.protocols = [JoinGroupRequestProtocol(name="range", metadata=subscription())]
        answer = self.side.client.ask(request, 5, JoinGroupResponse)
        assert answer.error_code == ErrorCode.NONE
        return answer.generation_id

    def heartbeat_classic(self, group: str, member: str, generation: int) -> int:
        request = HeartbeatRequest(group_id=group, generation_id=generation, member_id=member)
        return self.side.client.ask(request, 3, HeartbeatResponse).error_code

    def described(self) -> Plain:
        """The groups with their members, once they are loaded."""
        wait_until(self._is_loaded, 60, "the groups were not loaded")
        return plain(self._groups())

    def _groups(self) -> ConsumerGroupDescribeResponse:
        request = ConsumerGroupDescribeRequest(group_ids=GROUPS)
        answer = self.side.client.ask(request, 1, ConsumerGroupDescribeResponse)
        for group in answer.groups:
            group.members.sort(key=lambda member: member.member_id)
        return answer

    def _is_loaded(self) -> bool:
        return all(group.error_code == ErrorCode.NONE for group in self._groups().groups)

    def close(self) -> None:
        self.side.client.socket.close()


def found(owner: Owner) -> None:
    """What the first owner sees: groups in the middle of things."""
    assert owner.join("mixed", "anna") == 2
    assert owner.join("mixed", "bert") == 3
    assert owner.join_classic("mixed", "carl") == 4
    # Anna has heard that she is to give up a partition, and has not done it yet.
    assert owner.beat("mixed", "anna", 2, owned=[0, 1]) == 2
    assert owner.join("static", "dora", instance_id="one") == 2
    assert owner.beat("static", "dora", -2, instance_id="one") == -2
    owner.join("pattern", "emil", subscribed_topic_names=None, subscribed_topic_regex="kn.*")
    wait_until(partial(_knows_pattern, owner), 30, "the pattern was not looked up")


def _knows_pattern(owner: Owner) -> bool:
    return owner.beat("pattern", "emil", 0, owned=(), rebalance_timeout_ms=1, **_PATTERN) == 2


_PATTERN: dict[str, object] = {"subscribed_topic_regex": "kn.*"}


def go_on(owner: Owner, before: Plain) -> None:
    """What every next owner sees: the groups as they were, and members who know their epochs."""
    assert owner.described() == before
    assert owner.beat("mixed", "anna", 2, owned=[0, 1]) == 2
    assert owner.heartbeat_classic("mixed", "carl", 4) == ErrorCode.NONE
    assert owner.beat("pattern", "emil", 2) == 2


@pytest.mark.parametrize("kafka_is_first", [True, False])
def test_groups_live_on_under_the_next_coordinator(tmp_path: Path, kafka_is_first: bool) -> None:
    kafka = KafkaNode(tmp_path, heap="512m", properties=PROPERTIES)
    ours = TierlogNode(tmp_path, properties=OUR_PROPERTIES)
    first, second = (kafka, ours) if kafka_is_first else (ours, kafka)
    with first:
        prepare(first.port)
        owner = Owner(first)
        found(owner)
        before = owner.described()
        owner.close()
    with second:
        owner = Owner(second)
        go_on(owner, before)
        owner.close()
    with first:
        owner = Owner(first)
        go_on(owner, before)
        # Who was gone for a while is back, and what was to be given up is.
        assert owner.join("static", "fred", instance_id="one") == 2
        assert owner.beat("mixed", "anna", 2, owned=()) == 4
        owner.close()
