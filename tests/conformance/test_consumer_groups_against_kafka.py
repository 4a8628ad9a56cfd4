"""Every answer to members of the consumer protocol, beside Apache Kafka's answer to the same.

Members draw their own ids, so the same story can be told to both clusters word by word. Targets are
worked out at once, for what depends on the second in which it happens cannot be compared.
"""

from collections.abc import Iterator, Mapping
from functools import partial

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.clients.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatResponse,
)
from tierlog.clients.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tierlog.clients.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tierlog.replication.metadata.cluster_image import ConfigResourceType

from ..waiting import wait_until
from .consumer_members import HEARTBEAT_VERSION, ConsumerMembers, assigned, beating
from .twin_brokers import twin_brokers
from .twins import TOPIC, Ask, Side, Twins, committing, topic_ids

pytestmark = pytest.mark.recorded


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    settings = {
        "group.consumer.assignment.interval.ms": "0",
        "group.consumer.max.size": "3",
        "group.consumer.min.session.timeout.ms": "1000",
    }
    with twin_brokers(tmp_path_factory, settings) as both:
        yield both


@pytest.fixture
def twins(ports: tuple[int, int]) -> Iterator[Twins]:
    both = Twins(*ports)
    topic_ids(both)
    yield both
    both.close()


def test_members_come_share_and_go(twins: Twins) -> None:
    story = ConsumerMembers(twins, "three")
    assert assigned(story.join("anna")) == [0, 1]
    story.beat("anna")
    story.beat("anna", owned=[0, 1])
    assert assigned(story.join("bert")) == []
    story.beat("bert", owned=[])
    kept = assigned(story.beat("anna"))
    story.beat("anna", owned=[0, 1])
    story.beat("bert", owned=[])
    story.beat("anna", owned=kept)
    given = assigned(story.beat("bert", owned=[]))
    assert sorted(kept + given) == [0, 1]
    story.beat("bert", owned=given)
    assert assigned(story.join("cleo")) == []
    story.beat("anna", owned=kept)
    story.beat("bert", owned=given)
    assert story.join("dora")["error_code"] == ErrorCode.GROUP_MAX_SIZE_REACHED
    story.beat("bert", -1)
    assert story.error("bert", 3) == ErrorCode.UNKNOWN_MEMBER_ID
    story.beat("cleo", owned=[])
    story.beat("anna", owned=kept)
    story.beat("cleo", owned=given)
    story.beat("anna", -1)
    story.beat("cleo", -1)
    assert story.error("cleo", -1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert assigned(story.join("dora")) == [0, 1]


def test_a_wrong_epoch_or_name_gets_its_error(twins: Twins) -> None:
    story, nobody = ConsumerMembers(twins, "wrong"), ConsumerMembers(twins, "nobody's")
    story.join("anna")
    assert story.error("anna", 1) == ErrorCode.FENCED_MEMBER_EPOCH
    assert story.error("anna", 3) == ErrorCode.FENCED_MEMBER_EPOCH
    assert story.error("bert", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert story.error("bert", -1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert nobody.error("anna", 1) == ErrorCode.GROUP_ID_NOT_FOUND
    assert nobody.error("anna", -1) == ErrorCode.GROUP_ID_NOT_FOUND
    story.join("bert")
    kept = assigned(story.beat("anna", owned=[0, 1]))
    story.beat("anna", 2, owned=kept)
    # The answer was lost: the epoch before will do, for who owns no more than it should.
    assert story.error("anna", 2, owned=kept) == ErrorCode.NONE
    assert story.error("anna", 2, owned=[0, 1]) == ErrorCode.FENCED_MEMBER_EPOCH
    assert story.error("anna", 2) == ErrorCode.FENCED_MEMBER_EPOCH
    assert assigned(story.join("anna")) == kept


def test_a_full_request_gets_the_full_assignment(twins: Twins) -> None:
    story = ConsumerMembers(twins, "full request")
    story.join("anna")
    full = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": [TOPIC], "owned": [0, 1]}
    assert assigned(story.beat("anna", **full)) == [0, 1]
    for left_out in full:
        story.beat("anna", **{name: full[name] for name in full if name != left_out})


def test_subscriptions_change(twins: Twins) -> None:
    story = ConsumerMembers(twins, "subscriptions")
    story.join("anna", subscribed_topic_names=[])
    story.beat("anna", subscribed_topic_names=["nowhere"])
    assert assigned(story.beat("anna", subscribed_topic_names=[TOPIC, "nowhere"])) == [0, 1]
    assert assigned(story.beat("anna", subscribed_topic_names=["nowhere"])) == []
    story.beat("anna", subscribed_topic_names=[TOPIC])
    story.beat("anna", owned=[])
    story.beat("anna", owned=[0, 1], server_assignor="range")
    story.beat("anna", owned=[0, 1], rack_id="rack", rebalance_timeout_ms=5_000)


def test_requests_that_make_no_sense_are_refused_with_the_same_words(twins: Twins) -> None:
    story = ConsumerMembers(twins, "odd")
    refusals = [
        ConsumerMembers(twins, "").join("anna"),
        story.join(""),
        story.join("anna", instance_id=""),
        story.join("anna", rack_id=" "),
        story.join("anna", rebalance_timeout_ms=-1),
        story.join("anna", owned=None),
        story.join("anna", owned=[0]),
        story.join("anna", subscribed_topic_names=None),
        story.join("anna", server_assignor="mine"),
        story.join("anna", subscribed_topic_regex="("),
        story.beat("anna", -2),
        story.beat("anna", -3),
        story.beat("anna", 5),
    ]
    assert not [refusal for refusal in refusals if not refusal["error_code"]]


def test_static_members_go_and_come_back(twins: Twins) -> None:
    story = ConsumerMembers(twins, "static")
    story.join("anna", instance_id="one")
    assert story.join("bert", instance_id="one")["error_code"] == ErrorCode.UNRELEASED_INSTANCE_ID
    assert story.error("bert", 2, instance_id="one") == ErrorCode.FENCED_INSTANCE_ID
    assert story.error("bert", 2, instance_id="two") == ErrorCode.UNKNOWN_MEMBER_ID
    story.beat("anna", -2, instance_id="one")
    story.beat("anna", 2, instance_id="one")
    assert assigned(story.join("bert", instance_id="one")) == [0, 1]
    story.beat("bert", instance_id="one", owned=[0, 1])
    assert story.error("anna", 2, instance_id="one") == ErrorCode.FENCED_INSTANCE_ID
    assert story.error("anna", -1, instance_id="one") == ErrorCode.FENCED_INSTANCE_ID
    story.join("cleo", instance_id="two")
    kept = assigned(story.beat("bert", instance_id="one", owned=[0, 1]))
    story.beat("bert", -2, instance_id="one")
    story.beat("cleo", instance_id="two", owned=[])
    assert assigned(story.join("bert", instance_id="one")) == kept
    story.beat("cleo", instance_id="two", owned=[])
    story.beat("bert", -1, instance_id="one")


def test_offsets_are_for_members_of_the_right_epoch(twins: Twins) -> None:
    story = ConsumerMembers(twins, "group")
    story.join("anna")
    for name, epoch in (("anna", 1), ("anna", 2), ("anna", 3), ("bert", 2), ("", -1)):
        for version in (8, 9, 10):
            twins.same(committing(name, epoch), version)
    for claim in ((None, -1), ("anna", 2), ("anna", 1), ("bert", 2), ("", -1)):
        twins.same(_fetching("group", *claim), 9)
    story.join("bert")
    kept = assigned(story.beat("anna", owned=[0, 1]))
    story.beat("anna", owned=kept)
    story.beat("bert", owned=[])
    for name in ("anna", "bert"):
        # At an epoch that it has left behind, for what it may have had then.
        for epoch in (1, 2, 3):
            twins.same(committing(name, epoch), 9)
    story.beat("anna", -1)
    story.beat("bert", -1)
    twins.same(committing(), 9)


def _fetching(group: str, member: str | None, epoch: int) -> Ask:
    def ask(_: Side) -> OffsetFetchRequest:
        topics = [OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0, 1])]
        asked = OffsetFetchRequestGroup(
            group_id=group, member_id=member, member_epoch=epoch, topics=topics
        )
        return OffsetFetchRequest(groups=[asked], require_stable=True)

    return ask


def test_a_pattern_is_looked_up_behind_the_first_answer(twins: Twins) -> None:
    story = ConsumerMembers(twins, "pattern")
    story.join("anna", subscribed_topic_names=None, subscribed_topic_regex="kn.*n")
    full = {"rebalance_timeout_ms": 60_000, "subscribed_topic_regex": "kn.*n"}
    for side in twins.sides:
        wait_until(partial(_is_looked_up, side, full), 30, "the pattern was not looked up")
    story.epochs["anna"] = 2
    assert assigned(story.beat("anna", owned=[], **full)) == [0, 1]
    # Patterns are looked up together, and not twice in ten seconds.
    story.join("bert", subscribed_topic_names=None, subscribed_topic_regex="k")
    story.beat("anna", owned=[0, 1], subscribed_topic_regex="")
    story.beat("anna", owned=[], subscribed_topic_names=[TOPIC])


def _is_looked_up(side: Side, full: Mapping[str, object]) -> bool:
    request = beating("pattern", "anna", 0, owned=[], **full)(side)
    answer = side.client.ask(request, HEARTBEAT_VERSION, ConsumerGroupHeartbeatResponse)
    return answer.member_epoch == 2


def test_who_is_silent_for_a_session_is_out(twins: Twins) -> None:
    """The group has a session time-out of its own."""
    timeout = AlterableConfig(name="consumer.session.timeout.ms", config_operation=0, value="5500")
    resource = AlterConfigsResource(
        resource_type=ConfigResourceType.GROUP, resource_name="silent", configs=[timeout]
    )
    twins.same(lambda _: IncrementalAlterConfigsRequest(resources=[resource]), 1)
    story = ConsumerMembers(twins, "silent")
    story.join("anna")
    story.join("bert")

    def is_alone() -> bool:
        # Both are asked in every round, for bert is to be heard of all the time.
        epochs = [_epoch_of(side, "silent", "bert") for side in twins.sides]
        return epochs == [4, 4]

    wait_until(is_alone, 30, "anna is still there")
    assert story.error("anna") == ErrorCode.UNKNOWN_MEMBER_ID
    story.epochs["bert"] = 4
    assert assigned(story.join("bert")) == [0, 1]


def _epoch_of(side: Side, group: str, member: str) -> int:
    """The epoch of a member that has lost track, and so begins again."""
    full = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": [TOPIC]}
    request = beating(group, member, 0, owned=[], **full)(side)
    return side.client.ask(request, HEARTBEAT_VERSION, ConsumerGroupHeartbeatResponse).member_epoch


def test_who_does_not_give_up_in_time_is_out(twins: Twins) -> None:
    story = ConsumerMembers(twins, "slow")
    story.join("anna", rebalance_timeout_ms=2_000)
    story.join("bert")
    story.beat("anna", owned=[0, 1])
    for side in twins.sides:
        wait_until(partial(_is_out, side), 30, "anna is still there")
    assert story.error("anna", owned=[0, 1]) == ErrorCode.UNKNOWN_MEMBER_ID
    assert assigned(story.beat("bert", owned=[])) == [0, 1]


def _is_out(side: Side) -> bool:
    """It says all the time that it still has what it is to give up."""
    request = beating("slow", "anna", 2, owned=[0, 1])(side)
    answer = side.client.ask(request, HEARTBEAT_VERSION, ConsumerGroupHeartbeatResponse)
    return answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
