"""What administrators may ask of a shard's groups, and what deleting takes."""

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.clients.kafka_uuid import ZERO_UUID
from tierlog.coordinator.classic.group_state import GroupState
from tierlog.coordinator.group.group_admin import (
    GroupOverview,
    OffsetsDeletion,
    describe,
    group_deletion,
    list_groups,
    offsets_deletion,
)
from tierlog.coordinator.group.group_shard import Forgotten, GroupShard
from tierlog.coordinator.group.prepared_commit import PreparedCommit
from tierlog.coordinator.group_actions import MemberIdentity
from tierlog.coordinator.group_config import GroupCoordinatorConfig
from tierlog.coordinator.group_records import OffsetKey, offset_tombstone
from tierlog.coordinator.offsets import CommitRequest, OffsetToCommit

from ..group_driver import GroupDriver, checked_commit

NOW_MS = 1_000_000
SUBSCRIBES_TO_TOPIC = b"\0\0\0\0\0\1\0\5topic\0\0\0\0"


@pytest.fixture
def shard() -> GroupShard:
    return GroupShard(0, 0, GroupCoordinatorConfig())


def commit(shard: GroupShard, group_id: str, topic: str = "topic") -> OffsetKey:
    wanted = OffsetToCommit(topic, ZERO_UUID, 0, 7, -1, None)
    request = CommitRequest(group_id, MemberIdentity("", None), -1, None, True, [wanted])
    prepared, _ = checked_commit(shard, request, NOW_MS)
    assert isinstance(prepared, PreparedCommit)
    shard.apply_offsets(prepared.entries, 0, NOW_MS)
    return prepared.entries[0].key


def with_members(shard: GroupShard) -> GroupDriver:
    driver = GroupDriver()
    driver.stable("anna", "lena")
    shard.groups["group"] = driver.group
    return driver


@pytest.mark.parametrize(
    ("states", "types", "found"),
    [
        ([], [], ["simple", "group"]),
        (["STABLE"], [], ["group"]),
        (["empty", "nonsense"], [], ["simple"]),
        (["Dead"], [], []),
        ([], ["Classic"], ["simple", "group"]),
        ([], ["consumer"], []),
        (["Empty"], ["classic", "consumer"], ["simple"]),
    ],
)
def test_groups_are_listed_by_state_and_type(
    shard: GroupShard, states: list[str], types: list[str], found: list[str]
) -> None:
    commit(shard, "simple")
    with_members(shard)
    assert [group.group_id for group in list_groups(shard, states, types)] == found


def test_a_listed_group_says_its_protocol_state_and_type(shard: GroupShard) -> None:
    commit(shard, "simple")
    with_members(shard)
    assert list(list_groups(shard, [], [])) == [
        GroupOverview("simple", "", "Empty", "classic"),
        GroupOverview("group", "consumer", "Stable", "classic"),
    ]


def test_a_stable_group_shows_what_its_members_said_and_were_given(shard: GroupShard) -> None:
    driver = with_members(shard)
    group = describe(driver.group)
    assert (group.state, group.protocol_type, group.protocol_name) == (
        "Stable",
        "consumer",
        "range",
    )
    assert [(each.member_id, each.metadata, each.assignment) for each in group.members] == [
        ("anna", b"range metadata", b"anna"),
        ("lena", b"range metadata", b"lena"),
    ]


def test_a_rebalancing_group_shows_only_who_is_in_it(shard: GroupShard) -> None:
    driver = with_members(shard)
    driver.rejoin("anna")
    assert driver.is_in(GroupState.PREPARING_REBALANCE)
    group = describe(driver.group)
    assert (group.state, group.protocol_type, group.protocol_name) == (
        "PreparingRebalance",
        "consumer",
        "",
    )
    assert [(each.member_id, each.metadata, each.assignment) for each in group.members] == [
        ("anna", b"", b""),
        ("lena", b"", b""),
    ]


def test_only_a_group_without_members_can_be_deleted(shard: GroupShard) -> None:
    driver = with_members(shard)
    assert group_deletion(shard, "nobody's") is ErrorCode.GROUP_ID_NOT_FOUND
    assert group_deletion(shard, "group") is ErrorCode.NON_EMPTY_GROUP
    driver.leave("anna", "lena")
    assert isinstance(group_deletion(shard, "group"), Forgotten)


def test_a_deleted_group_takes_its_offsets_along(shard: GroupShard) -> None:
    key, other = commit(shard, "simple"), commit(shard, "other")
    deletion = group_deletion(shard, "simple")
    assert isinstance(deletion, Forgotten)
    assert (deletion.offsets, deletion.group_ids) == ([key], ["simple"])
    shard.forget(deletion, NOW_MS)
    assert list(shard.groups) == ["other"]
    assert shard.offsets.get(key) is None
    assert shard.offsets.get(other) is not None


def test_who_had_only_been_given_an_id_does_not_keep_a_group_from_deletion() -> None:
    driver = GroupDriver()
    shard = GroupShard(0, 0, GroupCoordinatorConfig())
    shard.groups["group"] = driver.group
    driver.group.members.pending_joins.add("anna")
    deletion = group_deletion(shard, "group")
    assert isinstance(deletion, Forgotten)
    shard.forget(deletion, NOW_MS)
    assert not shard.groups


def test_a_group_that_somebody_joins_while_the_deletion_is_written_stays(shard: GroupShard) -> None:
    driver = GroupDriver()
    shard.groups["group"] = driver.group
    deletion = group_deletion(shard, "group")
    assert isinstance(deletion, Forgotten)
    driver.join("anna")
    shard.forget(deletion, NOW_MS)
    assert "group" in shard.groups


def deleting(shard: GroupShard, *topics: str) -> ErrorCode | OffsetsDeletion:
    return offsets_deletion(shard, "group", [OffsetKey("group", topic, 0) for topic in topics])


def test_offsets_that_are_there_are_deleted_and_the_group_stays(shard: GroupShard) -> None:
    assert deleting(shard, "topic") is ErrorCode.GROUP_ID_NOT_FOUND
    key = commit(shard, "group")
    prepared = deleting(shard, "topic", "other")
    assert prepared == OffsetsDeletion(frozenset(), Forgotten([offset_tombstone(key)], [key], []))
    assert not isinstance(prepared, ErrorCode)
    shard.forget(prepared.deletion, NOW_MS)
    assert shard.offsets.get(key) is None
    assert list(shard.groups) == ["group"]


def subscribed(shard: GroupShard, protocol_type: str = "consumer") -> None:
    commit(shard, "group", "topic")
    driver = with_members(shard)
    everyone = driver.group.members.by_id
    snapshot = driver.group.snapshot(dict.fromkeys(everyone, b""))
    driver.group.restore(snapshot._replace(protocol_type=protocol_type))
    for member in driver.group.members.by_id.values():
        member.protocols = (member.protocols[0]._replace(metadata=SUBSCRIBES_TO_TOPIC),)


def test_offsets_of_topics_in_use_are_left_alone(shard: GroupShard) -> None:
    subscribed(shard)
    assert deleting(shard, "topic") == OffsetsDeletion(frozenset({"topic"}), Forgotten([], [], []))


def test_what_members_of_another_protocol_use_is_not_known(shard: GroupShard) -> None:
    subscribed(shard, "connect")
    assert deleting(shard, "topic") is ErrorCode.NON_EMPTY_GROUP
