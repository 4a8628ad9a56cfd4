"""How members of a consumer group come, share, and go (KIP-848, G20-G25)."""

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.coordinator.consumer.consumer_group import ConsumerGroupState
from tierlog.coordinator.consumer.consumer_heartbeat import ConsumerHeartbeat
from tierlog.coordinator.consumer.reconciliation import MemberState
from tierlog.coordinator.group_config import ConsumerGroupConfig, GroupCoordinatorConfig

from ..consumer_group_driver import (
    GROUP,
    REBALANCE_MS,
    SESSION_MS,
    ConsumerGroupDriver,
    parts,
    topic_id,
)


def refused(groups: ConsumerGroupDriver, request: ConsumerHeartbeat) -> ErrorCode:
    """Why a request is refused; a refusal leaves no trace."""
    length, timers = len(groups.log), dict(groups.timers)
    with pytest.raises(KafkaError) as error:
        groups.send(request)
    assert len(groups.log) == length
    assert groups.timers == timers
    return error.value.code


def test_the_first_member_founds_the_group_and_is_given_all_of_it() -> None:
    groups = ConsumerGroupDriver({"red": 3})
    answer = groups.join("anna")
    assert answer.member_epoch == 2, "as in Kafka a group begins with 1, which nobody is at"
    assert answer.heartbeat_interval_ms == 5_000
    assert answer.assigned is not None
    assert set(answer.assigned) == parts("red", 0, 1, 2)
    assert groups.is_in(ConsumerGroupState.STABLE)
    assert groups.written() == [
        "Member",
        "GroupMetadata",
        "TargetMember",
        "TargetMetadata",
        "CurrentAssignment",
    ]


def test_a_second_member_waits_for_what_the_first_gives_up() -> None:
    groups = ConsumerGroupDriver({"red": 2})
    groups.join("anna")
    assert groups.join("bert").assigned == {}
    assert groups.group.members["bert"].current.state is MemberState.UNRELEASED_PARTITIONS
    assert groups.is_in(ConsumerGroupState.RECONCILING)
    answer = groups.beat("anna")
    assert answer.member_epoch == 2, "it keeps its epoch until it has given up what it must"
    assert answer.assigned is not None
    assert len(answer.assigned) == 1
    assert groups.beat("bert").assigned is None
    assert groups.beat("anna").member_epoch == 3
    given = groups.beat("bert").assigned
    assert given is not None
    assert len(given) == 1
    assert groups.is_in(ConsumerGroupState.STABLE)
    assert len(groups.holders()) == 2


def test_an_assignment_is_returned_when_it_is_new_or_requested() -> None:
    groups = ConsumerGroupDriver({"red": 1})
    groups.join("anna")
    assert groups.beat("anna").assigned is None
    full = groups.beat("anna", rebalance_timeout_ms=REBALANCE_MS, subscribed_topic_names=("red",))
    assert full.assigned is not None
    assert set(full.assigned) == parts("red", 0)
    half = groups.beat("anna", subscribed_topic_names=("red",))
    assert half.assigned is None


def test_who_leaves_frees_what_it_had_for_the_others() -> None:
    groups = ConsumerGroupDriver({"red": 2})
    groups.join("anna")
    groups.join("bert")
    groups.settle("anna", "bert")
    since = len(groups.log)
    answer = groups.leave("anna")
    assert (answer.member_id, answer.member_epoch) == ("anna", -1)
    assert groups.written(since) == [
        "CurrentAssignment-",
        "TargetMember-",
        "Member-",
        "GroupMetadata",
    ]
    groups.settle("bert")
    assert groups.owned["bert"] == parts("red", 0, 1)
    assert not [key for key in groups.timers if key.member_id == "anna"]


def test_the_last_to_leave_leaves_an_empty_group() -> None:
    groups = ConsumerGroupDriver({"red": 1})
    groups.join("anna")
    groups.leave("anna")
    assert groups.is_in(ConsumerGroupState.EMPTY)
    assert groups.join("bert").member_epoch == 4


def test_a_silent_member_is_out_after_its_session() -> None:
    groups = ConsumerGroupDriver({"red": 2})
    groups.join("anna")
    groups.join("bert")
    groups.settle("anna", "bert")
    groups.pass_time(SESSION_MS - 1)
    groups.beat("bert")
    groups.pass_time(1)
    assert list(groups.group.members) == ["bert"]
    assert refused(groups, groups.living("anna")) is ErrorCode.UNKNOWN_MEMBER_ID


def test_who_does_not_give_up_in_time_is_out() -> None:
    groups = ConsumerGroupDriver({"red": 2})
    groups.join("anna")
    groups.join("bert")
    all_of_it = groups.owned["anna"]
    groups.beat("anna")
    for _ in range(REBALANCE_MS // 5_000 - 1):
        groups.pass_time(5_000)
        groups.send(groups.living("anna")._replace(owned=all_of_it))
        groups.beat("bert")
    assert "anna" in groups.group.members
    groups.pass_time(5_000)
    assert list(groups.group.members) == ["bert"]
    groups.settle("bert")
    assert groups.owned["bert"] == parts("red", 0, 1)


def test_who_has_lost_an_answer_may_still_come_with_the_epoch_before() -> None:
    groups = ConsumerGroupDriver({"red": 2})
    groups.join("anna")
    groups.join("bert")
    groups.beat("anna")
    given_up = groups.living("anna")
    groups.send(given_up)
    assert groups.group.members["anna"].epoch == 3
    assert groups.send(given_up).member_epoch == 3
    assert refused(groups, given_up._replace(owned=None)) is ErrorCode.FENCED_MEMBER_EPOCH
    too_much = given_up._replace(owned=parts("red", 0, 1))
    assert refused(groups, too_much) is ErrorCode.FENCED_MEMBER_EPOCH


def test_an_epoch_that_the_group_does_not_know_is_fenced() -> None:
    groups = ConsumerGroupDriver({"red": 1})
    groups.join("anna")
    groups.leave("anna")
    groups.join("bert")
    for epoch in (1, 3, 5):
        fenced = groups.living("bert")._replace(member_epoch=epoch)
        assert refused(groups, fenced) is ErrorCode.FENCED_MEMBER_EPOCH


def test_a_member_may_join_again_and_keeps_what_it_has() -> None:
    groups = ConsumerGroupDriver({"red": 1})
    groups.join("anna")
    again = groups.join("anna")
    assert again.member_epoch == 2
    assert again.assigned is not None
    assert set(again.assigned) == parts("red", 0)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"group_id": " "}, ErrorCode.INVALID_REQUEST),
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"instance_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rack_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
        ({"owned": None}, ErrorCode.INVALID_REQUEST),
        ({"owned": parts("red", 0)}, ErrorCode.INVALID_REQUEST),
        ({"subscribed_topic_names": None}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -2}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -3}, ErrorCode.INVALID_REQUEST),
        ({"server_assignor": "mine"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"subscribed_topic_regex": "("}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ({"member_epoch": 1}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"member_epoch": -1}, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_a_first_request_that_is_wrong_founds_nothing(
    changes: dict[str, object], expected: ErrorCode
) -> None:
    groups = ConsumerGroupDriver({"red": 1})
    request = groups.joining("anna")._replace(**changes)  # type: ignore[arg-type]  # plain fields
    assert refused(groups, request) is expected
    assert GROUP not in groups.shard.consumer_groups


def test_a_full_group_takes_nobody_else() -> None:
    groups = ConsumerGroupDriver({"red": 1}, config=GroupCoordinatorConfig(consumer_max_size=1))
    groups.join("anna")
    assert refused(groups, groups.joining("bert")) is ErrorCode.GROUP_MAX_SIZE_REACHED
    groups.join("anna")
    groups.leave("anna")
    groups.join("bert")


def test_a_static_member_that_comes_back_has_what_it_had() -> None:
    groups = ConsumerGroupDriver({"red": 2})
    groups.join_static("one", "anna")
    groups.join_static("two", "bert")
    groups.settle("anna", "bert")
    had, epoch = groups.owned["anna"], groups.group.epoch
    assert refused(groups, groups.joining("cleo")._replace(instance_id="one")) is (
        ErrorCode.UNRELEASED_INSTANCE_ID
    )
    assert groups.leave("anna", -2).member_epoch == -2
    assert groups.is_in(ConsumerGroupState.RECONCILING)
    # Its replacement begins at epoch 0, and may commit for all of it from then on.
    left = groups.group.members["anna"].current.assigned
    assert left == dict.fromkeys(had, 0)
    back = groups.join_static("one", "cleo")
    assert back.assigned is not None
    assert set(back.assigned) == had
    assert list(groups.group.members) == ["bert", "cleo"]
    assert groups.group.epoch == epoch, "nobody else needs to notice"
    assert groups.is_in(ConsumerGroupState.STABLE)
    fenced = groups.living("cleo")._replace(member_id="anna")
    assert refused(groups, fenced) is ErrorCode.FENCED_INSTANCE_ID
    unknown = groups.living("cleo")._replace(instance_id="three")
    assert refused(groups, unknown) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_does_not_come_back_is_out_after_its_session() -> None:
    groups = ConsumerGroupDriver({"red": 2})
    groups.join_static("one", "anna")
    groups.leave("anna", -2)
    groups.pass_time(SESSION_MS)
    assert groups.is_in(ConsumerGroupState.EMPTY)
    assert groups.group.static_members == {}


def test_a_change_of_subscription_is_a_new_epoch_and_a_new_target() -> None:
    groups = ConsumerGroupDriver({"red": 1, "blue": 1})
    groups.join("anna")
    answer = groups.beat("anna", subscribed_topic_names=("blue",))
    assert answer.member_epoch == 2
    assert answer.assigned == {}, "red is to be given up first"
    assert groups.beat("anna").assigned == {(topic_id("blue"), 0): 3}


def test_topics_that_change_are_seen_at_the_next_heartbeat() -> None:
    groups = ConsumerGroupDriver({"red": 1})
    groups.join("anna", topics=("red", "blue"))
    groups.change_topics({"red": 2})
    assert len(groups.beat("anna").assigned or ()) == 2
    groups.change_topics({"red": 2, "blue": 1, "green": 1})
    assert len(groups.beat("anna").assigned or ()) == 3
    epoch = groups.group.epoch
    groups.change_topics({"red": 2, "blue": 1})
    groups.beat("anna")
    assert groups.group.epoch == epoch, "nobody subscribes to green"
    groups.change_topics({"blue": 1})
    assert groups.beat("anna").assigned == {(topic_id("blue"), 0): 4}


def test_assignments_are_some_time_apart() -> None:
    groups = ConsumerGroupDriver({"red": 2}, ConsumerGroupConfig(assignment_interval_ms=1_000))
    groups.join("anna")
    assert groups.join("bert").assigned == {}
    assert (groups.group.epoch, groups.group.target_epoch) == (3, 2)
    assert groups.is_in(ConsumerGroupState.ASSIGNING)
    groups.pass_time(999)
    assert groups.beat("anna").assigned is None
    groups.pass_time(1)
    assert len(groups.beat("anna").assigned or ()) == 1
    assert groups.group.target_epoch == 3


def test_most_members_choose_the_assignor() -> None:
    groups = ConsumerGroupDriver({"red": 2, "blue": 2})
    for name in ("anna", "bert"):
        groups.send(groups.joining(name, ("red", "blue"))._replace(server_assignor="range"))
    assert groups.group.preferred_assignor() == "range"
    target = groups.group.targets["anna"]
    assert target == parts("red", 0) | parts("blue", 0)


def test_a_pattern_means_nothing_until_it_was_looked_up() -> None:
    groups = ConsumerGroupDriver({"red": 1, "rose": 1, "blue": 1})
    assert groups.join("anna", None, "r.*").assigned == {}
    assert groups.lookups == {GROUP: frozenset({"r.*"})}
    groups.look_up()
    assert groups.group.regexes["r.*"].topics == ("red", "rose")
    given = groups.beat("anna").assigned or {}
    assert set(given) == parts("red", 0) | parts("rose", 0)
    # Somebody else with the same pattern is given its share at once.
    groups.join("bert", None, "r.*")
    assert not groups.lookups
    groups.settle("anna", "bert")
    assert len(groups.owned["bert"]) == 1


def test_patterns_are_looked_up_again_when_topics_come_but_not_all_the_time() -> None:
    groups = ConsumerGroupDriver({"red": 1})
    groups.join("anna", None, "r.*")
    groups.look_up()
    groups.beat("anna")
    groups.change_topics({"red": 1, "rose": 1})
    groups.pass_time(10_000)
    groups.beat("anna")
    assert not groups.lookups, "the last look was ten seconds ago"
    groups.pass_time(1)
    groups.beat("anna")
    assert groups.lookups
    groups.look_up()
    assert len(groups.beat("anna").assigned or ()) == 2
    for _ in range(59):
        groups.pass_time(10_000)
        groups.beat("anna")
        assert not groups.lookups
    groups.pass_time(10_001)
    groups.beat("anna")
    assert groups.lookups, "ten minutes are over"


def test_a_pattern_goes_with_its_last_member() -> None:
    groups = ConsumerGroupDriver({"red": 1})
    groups.join("anna", None, "r.*")
    groups.join("bert", None, "r.*")
    groups.look_up()
    groups.leave("anna")
    assert "r.*" in groups.group.regexes
    answer = groups.beat("bert", subscribed_topic_regex="", subscribed_topic_names=("red",))
    assert groups.group.regexes == {}
    assert answer.member_epoch == groups.group.epoch
    groups.beat("bert", subscribed_topic_regex="b.*", subscribed_topic_names=())
    assert groups.lookups == {GROUP: frozenset({"b.*"})}
