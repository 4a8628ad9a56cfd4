"""The end offsets of metadata partitions, of those whose leaders answer.

A metadata partition may have no leader, for a moment or for long. That must not keep this broker
from reading the others: one that does not answer is left out, and asked again after a while.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping

from ...clients.errors import KafkaError

RETRY_SECONDS = 2.0
"""After this time a partition that did not answer is asked again."""

AskForEnds = Callable[[Collection[int]], Awaitable[Mapping[int, int]]]
"""Returns the end offset of each partition. Raises KafkaError if that of any is not available."""


class EndOffsets:
    """See the top of this file."""

    def __init__(self, ask: AskForEnds) -> None:
        self._ask = ask
        self._retry_at: dict[int, float] = {}
        """By partition that did not answer, in seconds of the event loop's clock."""
        self.failure: KafkaError | None = None
        """Why the last one did not answer; None once all have answered."""

    async def of(self, numbers: Collection[int]) -> dict[int, int]:
        """The end offsets of these partitions, as far as their leaders answer."""
        now = asyncio.get_running_loop().time()
        self._retry_at = {each: at for each, at in self._retry_at.items() if each in numbers}
        due = [number for number in sorted(numbers) if self._retry_at.get(number, now) <= now]
        ends: dict[int, int] = {}
        if due and not await self._take(due, ends) and len(due) > 1:
            await asyncio.gather(*(self._take([each], ends) for each in due))
        now = asyncio.get_running_loop().time()
        for each in due:
            if each in ends:
                self._retry_at.pop(each, None)
            else:
                self._retry_at[each] = now + RETRY_SECONDS
        if not self._retry_at:
            self.failure = None
        return ends

    async def _take(self, numbers: Collection[int], ends: dict[int, int]) -> bool:
        """Add the end offsets of these partitions to `ends`, if all of them answer."""
        try:
            ends.update(await self._ask(numbers))
        except KafkaError as error:
            self.failure = error
            return False
        return True
