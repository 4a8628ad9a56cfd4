"""How many searches that take long are made at once, and whose turn is next.

A search for a timestamp in a compressed batch holds what it has decompressed, and takes seconds if
the batch was made for that. Only few are made at once, so that many of them need no more memory
than those. The others wait and hold nothing. Partitions take turns: many searches in one partition
do not hold up a search in another.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from ...clients.topic_partition import TopicPartition

SEARCHES_AT_ONCE = 2
"""Each holds one decompressed batch at most."""


class SearchSlots:
    """The slots of one broker."""

    def __init__(self, at_once: int = SEARCHES_AT_ONCE) -> None:
        self._free = at_once
        self._waiting: dict[TopicPartition, deque[asyncio.Future[None]]] = {}

    @property
    def waiting(self) -> int:
        """How many searches wait."""
        return sum(map(len, self._waiting.values()))

    @asynccontextmanager
    async def slot(self, partition: TopicPartition) -> AsyncGenerator[None]:
        """Wait for a slot, and keep it in the block."""
        await self._take(partition)
        try:
            yield
        finally:
            self._give_back()

    async def _take(self, partition: TopicPartition) -> None:
        if self._free:
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(partition, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                # It had the slot already.
                self._give_back()
            raise

    def _give_back(self) -> None:
        """Let the next partition have the slot."""
        while self._waiting:
            partition = next(iter(self._waiting))
            turns = self._waiting.pop(partition)
            turn = turns.popleft()
            if turns:
                # Behind the other partitions.
                self._waiting[partition] = turns
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
