"""A load that meets a bug: the shard fails, as in Kafka's `CoordinatorRuntime`."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.clients.record.batch import Record
from tierlog.clients.record.builder import build_batch
from tierlog.coordinator.group.group_shard import GroupShard
from tierlog.coordinator.group_config import GroupCoordinatorConfig
from tierlog.coordinator.led_shards import SHARD_ERRORS, LedShards, ShardLog, ShardState

from .memory_offsets_log import MemoryOffsetsLog

pytestmark = pytest.mark.usefixtures("loop")

CONFIG = GroupCoordinatorConfig()


class Bug(Exception):
    """An error that no code expects."""


class BrokenLog(MemoryOffsetsLog):
    """Fails in `offsets`, or at the read from a certain offset on."""

    def __init__(self) -> None:
        super().__init__()
        self.has_broken_offsets = False
        self.breaks_at: int | None = None

    def offsets(self, partition: int) -> tuple[int, int]:
        if self.has_broken_offsets:
            raise Bug
        return super().offsets(partition)

    def read(self, partition: int, offset: int, max_bytes: int) -> bytes:
        if self.breaks_at is not None and offset >= self.breaks_at:
            raise Bug
        return super().read(partition, offset, max_bytes)


@dataclass
class Shards:
    """The shards of one coordinator, and the calls that it gets."""

    log: BrokenLog = field(default_factory=BrokenLog)
    loaded: list[GroupShard] = field(default_factory=list[GroupShard])
    lost: list[GroupShard] = field(default_factory=list[GroupShard])
    fails_to_resume: bool = False

    def __post_init__(self) -> None:
        self.led = LedShards(
            ShardLog(self.log, "__consumer_offsets", "groups", 1),
            lambda partition, epoch: GroupShard(partition, epoch, CONFIG),
            self._on_loaded,
            self.lost.append,
        )
        for _ in range(3):
            self.log.append(0, build_batch([Record(0, 0, b"\0\x7f", None, ())]))

    def _on_loaded(self, shard: GroupShard) -> None:
        if self.fails_to_resume:
            raise Bug
        self.loaded.append(shard)

    def state(self) -> ShardState:
        shard = self.led.get(0)
        assert shard is not None
        return shard.state

    async def elect(self, leader_epoch: int) -> ShardState:
        """Elect the partition's leader, and wait until nothing is loading any more."""
        self.led.on_elected(0, leader_epoch)
        for _ in range(10):
            await asyncio.sleep(0)
        return self.state()


def break_offsets(shards: Shards, is_broken: bool) -> None:
    shards.log.has_broken_offsets = is_broken


def break_first_read(shards: Shards, is_broken: bool) -> None:
    shards.log.breaks_at = 0 if is_broken else None


def break_later_read(shards: Shards, is_broken: bool) -> None:
    shards.log.breaks_at = 2 if is_broken else None


def break_resumption(shards: Shards, is_broken: bool) -> None:
    shards.fails_to_resume = is_broken


@pytest.mark.parametrize(
    "break_it", [break_offsets, break_first_read, break_later_read, break_resumption]
)
@pytest.mark.usefixtures("loop")
async def test_a_bug_in_a_load_fails_the_shard_until_the_next_election(
    break_it: Callable[[Shards, bool], None], caplog: pytest.LogCaptureFixture
) -> None:
    shards = Shards()
    break_it(shards, True)
    assert await shards.elect(5) is ShardState.FAILED
    assert SHARD_ERRORS[shards.state()] is ErrorCode.NOT_COORDINATOR
    assert len(shards.lost) == 1, "What had begun for it ends."
    assert shards.led.active() == []
    break_it(shards, False)
    assert await shards.elect(5) is ShardState.FAILED, "Kafka loads once in each epoch."
    assert await shards.elect(6) is ShardState.ACTIVE
    assert [each.leader_epoch for each in shards.loaded] == [6]
    (error,) = [each for each in caplog.records if each.levelno >= logging.ERROR]
    message = "The groups of __consumer_offsets-0 could not be loaded: Bug()."
    assert error.getMessage() == message
    assert error.exc_info, "A bug is logged with its traceback."


async def test_nothing_is_served_that_a_failover_may_undo() -> None:
    """The last of three records is on this replica alone."""
    shards = Shards()
    shards.log.replicated_to = 2
    assert await shards.elect(5) is ShardState.LOADING
    await asyncio.sleep(60)
    assert SHARD_ERRORS[shards.state()] is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    shards.log.replicate(3)
    await asyncio.sleep(0)
    assert shards.state() is ShardState.ACTIVE


async def test_a_shard_that_waits_for_its_replicas_can_be_lost() -> None:
    shards = Shards()
    shards.log.replicated_to = 2
    assert await shards.elect(5) is ShardState.LOADING
    shards.led.on_resigned(0)
    shards.log.replicate(3)
    await asyncio.sleep(60)
    assert not shards.loaded
    assert len(shards.lost) == 1
