"""Shared by tests: a broker that coordinates groups."""

import asyncio
from typing import TypeVar, cast

from tierlog.clients.errors import ErrorCode
from tierlog.clients.kafka_uuid import ZERO_UUID, Uuid
from tierlog.coordinator.fetched_offsets import Fetched
from tierlog.coordinator.group.group_coordinator import GroupCoordinator
from tierlog.coordinator.group_actions import (
    GroupProtocol,
    JoinRequest,
    JoinResult,
    MemberIdentity,
    SyncRequest,
    SyncResult,
)
from tierlog.coordinator.group_config import GroupCoordinatorConfig
from tierlog.coordinator.offsets import CommitRequest, FetchTopic, OffsetToCommit
from tierlog.coordinator.offsets_topic import partition_for
from tierlog.coordinator.result_or_future import ResultOrFuture
from tierlog.tests.simulation.environment import SimulatedEnvironment
from tierlog.tests.simulation.loop import SimulatedLoop

from ..group_driver import committed
from ..memory_offsets_log import MemoryOffsetsLog

GROUP = "group"
PARTITION = partition_for(GROUP, 50)
TOPIC_ID = Uuid(bytes(range(16)))
T = TypeVar("T")


class Broker:
    """A coordinator that leads the group's partition."""

    def __init__(self, loop: SimulatedLoop, log: MemoryOffsetsLog | None = None) -> None:
        self.log = log or MemoryOffsetsLog()
        config = GroupCoordinatorConfig(offsets_load_buffer_size=200)
        self.coordinator = GroupCoordinator(config, SimulatedEnvironment(loop), self.log)
        self.coordinator.start()

    async def elect(self, leader_epoch: int = 0) -> None:
        self.coordinator.on_elected(PARTITION, leader_epoch)
        await self.loaded()

    async def loaded(self) -> None:
        for _ in range(1_000):
            # While a group is being loaded, a heartbeat is answered NONE.
            if self.heartbeat("nobody"):
                return
            await asyncio.sleep(0)
        raise AssertionError("the log was never read to its end")

    async def join(self, name: str) -> JoinResult:
        request = join_request(name)
        first = self.coordinator.join_group(request)
        assert isinstance(first, JoinResult)
        assert first.error is ErrorCode.MEMBER_ID_REQUIRED
        return await later(self.coordinator.join_group(request._replace(member_id=name)))

    async def sync(self, name: str, joined: JoinResult) -> SyncResult:
        everyone = {member.member_id: member.member_id.encode() for member in joined.members}
        request = SyncRequest(GROUP, name, None, joined.generation, "consumer", "range", everyone)
        return await later(self.coordinator.sync_group(request))

    def heartbeat(self, name: str, generation: int = 1) -> ErrorCode:
        return self.coordinator.heartbeat(GROUP, MemberIdentity(name, None), generation)

    async def commit(self, offset: int) -> list[ErrorCode]:
        return await later(committed(self.coordinator, commit_request(offset)))

    async def fetch(self, require_stable: bool = False) -> Fetched:
        wanted = [FetchTopic("topic", ZERO_UUID, [0])]
        return await later(self.coordinator.fetch_offsets(GROUP, wanted, require_stable))

    async def committed(self, require_stable: bool = False) -> int:
        error, topics = await self.fetch(require_stable)
        assert not error
        return topics[0].partitions[0][1].offset


async def later(answer: ResultOrFuture[T]) -> T:
    if isinstance(answer, asyncio.Future):
        return await cast("asyncio.Future[T]", answer)
    return answer


def join_request(name: str) -> JoinRequest:
    return JoinRequest(
        GROUP,
        "",
        None,
        name,
        "/127.0.0.1",
        10_000,
        60_000,
        "consumer",
        (GroupProtocol("range", b"\0\0\0\0\0\1\0\5topic\0\0\0\0"),),
        name,
        True,
        True,
    )


def commit_request(offset: int, topic: str = "topic") -> CommitRequest:
    wanted = OffsetToCommit(topic, TOPIC_ID, 0, offset, 3, "why")
    return CommitRequest(GROUP, MemberIdentity("", None), -1, None, True, [wanted])
