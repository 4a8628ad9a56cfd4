"""The shell of the consumer protocol in virtual time over a log in memory."""

import asyncio
from collections.abc import Mapping
from typing import TypeVar, cast

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.coordinator.consumer.consumer_group_description import ConsumerGroupDescription
from tierlog.coordinator.consumer.consumer_heartbeat import ConsumerHeartbeat, HeartbeatAnswer
from tierlog.coordinator.consumer.regex_lookup import RegexLookup
from tierlog.coordinator.consumer.topic_partitions import NOTHING
from tierlog.coordinator.group.group_coordinator import GroupCoordinator
from tierlog.coordinator.group_actions import GroupProtocol, JoinRequest, JoinResult, MemberIdentity
from tierlog.coordinator.group_config import GroupCoordinatorConfig
from tierlog.coordinator.offsets import CommitRequest, FetchTopic, MemberClaim, OffsetToCommit
from tierlog.coordinator.offsets_topic import partition_for
from tierlog.coordinator.result_or_future import ResultOrFuture
from tierlog.replication.metadata.cluster_image import (
    ClusterDelta,
    ConfigResource,
    ConfigResourceType,
)
from tierlog.tests.simulation.environment import SimulatedEnvironment
from tierlog.tests.simulation.loop import SimulatedLoop

from ..consumer.member_wishes import wish
from ..consumer_group_driver import GROUP, image_of, topic_id
from ..group_driver import committed
from ..memory_offsets_log import MemoryOffsetsLog

PARTITION = partition_for(GROUP, 50)
T = TypeVar("T")


class Broker:
    """A coordinator that leads the group's partition."""

    def __init__(self, loop: SimulatedLoop, log: MemoryOffsetsLog | None = None) -> None:
        self.log = log or MemoryOffsetsLog()
        config = GroupCoordinatorConfig(offsets_load_buffer_size=200)
        self.coordinator = GroupCoordinator(config, SimulatedEnvironment(loop), self.log)
        self.coordinator.start()
        self.version = 0
        self.publish({"red": 2})

    def publish(self, topics: Mapping[str, int], settings: Mapping[str, str] | None = None) -> None:
        """The cluster has these topics, and the group these settings."""
        self.version += 1
        image = image_of(topics, self.version)
        if settings is not None:
            resource = ConfigResource(ConfigResourceType.GROUP, GROUP)
            cast("dict[object, object]", image.configs)[resource] = settings
        delta = ClusterDelta.between(image_of({}), image)
        self.coordinator.publish(image, delta)

    async def elect(self, leader_epoch: int = 0) -> None:
        self.coordinator.on_elected(PARTITION, leader_epoch)
        for _ in range(1_000):
            if self.describe()[0] is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                return
            await asyncio.sleep(0)
        raise AssertionError("the log was never read to its end")

    def describe(self) -> tuple[ErrorCode, ConsumerGroupDescription | None]:
        return self.coordinator.describe_consumer_group(GROUP)

    def state(self) -> str:
        _, group = self.describe()
        return "" if group is None else group.state

    def ask(
        self, request: ConsumerHeartbeat, member_id_is_ours: bool = False
    ) -> ResultOrFuture[HeartbeatAnswer | KafkaError]:
        return self.coordinator.consumer_group_heartbeat(request, member_id_is_ours)

    async def beat(self, request: ConsumerHeartbeat) -> HeartbeatAnswer:
        answer = await later(self.ask(request))
        assert isinstance(answer, HeartbeatAnswer), answer
        return answer

    async def refused(self, request: ConsumerHeartbeat) -> ErrorCode:
        answer = await later(self.ask(request))
        assert isinstance(answer, KafkaError), answer
        return answer.code


async def later(answer: ResultOrFuture[T]) -> T:
    if isinstance(answer, asyncio.Future):
        return await cast("asyncio.Future[T]", answer)
    return answer


def joining(name: str, **changes: object) -> ConsumerHeartbeat:
    request = ConsumerHeartbeat(
        GROUP, name, 0, rebalance_timeout_ms=60_000, subscribed_topic_names=("red",), owned=NOTHING
    )
    return request._replace(**changes)  # type: ignore[arg-type]  # plain fields


def living(name: str, epoch: int) -> ConsumerHeartbeat:
    return ConsumerHeartbeat(GROUP, name, epoch)


async def test_an_answer_waits_until_the_log_has_what_it_rests_on(loop: SimulatedLoop) -> None:
    broker = Broker(loop)
    await broker.elect()
    broker.log.delay_s = 1.0
    answer = broker.ask(joining("anna"))
    assert isinstance(answer, asyncio.Future)
    # The next has nothing to write, but what it says rests on what is on its way.
    second = broker.ask(living("anna", 2))
    assert isinstance(second, asyncio.Future)
    await asyncio.sleep(0.9)
    assert not answer.done()
    assert not second.done()
    await asyncio.sleep(0.2)
    assert answer.done()
    assert second.done()
    third = broker.ask(living("anna", 2))
    assert isinstance(third, HeartbeatAnswer), "nothing is on its way any more"


async def test_a_classic_member_has_left_when_the_log_has_it(loop: SimulatedLoop) -> None:
    broker = Broker(loop)
    await broker.elect()
    await broker.beat(joining("anna"))
    identities = [MemberIdentity("anna", None), MemberIdentity("bert", None)]
    leave = broker.coordinator.leave_group
    broker.log.refuse = ErrorCode.NOT_ENOUGH_REPLICAS
    refused = await later(leave(GROUP, identities))
    assert refused == (ErrorCode.COORDINATOR_NOT_AVAILABLE, [])
    broker.log.refuse = ErrorCode.NONE
    broker.log.delay_s = 1.0
    answer = leave(GROUP, identities)
    assert isinstance(answer, asyncio.Future)
    errors = [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert await answer == (ErrorCode.NONE, errors)
    assert broker.state() == "Empty"


async def test_what_the_log_refuses_has_not_happened(loop: SimulatedLoop) -> None:
    broker = Broker(loop)
    await broker.elect()
    broker.log.refuse = ErrorCode.NOT_ENOUGH_REPLICAS
    assert await broker.refused(joining("anna")) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert broker.describe()[0] is ErrorCode.GROUP_ID_NOT_FOUND
    broker.log.refuse = ErrorCode.NONE
    assert (await broker.beat(joining("anna"))).member_epoch == 2
    broker.log.refuse = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert await broker.refused(living("anna", -1)) is ErrorCode.NOT_COORDINATOR
    broker.log.refuse = ErrorCode.NONE
    assert (await broker.beat(living("anna", 2))).member_epoch == 2, "it has not left"


async def test_a_group_goes_on_at_the_next_leader(loop: SimulatedLoop) -> None:
    first = Broker(loop)
    await first.elect()
    await first.beat(joining("anna"))
    await first.beat(joining("bert", instance_id="one"))
    before = first.describe()
    first.coordinator.on_resigned(PARTITION)
    assert await first.refused(living("anna", 2)) is ErrorCode.NOT_COORDINATOR
    second = Broker(loop, first.log)
    second.coordinator.on_elected(PARTITION, 1)
    loading = await second.refused(living("anna", 2))
    assert loading is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await second.elect(1)
    assert second.describe() == before
    assert (await second.beat(living("anna", 2))).member_epoch == 2
    # Everyone has a full session again, and no more than that.
    await asyncio.sleep(44)
    assert (await second.beat(living("anna", 2))).member_epoch == 2
    await asyncio.sleep(2)
    _, group = second.describe()
    assert group is not None
    assert [member.member_id for member in group.members] == ["anna"]


async def test_who_cannot_be_put_out_now_is_put_out_soon(loop: SimulatedLoop) -> None:
    broker = Broker(loop)
    await broker.elect()
    await broker.beat(joining("anna"))
    broker.log.refuse = ErrorCode.NOT_ENOUGH_REPLICAS
    await asyncio.sleep(60)
    assert broker.state() == "Stable", "it could not be written that it is out"
    broker.log.refuse = ErrorCode.NONE
    await asyncio.sleep(1)
    assert broker.state() == "Empty"


async def test_who_is_heard_of_again_before_it_could_be_put_out_stays(loop: SimulatedLoop) -> None:
    broker = Broker(loop)
    await broker.elect()
    await broker.beat(joining("anna"))
    broker.log.refuse = ErrorCode.NOT_ENOUGH_REPLICAS
    await asyncio.sleep(45.2)
    assert (await broker.beat(living("anna", 2))).member_epoch == 2
    broker.log.refuse = ErrorCode.NONE
    await asyncio.sleep(44)
    assert broker.state() == "Stable"


async def test_who_asks_in_vain_is_alive_all_the_same(loop: SimulatedLoop) -> None:
    broker = Broker(loop)
    await broker.elect()
    await broker.beat(joining("anna"))
    broker.log.refuse = ErrorCode.NOT_ENOUGH_REPLICAS
    for _ in range(10):
        await asyncio.sleep(10)
        changed = living("anna", 2)._replace(subscribed_topic_names=("red", "blue"))
        assert await broker.refused(changed) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    broker.log.refuse = ErrorCode.NONE
    await asyncio.sleep(10)
    assert (await broker.beat(living("anna", 2))).member_epoch == 2


async def test_who_has_resigned_expels_nobody(loop: SimulatedLoop) -> None:
    broker = Broker(loop)
    await broker.elect()
    await broker.beat(joining("anna"))
    before = bytes(broker.log.partitions[PARTITION])
    broker.coordinator.on_resigned(PARTITION)
    await asyncio.sleep(100)
    assert bytes(broker.log.partitions[PARTITION]) == before


async def test_version_0_is_given_an_id(loop: SimulatedLoop) -> None:
    broker = Broker(loop)
    await broker.elect()
    answer = await later(broker.ask(joining(""), member_id_is_ours=True))
    assert isinstance(answer, HeartbeatAnswer)
    assert len(answer.member_id) == 22
    assert await broker.refused(joining("")) is ErrorCode.INVALID_REQUEST


async def test_a_pattern_is_looked_up_behind_the_answer(loop: SimulatedLoop) -> None:
    broker = Broker(loop)
    broker.publish({f"red {number}": 1 for number in range(1_000)} | {"blue": 1})
    await broker.elect()
    request = joining("anna", subscribed_topic_names=None, subscribed_topic_regex="red.*")
    assert (await broker.beat(request)).assigned == {}
    await asyncio.sleep(1)
    assigned = (await broker.beat(living("anna", 1))).assigned
    assert assigned is not None
    assert len(assigned) == 1_000


async def test_patterns_of_many_groups_are_looked_up_one_stretch_a_turn(
    loop: SimulatedLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each stretch may take tens of milliseconds, and other clients wait for a whole turn."""
    turn = 0
    stretches: list[int] = []
    go_on = RegexLookup.is_done_after_next

    def noted(lookup: RegexLookup) -> bool:
        stretches.append(turn)
        return go_on(lookup)

    monkeypatch.setattr(RegexLookup, "is_done_after_next", noted)
    broker = Broker(loop)
    broker.publish({f"red {number}": 1 for number in range(100)})
    await broker.elect()
    names = (f"group {number}" for number in range(1_000))
    groups = [name for name in names if partition_for(name, 50) == PARTITION][:5]
    for group in groups:
        request = joining("anna", subscribed_topic_names=None, subscribed_topic_regex="red.*")
        await broker.beat(request._replace(group_id=group))
    while turn < 200:
        turn += 1
        await asyncio.sleep(0)
    for group in groups:
        answer = await broker.beat(living("anna", 1)._replace(group_id=group))
        assert answer.assigned is not None
        assert len(answer.assigned) == 100
    late = [each for each in stretches if each]
    assert late
    assert len(late) == len(set(late))


async def test_topics_and_settings_change_while_the_group_lives(loop: SimulatedLoop) -> None:
    broker = Broker(loop)
    await broker.elect()
    assert (await broker.beat(joining("anna"))).heartbeat_interval_ms == 5_000
    settings = {"consumer.heartbeat.interval.ms": "7000", "consumer.session.timeout.ms": "50000"}
    broker.publish({"red": 3}, settings)
    await asyncio.sleep(2)
    answer = await broker.beat(living("anna", 2))
    assert answer.heartbeat_interval_ms == 7_000
    assert answer.assigned is not None
    assert len(answer.assigned) == 3
    await asyncio.sleep(49)
    assert broker.state() == "Stable"
    await asyncio.sleep(2)
    assert broker.state() == "Empty"


def commit(member: str, epoch: int, partition: int = 0) -> CommitRequest:
    wanted = OffsetToCommit("red", topic_id("red"), partition, 42, -1, None)
    return CommitRequest(GROUP, MemberIdentity(member, None), epoch, None, True, [wanted])


async def test_offsets_are_for_members_and_stay_while_they_are_subscribed_to(
    loop: SimulatedLoop,
) -> None:
    broker = Broker(loop)
    await broker.elect()
    await broker.beat(joining("anna"))
    stale = await later(committed(broker.coordinator, commit("anna", 1)))
    assert stale == [ErrorCode.STALE_MEMBER_EPOCH]
    stranger = await later(committed(broker.coordinator, commit("bert", 2)))
    assert stranger == [ErrorCode.UNKNOWN_MEMBER_ID]
    old = commit("anna", 2)._replace(knows_group_id_not_found=False)
    too_old = await later(committed(broker.coordinator, old))
    assert too_old == [ErrorCode.UNSUPPORTED_VERSION]
    done = await later(committed(broker.coordinator, commit("anna", 2)))
    assert done == [ErrorCode.NONE]
    asked = [FetchTopic("red", topic_id("red"), [0])]
    for claim, expected in (
        (MemberClaim(), ErrorCode.NONE),
        (MemberClaim("anna", 2), ErrorCode.NONE),
        (MemberClaim("anna", 1), ErrorCode.STALE_MEMBER_EPOCH),
        (MemberClaim("bert", 2), ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        found = broker.coordinator.fetch_offsets(GROUP, asked, False, claim)
        assert (await later(found))[0] is expected
    in_use = broker.coordinator.delete_offsets(GROUP, [("red", 0)])[1]
    assert in_use == {"red"}


async def test_only_an_empty_group_is_deleted_and_then_its_id_is_free(loop: SimulatedLoop) -> None:
    broker = Broker(loop)
    await broker.elect()
    await broker.beat(joining("anna"))
    await later(committed(broker.coordinator, commit("anna", 2)))
    delete = broker.coordinator.delete_group
    assert await later(delete(GROUP)) is ErrorCode.NON_EMPTY_GROUP
    overview = broker.coordinator.list_groups([], ["consumer"])[1]
    assert [(each.group_id, each.state) for each in overview] == [(GROUP, "Stable")]
    assert broker.coordinator.list_groups([], ["classic"])[1] == []
    await broker.beat(living("anna", -1))
    assert await later(delete(GROUP)) is ErrorCode.NONE
    assert broker.describe()[0] is ErrorCode.GROUP_ID_NOT_FOUND
    again = Broker(loop, broker.log)
    await again.elect()
    assert again.describe()[0] is ErrorCode.GROUP_ID_NOT_FOUND
    assert again.coordinator.list_groups([], [])[1] == []


@pytest.mark.simulated(time_limit_s=30 * 86_400)
async def test_an_empty_group_with_old_offsets_is_forgotten(loop: SimulatedLoop) -> None:
    broker = Broker(loop)
    await broker.elect()
    await broker.beat(joining("anna"))
    await later(committed(broker.coordinator, commit("anna", 2)))
    await broker.beat(living("anna", -1))
    await asyncio.sleep(6 * 86_400)
    assert broker.state() == "Empty"
    await asyncio.sleep(2 * 86_400)
    assert broker.describe()[0] is ErrorCode.GROUP_ID_NOT_FOUND


async def test_a_classic_member_is_served_by_the_group_it_finds(loop: SimulatedLoop) -> None:
    broker = Broker(loop)
    await broker.elect()
    await broker.beat(joining("anna"))
    await asyncio.sleep(2)
    request = JoinRequest(
        GROUP,
        "carl",
        None,
        "carl",
        "/127.0.0.1",
        10_000,
        20_000,
        "consumer",
        (GroupProtocol("range", wish()),),
        "",
        True,
        True,
    )
    joined = await later(broker.coordinator.join_group(request))
    assert isinstance(joined, JoinResult)
    assert (joined.error, joined.generation) == (ErrorCode.NONE, 3)
    identity = MemberIdentity("carl", None)
    assert broker.coordinator.heartbeat(GROUP, identity, 3) is ErrorCode.NONE
    await broker.beat(living("anna", -1))
    assert broker.describe()[0] is ErrorCode.GROUP_ID_NOT_FOUND, "it is a classic one now"
    rejoin = broker.coordinator.heartbeat(GROUP, identity, 3)
    assert rejoin is ErrorCode.REBALANCE_IN_PROGRESS
    again = await later(broker.coordinator.join_group(request))
    assert again.leader == "carl"
    errors = broker.coordinator.leave_group(GROUP, [identity])
    assert errors == (ErrorCode.NONE, [ErrorCode.NONE])
    # Empty as it is, it gives way to a consumer again, and that group to a classic member.
    await broker.beat(joining("dora"))
    await broker.beat(living("dora", -1))
    unknown = await later(broker.coordinator.join_group(request))
    assert unknown.error is ErrorCode.UNKNOWN_MEMBER_ID
    new = request._replace(member_id="", new_member_id="dave")
    broker.log.refuse = ErrorCode.NOT_ENOUGH_REPLICAS
    refused = await later(broker.coordinator.join_group(new))
    assert refused.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert broker.state() == "Empty"
    broker.log.refuse = ErrorCode.NONE
    await later(broker.coordinator.join_group(new))
    assert broker.describe()[0] is ErrorCode.GROUP_ID_NOT_FOUND
