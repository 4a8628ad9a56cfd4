"""What a test does to the logs of its broker: offload, retention and compaction, at once.

The same code as in production does the work; only its waiting is left out. All of it runs on the
loop of the broker.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ..broker.broker import Broker
from ..tiering.remote_storage import Failure
from .broker_error import BrokerError

if TYPE_CHECKING:
    from collections.abc import Generator

    from ..storage.config import LogConfig
    from ..storage.log.unified_log import UnifiedLog

OFFLOADED_WITHIN_S: Final = 30.0
"""How long copying to the tier may take."""
CLEANINGS_MAX: Final = 1_000
"""Logs that one call compacts at most."""

_CHECK_S = 0.01
_LASTING: Final = (Failure.NOT_FOUND, Failure.DENIED, Failure.BROKEN)
"""What no further attempt mends: the credentials or the place of the tier are wrong."""


class LogActs:
    """The acts on one running broker."""

    def __init__(self, broker: Broker) -> None:
        assert broker.context is not None, "This process is not a broker."
        assert broker.compaction is not None
        self._context = broker.context
        self._compaction = broker.compaction
        self._remote = broker.remote_log_manager

    async def offload(self, topic: str) -> None:
        """Move all records of a topic to the tier. Raises BrokerError."""
        await self.copy_to_tier(topic)
        self.expire_local(topic)

    async def copy_to_tier(self, topic: str) -> None:
        """Copy the records that a topic has to the tier; they stay here too. Raises BrokerError."""
        ends: list[tuple[UnifiedLog, int]] = []
        for log in self._tiered_logs(topic):
            log.roll(self._now_ms())
            # What comes later belongs to nobody who has called.
            ends.append((log, log.log_end_offset))
        try:
            async with asyncio.timeout(OFFLOADED_WITHIN_S):
                for log, end in ends:
                    await self._copy(log, end)
        except TimeoutError:
            trouble = "" if self._remote is None else self._remote.tier_trouble
            raise BrokerError(
                f"Topic {topic} was not copied to the tier within {OFFLOADED_WITHIN_S:.0f} s; "
                f"{trouble or 'an open transaction or a quota may hold it.'}"
            ) from None

    def _tiered_logs(self, topic: str) -> "list[UnifiedLog]":
        logs = self._logs(topic)
        if self._remote is None:
            raise BrokerError("This broker has no tier: give it one with Broker(tier='memory').")
        if not all(log.is_tiered for log in logs):
            raise BrokerError(f"Topic {topic} is not tiered: set its remote.storage.enable=true.")
        return logs

    async def _copy(self, log: "UnifiedLog", end: int) -> None:
        """Copy the log up to this offset, unless all before it is deleted meanwhile."""
        assert self._remote is not None
        while log.highest_remote_offset < end - 1 and log.local.segments.size_in_bytes:
            if log.log_start_offset >= end:
                return
            await self._remote.run_now(log.topic_partition)
            if self._remote.tier_failure in _LASTING:
                raise BrokerError(
                    f"Topic {log.topic_partition.topic} was not copied to the tier; "
                    f"{self._remote.tier_trouble}"
                )
            await asyncio.sleep(_CHECK_S)

    def expire_local(self, topic: str) -> None:
        """Delete the local segments of a topic that are in the tier. Raises BrokerError."""
        for log in self._tiered_logs(topic):
            with _configure(log, lambda config: replace(config, local_retention_bytes=0)):
                self._context.log_manager.delete_old_segments(log, self._now_ms())

    async def apply_retention(self, topic: str | None) -> None:
        """Delete what retention lets go, here and in the tier. Raises BrokerError."""
        for log in self._logs(topic):
            self._context.log_manager.delete_old_segments(log, self._now_ms())
            if self._remote is not None and log.is_tiered:
                await self._remote.run_now(log.topic_partition)
                self._context.log_manager.delete_old_segments(log, self._now_ms())

    async def compact(self, topic: str | None) -> None:
        """Compact the logs that have a compaction policy, wholly. Raises BrokerError."""
        logs = [log for log in self._logs(topic) if log.config.is_compacted]
        if topic is not None and not logs:
            raise BrokerError(f"Topic {topic} is not compacted: set its cleanup.policy=compact.")
        for log in logs:
            log.roll(self._now_ms())
            # Only what is durable is compacted.
            log.flush()
        with _all_configured(logs, lambda config: replace(config, min_cleanable_dirty_ratio=0.0)):
            for _ in range(CLEANINGS_MAX):
                if not await self._compaction.clean_dirtiest():
                    return

    def _logs(self, topic: str | None) -> "list[UnifiedLog]":
        """The logs of a topic, or all but internal ones. Raises BrokerError."""
        logs = [
            log
            for log in self._context.log_manager.online_logs()
            if log.topic_partition.topic == topic
            or (topic is None and not log.topic_partition.topic.startswith("__"))
        ]
        if topic is not None and not logs:
            raise BrokerError(f"There is no topic {topic}.")
        return logs

    def _now_ms(self) -> int:
        return self._context.environment.wall_clock_ms()


_Change = Callable[["LogConfig"], "LogConfig"]


@contextmanager
def _configure(log: "UnifiedLog", change: _Change) -> "Generator[None]":
    """Change a log's configuration for a moment."""
    before = log.config
    changed = change(before)
    log.update_config(changed)
    try:
        yield
    finally:
        # The topic's own configuration may have been altered meanwhile.
        if log.config is changed:
            log.update_config(before)


@contextmanager
def _all_configured(logs: "Iterable[UnifiedLog]", change: _Change) -> "Generator[None]":
    with ExitStack() as stack:
        for log in logs:
            stack.enter_context(_configure(log, change))
        yield
