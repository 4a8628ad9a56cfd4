"""Every answer of the group APIs, beside Apache Kafka's answer to the same."""

from collections.abc import Iterator

import pytest

from tierlog.clients.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
)
from tierlog.clients.protocol.messages.heartbeat import HeartbeatRequest
from tierlog.clients.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
)
from tierlog.clients.protocol.messages.join_group import (
    JoinGroupRequestProtocol,
)
from tierlog.clients.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tierlog.clients.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tierlog.clients.protocol.messages.sync_group import SyncGroupRequest
from tierlog.clients.protocol.schema import Message

from .twin_brokers import leave, twin_brokers
from .twins import (
    SUBSCRIPTION,
    TOPIC,
    UNKNOWN_ID,
    Ask,
    Side,
    Twins,
    committing,
    fetching_one,
    fetching_several,
    heartbeat,
    leaving,
    syncing,
    topic_ids,
)

pytestmark = pytest.mark.recorded


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    settings = {
        "group.max.size": "3",
    }
    with twin_brokers(tmp_path_factory, settings) as both:
        yield both


@pytest.fixture
def twins(ports: tuple[int, int]) -> Iterator[Twins]:
    both = Twins(*ports)
    topic_ids(both)
    yield both
    leave(both)
    both.close()


@pytest.mark.parametrize("version", range(4))
def test_find_coordinator_of_one_key(twins: Twins, version: int) -> None:
    twins.same(lambda _: FindCoordinatorRequest(key="group"), version)


@pytest.mark.parametrize("version", range(4, 7))
def test_find_coordinators_of_several_keys(twins: Twins, version: int) -> None:
    twins.same(lambda _: FindCoordinatorRequest(coordinator_keys=["group", "", "h"]), version)


@pytest.mark.parametrize("version", range(1, 7))
def test_find_coordinator_of_an_unknown_type(twins: Twins, version: int) -> None:
    request = FindCoordinatorRequest(key_type=9)
    if version < 4:
        request.key = "group"
    else:
        request.coordinator_keys = ["group"]
    twins.same(lambda _: request, version, ignoring=frozenset({"error_message"}))


@pytest.mark.parametrize("version", range(10))
def test_join_for_the_first_time(twins: Twins, version: int) -> None:
    twins.join("anna", version)
    twins.join("anna", version)


@pytest.mark.parametrize("version", range(10))
@pytest.mark.parametrize(
    "changes",
    [
        {"group_id": ""},
        {"session_timeout_ms": 5_999},
        {"session_timeout_ms": 1_800_001},
        {"protocols": []},
        {"protocol_type": ""},
        {"member_id": "eve"},
        {"member_id": "eve", "group_id": "nobody's"},
    ],
)
def test_joins_that_are_refused(twins: Twins, version: int, changes: dict[str, object]) -> None:
    twins.join("anna", version, **changes)
    for side in twins.sides:
        side.ids.clear()


def founded(twins: Twins) -> int:
    """anna leads a stable group; the generation."""
    twins.join("anna", 9)
    answer = twins.join("anna", 9)
    assert isinstance(answer, dict)
    generation = answer["generation_id"]
    assert isinstance(generation, int)
    twins.same(syncing("anna", generation), 5)
    return generation


# Generations differ between stories on the two sides only if a story did, which fails by itself.
def test_the_life_of_a_member(twins: Twins) -> None:
    generation = founded(twins)
    for version in range(5):
        twins.same(heartbeat("anna", generation), version)
        twins.same(heartbeat("anna", generation + 1), version)
        twins.same(heartbeat("eve", generation), version)
    for version in range(6):
        twins.same(syncing("anna", generation), version)
        twins.same(syncing("anna", generation + 1), version)
        twins.same(syncing("eve", generation), version)
    twins.same(syncing("anna", generation, protocol_name=None), 5)
    twins.same(syncing("anna", generation, protocol_name="sticky"), 5)
    twins.same(syncing("anna", generation, protocol_type="connect"), 5)
    twins.join("anna", 9)
    twins.same(heartbeat("anna", generation), 4)
    twins.same(heartbeat("anna", generation + 1), 4)
    twins.same(committing("anna", generation + 1), 9)


@pytest.mark.parametrize("protocols", [1, 10_000])
@pytest.mark.parametrize("metadata_bytes", [0, 2 << 20])
@pytest.mark.parametrize("assignment_bytes", [500_000, 2 << 20])
def test_groups_larger_than_a_batch_rebalance_again(
    twins: Twins, protocols: int, metadata_bytes: int, assignment_bytes: int
) -> None:
    """A member joins with what it likes: the group is written only with its assignments."""
    offered = [
        JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION + bytes(metadata_bytes))
    ]
    offered += [
        JoinGroupRequestProtocol(name=f"range-{each}", metadata=b"") for each in range(1, protocols)
    ]
    twins.join("anna", 9, protocols=offered)
    answer = twins.join("anna", 9, protocols=offered)
    assert isinstance(answer, dict)
    generation = answer["generation_id"]
    assert isinstance(generation, int)

    def sync(side: Side) -> Message:
        request = syncing("anna", generation)(side)
        assert isinstance(request, SyncGroupRequest)
        request.assignments[0].assignment = bytes(assignment_bytes)
        return request

    twins.same(sync, 5)
    twins.same(heartbeat("anna", generation), 4)
    twins.same(sync, 5)


def test_members_of_other_kinds_are_refused(twins: Twins) -> None:
    founded(twins)
    twins.join("lena", 9, protocol_type="connect")
    sticky = JoinGroupRequestProtocol(name="sticky", metadata=b"")
    twins.join("lena", 9, protocols=[sticky])
    for side in twins.sides:
        side.ids.pop("lena", None)


@pytest.mark.parametrize("version", range(2, 11))
def test_commits(twins: Twins, version: int) -> None:
    generation = founded(twins)
    twins.same(committing("anna", generation), version)
    twins.same(committing("anna", generation + 1), version)
    twins.same(committing("eve", generation), version)
    twins.same(committing(), version)
    twins.same(committing("anna", generation, group_id="nobody's"), version)
    twins.same(committing(group_id=""), version)
    twins.same(committing(group_id=f"simple-{version}"), version)
    if version < 5:
        twins.same(committing(group_id="timed", retention_time_ms=3_600_000), version)


@pytest.mark.parametrize("version", range(2, 11))
def test_commits_with_too_much_metadata_or_none(twins: Twins, version: int) -> None:
    for metadata in ("x" * 4_096, "x" * 4_097, "🎈" * 2_049, None, ""):

        def ask(side: Side, metadata: str | None = metadata) -> Message:
            request = committing(group_id="simple")(side)
            assert isinstance(request, OffsetCommitRequest)
            request.topics[0].partitions[0].committed_metadata = metadata
            return request

        twins.same(ask, version)
        twins.same(fetching_several("simple"), 9)


@pytest.mark.parametrize("version", range(2, 11))
def test_commits_of_nothing_or_unknown_topics(twins: Twins, version: int) -> None:
    twins.same(committing(group_id="simple", topics=[]), version)
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    gone = OffsetCommitRequestTopic(name="gone", topic_id=UNKNOWN_ID, partitions=[partition])
    twins.same(committing(group_id="simple", topics=[gone]), version)
    twins.same(committing("eve", 7, group_id="nobody's", topics=[gone]), version)


@pytest.mark.parametrize(("count", "metadata"), [(10_000, ""), (10_000, "x" * 100), (19_000, "")])
def test_commits_of_many_partitions(twins: Twins, count: int, metadata: str) -> None:
    """One batch, or none: UNKNOWN_SERVER_ERROR where it would be larger than the topic allows."""
    partitions = [
        OffsetCommitRequestPartition(committed_offset=each, committed_metadata=metadata)
        for each in range(count)
    ]
    topic = OffsetCommitRequestTopic(name=TOPIC, partitions=partitions)
    twins.same(committing(group_id="many", topics=[topic]), 9)
    twins.same(fetching_several("many"), 9)


@pytest.mark.parametrize("version", range(1, 8))
def test_fetches_of_one_groups_offsets(twins: Twins, version: int) -> None:
    twins.same(committing(group_id="fetched"), 8)
    twins.same(fetching_one("fetched"), version)
    twins.same(fetching_one("nobody's"), version)
    twins.same(fetching_one(""), version)
    if version > 1:
        twins.same(fetching_one("fetched", every=True), version)
        twins.same(fetching_one("nobody's", every=True), version)


@pytest.mark.parametrize("version", range(8, 11))
def test_fetches_of_several_groups_offsets(twins: Twins, version: int) -> None:
    twins.same(committing(group_id="fetched"), 8)
    twins.same(fetching_several("fetched", "nobody's", ""), version)
    twins.same(fetching_several("fetched", "nobody's", every=True), version)


@pytest.mark.parametrize("version", range(3, 6))
def test_members_leave_in_one_request(twins: Twins, version: int) -> None:
    founded(twins)
    twins.same(
        leaving(
            MemberIdentity(member_id="eve"),
            MemberIdentity(member_id="anna"),
            MemberIdentity(member_id="anna"),
            MemberIdentity(group_instance_id="nobody"),
        ),
        version,
    )


def leaving_alone(name: str) -> Ask:
    return lambda side: LeaveGroupRequest(group_id="group", member_id=side.id_of(name))


def always(request: Message) -> Ask:
    return lambda _: request


@pytest.mark.parametrize("version", range(3))
def test_members_leave_one_by_one(twins: Twins, version: int) -> None:
    founded(twins)
    for name in ("eve", "anna", "anna"):
        twins.same(leaving_alone(name), version)


@pytest.mark.parametrize("group_id", ["", "nobody's"])
def test_requests_to_groups_that_are_not_there(twins: Twins, group_id: str) -> None:
    for version in range(6):
        request = LeaveGroupRequest(
            group_id=group_id, member_id="eve", members=[MemberIdentity(member_id="eve")]
        )
        if version < 3:
            request.members = []
        else:
            request.member_id = ""
        twins.same(always(request), version)
    for version in range(5):
        twins.same(lambda _: HeartbeatRequest(group_id=group_id, member_id="eve"), version)
    for version in range(6):
        twins.same(syncing("eve", 1, group_id=group_id), version)


@pytest.mark.parametrize("version", range(5, 10))
def test_static_members_come_back(twins: Twins, version: int) -> None:
    answer = twins.join("sam", version, group_instance_id="sam")
    assert isinstance(answer, dict)
    generation = answer["generation_id"]
    assert isinstance(generation, int)
    twins.same(syncing("sam", generation, group_instance_id="sam"), 5)
    twins.same(heartbeat("sam", generation, "sam"), 4)
    twins.same(heartbeat("sam", generation, "tom"), 4)
    twins.join("sam", version, member_id="", group_instance_id="sam")
    twins.same(heartbeat("old sam", generation, "sam"), 4)
    twins.same(heartbeat("sam", generation, "sam"), 4)
    twins.same(syncing("old sam", generation, group_instance_id="sam"), 5)
    twins.same(syncing("sam", generation, group_instance_id="sam"), 5)
    twins.same(committing("old sam", generation, group_instance_id="sam"), 9)
    twins.same(leaving(MemberIdentity(member_id="old sam", group_instance_id="sam")), 5)
    twins.same(leaving(MemberIdentity(group_instance_id="sam")), 5)


@pytest.mark.parametrize("version", range(6))
def test_producer_ids(twins: Twins, version: int) -> None:
    drawn = frozenset({"producer_id"})
    timeout_ms = 60_000

    def ask(**changes: object) -> Ask:
        request = InitProducerIdRequest(transaction_timeout_ms=timeout_ms, transactional_id=None)
        for field_name, value in changes.items():
            setattr(request, field_name, value)
        return lambda _: request

    twins.same(ask(), version, ignoring=drawn)
    twins.same(ask(transactional_id=""), version)
    if version >= 3:
        twins.same(ask(producer_id=7), version)
        twins.same(ask(producer_epoch=7), version)
        twins.same(ask(producer_id=7, producer_epoch=7), version, ignoring=drawn)
