"""What administrators ask of groups of the consumer protocol: Apache Kafka's answers and ours."""

from collections.abc import Iterator
from functools import partial

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.clients.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tierlog.clients.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from tierlog.clients.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from tierlog.clients.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tierlog.clients.protocol.messages.delete_topics import DeleteTopicsRequest
from tierlog.clients.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from tierlog.clients.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tierlog.clients.protocol.messages.leave_group import MemberIdentity
from tierlog.clients.protocol.messages.offset_commit import OffsetCommitResponse
from tierlog.clients.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
)

from ..waiting import wait_until
from .classic_members import classic_group
from .group_requests import (
    deleting,
    deleting_offsets,
    describing,
    listing,
)
from .side_by_side import Plain
from .twin_brokers import delete_groups, twin_brokers
from .twins import TOPIC, Ask, Side, Twins, committing, leaving, topic_ids

pytestmark = pytest.mark.recorded

GROUP = "group"
MEMBERS = ("anna", "sam")


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    settings = {
        "group.consumer.assignment.interval.ms": "0",
    }
    with twin_brokers(tmp_path_factory, settings) as both:
        yield both


@pytest.fixture
def twins(ports: tuple[int, int]) -> Iterator[Twins]:
    both = Twins(*ports)
    topic_ids(both)
    yield both
    for side in both.sides:
        for name in MEMBERS:
            request = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id=name, member_epoch=-1)
            side.client.receive(side.client.send(request, 1))
    delete_groups(both, GROUP, "classic")
    both.close()


def beat(side: Side, name: str, epoch: int, **changes: object) -> ConsumerGroupHeartbeatResponse:
    """A heartbeat; epoch 0 joins."""
    request = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id=name, member_epoch=epoch)
    if epoch == 0:
        request.rebalance_timeout_ms = 60_000
        request.subscribed_topic_names = [TOPIC]
        request.topic_partitions = []
    for field_name, value in changes.items():
        setattr(request, field_name, value)
    return side.client.ask(request, 1, ConsumerGroupHeartbeatResponse)


def settled(side: Side, *names: str, partitions: int = 2, **changes: object) -> dict[str, int]:
    """The members join and do as they are told until each has its share; their epochs."""
    epochs: dict[str, int] = {}
    owned: dict[str, list[TopicPartitions]] = {}

    def take(name: str, answer: ConsumerGroupHeartbeatResponse) -> None:
        assert answer.error_code == ErrorCode.NONE, answer
        epochs[name] = answer.member_epoch
        if answer.assignment is not None:
            owned[name] = answer.assignment.topic_partitions

    for name in names:
        owned[name] = []
        take(name, beat(side, name, 0, **changes))

    def round_of_heartbeats() -> bool:
        for name in names:
            take(name, beat(side, name, epochs[name], topic_partitions=owned[name]))
        shares = [sum(len(topic.partitions) for topic in owned[name]) for name in names]
        return (
            sum(shares) == partitions
            and max(shares) - min(shares) <= 1
            and len({*epochs.values()}) == 1
        )

    wait_until(round_of_heartbeats, 20, "the group does not settle")
    return epochs


def describing_consumers(*group_ids: str, operations: bool = False) -> Ask:
    return lambda _: ConsumerGroupDescribeRequest(
        group_ids=list(group_ids), include_authorized_operations=operations
    )


EPOCHS = frozenset({"group_epoch", "assignment_epoch", "member_epoch"})


def both_settle(twins: Twins, *names: str, partitions: int = 2, **changes: object) -> None:
    for side in twins.sides:
        settled(side, *names, partitions=partitions, **changes)


@pytest.mark.parametrize("version", [0, 1])
def test_groups_that_are_no_consumer_groups_are_distinguished(twins: Twins, version: int) -> None:
    twins.same(committing(group_id="classic"), 9)
    twins.same(describing_consumers("nobody", "classic", "", operations=True), version)


@pytest.mark.parametrize("version", [0, 1])
def test_a_group_with_one_member_is_described(twins: Twins, version: int) -> None:
    both_settle(twins, "anna", instance_id="the-first", rack_id="r1", server_assignor="range")
    described = twins.same(describing_consumers(GROUP, operations=True), version, ignoring=EPOCHS)
    assert member_count(described) == 1
    for side in twins.sides:
        beat(side, "anna", -2, instance_id="the-first")
    twins.same(describing_consumers(GROUP), version, ignoring=EPOCHS)
    for side in twins.sides:
        beat(side, "anna", -1, instance_id="the-first")
    twins.same(describing_consumers(GROUP), version, ignoring=EPOCHS)


def member_count(answer: Plain) -> int:
    match answer:
        case {"groups": [{"members": list(members)}]}:
            return len(members)
        case _:
            return -1


def test_a_member_with_a_pattern_is_described(twins: Twins) -> None:
    both_settle(twins, "anna", subscribed_topic_names=None, subscribed_topic_regex="kno.*")
    twins.same(describing_consumers(GROUP), 1, ignoring=EPOCHS)


def test_a_member_that_has_not_given_up_yet_still_has_what_it_must_give_up(twins: Twins) -> None:
    for side in twins.sides:
        epochs = settled(side, "anna")
        assert beat(side, "sam", 0).error_code == ErrorCode.NONE
        wait_until(partial(has_to_revoke, side, epochs["anna"]), 20, "anna keeps all")
    described = twins.same(describing_consumers(GROUP), 1, ignoring=EPOCHS)
    assert "Reconciling" in repr(described)
    twins.same(listing(["reconciling"]), 5)


def has_to_revoke(side: Side, epoch: int) -> bool:
    """Whether anna is, who says that she has both partitions."""
    both = [TopicPartitions(topic_id=side.topic_id, partitions=[0, 1])]
    answer = beat(side, "anna", epoch, topic_partitions=both)
    assert answer.error_code == ErrorCode.NONE
    assignment = answer.assignment
    return assignment is not None and [each.partitions for each in assignment.topic_partitions] == [
        [0]
    ]


def test_the_groups_own_intervals_are_reported_to_its_members(twins: Twins) -> None:
    """And what lies outside the broker's bounds is refused."""

    def setting(value: str | None, name: str = "consumer.heartbeat.interval.ms") -> Ask:
        operation = 1 if value is None else 0
        config = AlterableConfig(name=name, config_operation=operation, value=value)
        resource = AlterConfigsResource(resource_type=32, resource_name=GROUP, configs=[config])
        return lambda _: IncrementalAlterConfigsRequest(resources=[resource])

    def is_shown(side: Side, interval_ms: int, epoch: int) -> bool:
        return beat(side, "anna", epoch).heartbeat_interval_ms == interval_ms

    both_settle(twins, "anna")
    for value, interval_ms in (("7000", 7_000), (None, 5_000)):
        twins.same(setting(value), 1)
        for side in twins.sides:
            epoch = beat(side, "anna", 0).member_epoch
            wait_until(partial(is_shown, side, interval_ms, epoch), 20, "the old interval is told")
    for bad in ("4999", "15001", "0", "often"):
        twins.same(setting(bad), 1)
    twins.same(setting("44999", "consumer.session.timeout.ms"), 1)
    twins.same(setting("1", "consumer.nonsense"), 1)


def test_the_brokers_interval_is_changed_and_obeyed_at_once(twins: Twins) -> None:
    """As long as it lasts a group that was just assigned is not assigned again."""

    def setting(value: str | None, broker: str = "") -> Ask:
        name = "group.consumer.assignment.interval.ms"
        operation = 1 if value is None else 0
        config = AlterableConfig(name=name, config_operation=operation, value=value)
        resource = AlterConfigsResource(resource_type=4, resource_name=broker, configs=[config])
        return lambda _: IncrementalAlterConfigsRequest(resources=[resource])

    for value in ("15001", "-1", "15000"):
        for broker in ("", "1"):
            twins.same(setting(value, broker), 1)
    wait_until(partial(is_obeyed, twins, "15000"), 20, "the interval is not changed")
    both_settle(twins, "anna")
    for side in twins.sides:
        assert beat(side, "sam", 0).error_code == ErrorCode.NONE
    assert "Assigning" in repr(twins.same(describing_consumers(GROUP), 1, ignoring=EPOCHS))
    assert [epochs_behind(side) for side in twins.sides] == [1, 1]
    for broker in ("1", ""):
        twins.same(setting(None, broker), 1)
    wait_until(partial(is_obeyed, twins, "0"), 20, "the interval is not changed back")
    for side in twins.sides:
        wait_until(partial(is_assigned_anew, side), 20, "the group is not assigned")


def epochs_behind(side: Side) -> int:
    """How far the assignment is behind its group; each side has epochs of its own."""
    request = ConsumerGroupDescribeRequest(group_ids=[GROUP])
    (group,) = side.client.ask(request, 1, ConsumerGroupDescribeResponse).groups
    return group.group_epoch - group.assignment_epoch


def is_obeyed(twins: Twins, value: str) -> bool:
    """Whether both brokers say that this is in force."""
    resource = DescribeConfigsResource(
        resource_type=4,
        resource_name="1",
        configuration_keys=["group.consumer.assignment.interval.ms"],
    )
    request = DescribeConfigsRequest(resources=[resource])
    answers = [side.client.ask(request, 4, DescribeConfigsResponse) for side in twins.sides]
    return all(answer.results[0].configs[0].value == value for answer in answers)


def is_assigned_anew(side: Side) -> bool:
    """Whether anna's heartbeat makes the group be assigned."""
    request = ConsumerGroupDescribeRequest(group_ids=[GROUP])
    (group,) = side.client.ask(request, 1, ConsumerGroupDescribeResponse).groups
    (anna,) = (member for member in group.members if member.member_id == "anna")
    beat(side, "anna", anna.member_epoch)
    return group.group_state == "Reconciling"


@pytest.mark.parametrize("version", range(6))
def test_consumer_groups_are_listed_by_state_and_type(twins: Twins, version: int) -> None:
    both_settle(twins, "anna")
    twins.same(committing(group_id="classic"), 9)
    twins.same(listing(), version)
    if version >= 4:
        for state in ("Stable", "stable", "Empty", "Reconciling", "Assigning", "None"):
            twins.same(listing(states=[state]), version)
    if version >= 5:
        for kind in ("consumer", "Consumer", "classic", "share", "nonsense"):
            twins.same(listing(types=[kind]), version)
        twins.same(listing(["stable"], ["consumer", "classic"]), version)


@pytest.mark.parametrize("version", range(7))
def test_the_classic_description_knows_no_consumer_groups(twins: Twins, version: int) -> None:
    both_settle(twins, "anna")
    twins.same(describing(GROUP, "nobody", operations=version >= 3), version)


def test_a_group_with_members_is_not_deleted_and_an_empty_one_is(twins: Twins) -> None:
    both_settle(twins, "anna")
    twins.same(deleting(GROUP), 2)
    for side in twins.sides:
        beat(side, "anna", -1)
    twins.same(listing(), 5)
    twins.same(deleting(GROUP, "nobody"), 2)
    twins.same(describing_consumers(GROUP), 1)
    twins.same(listing(), 5)


def test_offsets_of_subscribed_topics_are_not_deleted(twins: Twins) -> None:
    for side in twins.sides:
        epochs = settled(side, "anna")
        request = committing("anna", epochs["anna"])(side)
        assert side.client.ask(request, 9, OffsetCommitResponse).topics
    twins.same(deleting_offsets(GROUP, known=[0, 1, 9], gone=[0]), 0)
    for side in twins.sides:
        beat(side, "anna", -1)
    twins.same(deleting_offsets(GROUP, known=[0, 1, 9], gone=[0]), 0)
    twins.same(deleting_offsets("nobody", known=[0]), 0)


def test_offsets_of_topics_that_a_pattern_stands_for_are_not_deleted(twins: Twins) -> None:
    other = CreatableTopic(name="other", num_partitions=1, replication_factor=1)
    twins.same(lambda _: CreateTopicsRequest(topics=[other], timeout_ms=10_000), 7)
    both_settle(twins, "anna", subscribed_topic_names=None, subscribed_topic_regex="kno.*")
    twins.same(deleting_offsets(GROUP, known=[0], other=[0]), 0)


def test_a_static_member_that_will_be_back_is_still_a_member(twins: Twins) -> None:
    both_settle(twins, "anna", instance_id="the-first")
    for side in twins.sides:
        beat(side, "anna", -2, instance_id="the-first")
    twins.same(listing(), 5)
    twins.same(deleting(GROUP), 2)
    twins.same(deleting_offsets(GROUP, known=[0]), 0)
    for side in twins.sides:
        beat(side, "anna", -1, instance_id="the-first")


def test_members_are_removed_by_an_administrator(twins: Twins) -> None:
    both_settle(twins, "anna", instance_id="the-first")
    strangers = MemberIdentity(member_id="nobody"), MemberIdentity(group_instance_id="nobody")
    for version in (3, 5):
        twins.same(leaving(*strangers), version)
    twins.same(leaving(MemberIdentity(member_id="anna")), 5)
    twins.same(describing_consumers(GROUP), 1, ignoring=EPOCHS)
    twins.same(leaving(MemberIdentity(group_instance_id="the-first")), 5)
    twins.same(describing_consumers(GROUP), 1, ignoring=EPOCHS)
    for side in twins.sides:
        beat(side, "anna", -1, instance_id="the-first")


def test_members_of_both_protocols_in_one_group_are_described(twins: Twins) -> None:
    carl = classic_group(twins, GROUP, "carl")
    twins.same(describing_consumers(GROUP), 1)
    twins.same(listing(types=["classic"]), 5)

    def described() -> None:
        for version in (0, 1):
            twins.same(describing_consumers(GROUP), version, ignoring=EPOCHS)
        twins.same(describing(GROUP), 6)
        twins.same(listing(), 5)

    for side in twins.sides:
        assert beat(side, "anna", 0).error_code == ErrorCode.NONE
    described()
    assert carl.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert carl.join([0, 1]) == ErrorCode.NONE
    carl.sync()
    described()
    twins.same(deleting(GROUP), 2)
    twins.same(deleting_offsets(GROUP, known=[0]), 0)
    carl.leave()
    described()


def test_a_topic_that_is_gone_is_left_out_of_the_description(twins: Twins) -> None:
    gone = CreatableTopic(name="gone-soon", num_partitions=1, replication_factor=1)
    twins.same(lambda _: CreateTopicsRequest(topics=[gone], timeout_ms=10_000), 7)
    both_settle(twins, "anna", partitions=3, subscribed_topic_names=[TOPIC, gone.name])
    assert "gone-soon', 'partitions" in repr(
        twins.same(describing_consumers(GROUP), 1, ignoring=EPOCHS)
    )
    twins.same(lambda _: DeleteTopicsRequest(topic_names=[gone.name], timeout_ms=10_000), 5)
    for side in twins.sides:
        wait_until(partial(is_forgotten, side, gone.name), 20, "the topic is still described")
    twins.same(describing_consumers(GROUP), 1, ignoring=EPOCHS)


def is_forgotten(side: Side, topic: str) -> bool:
    request = ConsumerGroupDescribeRequest(group_ids=[GROUP])
    (group,) = side.client.ask(request, 1, ConsumerGroupDescribeResponse).groups
    (anna,) = group.members
    return all(each.topic_name != topic for each in anna.target_assignment.topic_partitions)


def test_without_the_feature_nothing_of_it_is_served(twins: Twins) -> None:
    """Both still announce the requests, and refuse them."""

    def level(wanted: int) -> Ask:
        change = FeatureUpdateKey(
            feature="group.version", max_version_level=wanted, upgrade_type=1 if wanted else 2
        )
        return lambda _: UpdateFeaturesRequest(feature_updates=[change])

    def joining(_: Side) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id="anna")

    def announced(side: Side) -> ApiVersionsResponse:
        request = ApiVersionsRequest(client_software_name="t", client_software_version="1")
        return side.client.ask(request, 4, ApiVersionsResponse)

    def has_gone(side: Side) -> bool:
        return all(
            feature.name != "group.version" for feature in announced(side).finalized_features
        )

    twins.same(level(0), 2)
    try:
        for side in twins.sides:
            # Kafka's broker learns of the change a little later than its controller answers.
            wait_until(partial(has_gone, side), 60, "the feature is still there")
            assert {68, 69} <= {api.api_key for api in announced(side).api_keys}
        for version in (0, 1):
            twins.same(joining, version)
            twins.same(describing_consumers(GROUP, "nobody", operations=True), version)
    finally:
        twins.same(level(1), 2)
