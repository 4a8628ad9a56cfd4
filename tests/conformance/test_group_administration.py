"""What administrators ask of groups: the answers of Apache Kafka and ours, and Kafka's tools."""

from collections.abc import Iterator

import pytest

from tierlog.clients.protocol.messages.join_group import JoinGroupRequestProtocol
from tierlog.clients.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity

from .group_requests import deleting, deleting_offsets, describing, listing
from .twin_brokers import delete_groups, leave, twin_brokers
from .twins import (
    TOPIC,
    Twins,
    committing,
    fetching_several,
    leaving,
    syncing,
    topic_ids,
)

pytestmark = pytest.mark.recorded


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    with twin_brokers(tmp_path_factory, {}) as both:
        yield both


@pytest.fixture
def twins(ports: tuple[int, int]) -> Iterator[Twins]:
    both = Twins(*ports)
    topic_ids(both)
    yield both
    leave(both)
    delete_groups(both, "group", "simple", "connect")
    both.close()


def founded(twins: Twins, **changes: object) -> int:
    """anna leads a stable group; the generation."""
    twins.join("anna", 9, **changes)
    answer = twins.join("anna", 9, **changes)
    assert isinstance(answer, dict)
    generation = answer["generation_id"]
    assert isinstance(generation, int)
    return generation


def stable(twins: Twins) -> int:
    generation = founded(twins)
    twins.same(syncing("anna", generation), 5)
    return generation


@pytest.mark.parametrize("version", range(6))
def test_groups_are_listed(twins: Twins, version: int) -> None:
    twins.same(listing(), version)
    twins.same(committing(group_id="simple"), 9)
    twins.join("anna", 9)
    twins.same(listing(), version)
    generation = founded(twins)
    twins.same(listing(), version)
    twins.same(syncing("anna", generation), 5)
    twins.same(listing(), version)


FILTERS = [["Stable"], ["STABLE", "empty"], ["Dead"], ["nonsense"], [""], ["Empty", "nonsense"]]


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("states", FILTERS)
def test_groups_are_listed_by_state(twins: Twins, version: int, states: list[str]) -> None:
    stable(twins)
    twins.same(committing(group_id="simple"), 9)
    twins.same(listing(states), version)


@pytest.mark.parametrize(
    "types", [["classic"], ["Classic"], ["consumer"], ["nonsense"], ["classic", "nonsense"], [""]]
)
def test_groups_are_listed_by_type(twins: Twins, types: list[str]) -> None:
    stable(twins)
    twins.same(committing(group_id="simple"), 9)
    twins.same(listing(types=types), 5)
    twins.same(listing(["Empty"], types), 5)


@pytest.mark.parametrize("version", range(7))
def test_groups_are_described_in_every_state(twins: Twins, version: int) -> None:
    twins.same(describing("nobody's", ""), version)
    twins.same(committing(group_id="simple"), 9)
    twins.join("anna", 9)
    twins.same(describing("group", "simple"), version)
    generation = founded(twins)
    twins.same(describing("group"), version)
    twins.same(syncing("anna", generation), 5)
    twins.same(describing("group", "simple", "group"), version)
    if version >= 3:
        twins.same(describing("group", "nobody's", operations=True), version)


@pytest.mark.parametrize("version", range(7))
def test_static_members_are_described(twins: Twins, version: int) -> None:
    answer = twins.join("sam", 9, group_instance_id="sam")
    assert isinstance(answer, dict)
    generation = answer["generation_id"]
    assert isinstance(generation, int)
    twins.same(syncing("sam", generation, group_instance_id="sam"), 5)
    twins.same(describing("group"), version)
    twins.same(leaving(MemberIdentity(group_instance_id="sam")), 5)
    twins.same(describing("group"), version)


@pytest.mark.parametrize("version", range(3))
def test_groups_are_deleted(twins: Twins, version: int) -> None:
    twins.same(committing(group_id="simple"), 9)
    stable(twins)
    twins.same(deleting("simple", "group", "nobody's", "", "simple"), version)
    twins.same(fetching_several("simple", every=True), 9)
    twins.same(listing(), 5)
    twins.same(describing("simple"), 6)
    twins.same(leaving(MemberIdentity(member_id="anna")), 5)
    twins.same(deleting("group"), version)
    twins.same(deleting("group"), version)


def test_a_group_that_only_waits_for_its_first_member_can_be_deleted(twins: Twins) -> None:
    twins.join("anna", 9)
    twins.same(deleting("group"), 2)
    twins.join("anna", 9)


def test_offsets_are_deleted(twins: Twins) -> None:
    twins.same(deleting_offsets("nobody's", **{TOPIC: [0]}), 0)
    twins.same(deleting_offsets("", **{TOPIC: [0]}), 0)
    twins.same(deleting_offsets("nobody's"), 0)
    twins.same(deleting_offsets("", nowhere=[0]), 0)
    twins.same(deleting_offsets("nobody's", nowhere=[0]), 0)
    twins.same(committing(group_id="simple"), 9)
    twins.same(deleting_offsets("simple", **{TOPIC: [0, 1, 9], "nowhere": [0]}), 0)
    twins.same(fetching_several("simple"), 9)
    twins.same(deleting_offsets("simple", **{TOPIC: [0]}), 0)
    twins.same(deleting_offsets("simple"), 0)


def test_offsets_of_a_topic_in_use_stay(twins: Twins) -> None:
    generation = stable(twins)
    twins.same(committing("anna", generation), 9)
    twins.same(deleting_offsets("group", **{TOPIC: [0, 1, 9]}), 0)
    twins.same(fetching_several("group"), 9)
    twins.same(leaving(MemberIdentity(member_id="anna")), 5)
    twins.same(deleting_offsets("group", **{TOPIC: [0, 1]}), 0)
    twins.same(fetching_several("group"), 9)


def test_offsets_of_a_topic_that_the_group_has_left_go(twins: Twins) -> None:
    other = JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\1\0\5other\0\0\0\0")
    founded(twins, protocols=[other])
    twins.same(committing("anna", 1), 9)
    twins.same(deleting_offsets("group", **{TOPIC: [0, 1]}), 0)
    twins.same(fetching_several("group"), 9)


def test_what_members_of_another_kind_use_is_not_known(twins: Twins) -> None:
    founded(twins, group_id="connect", protocol_type="connect")
    twins.same(deleting_offsets("connect", **{TOPIC: [0]}), 0)
    for side in twins.sides:
        member = MemberIdentity(member_id=side.ids["anna"])
        request = LeaveGroupRequest(group_id="connect", members=[member])
        side.client.receive(side.client.send(request, 5))
    twins.same(deleting_offsets("connect", **{TOPIC: [0]}), 0)
