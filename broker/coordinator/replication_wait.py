"""Waits until no failover can lose what is below an offset of a coordinator's partition."""

import asyncio
from collections.abc import Callable

from ...clients.errors import ErrorCode
from .offsets_log import OffsetsLog

_ASK_AGAIN_S = 1.0


class ReplicationWait:
    """Calls `then` once, with NONE, or with the reason why this broker no longer leads.

    It may wait for as long as replicas are missing, and costs nothing meanwhile.
    """

    def __init__(
        self, log: OffsetsLog, partition: int, offset: int, then: Callable[[ErrorCode], None]
    ) -> None:
        self._log = log
        self._partition = partition
        self._offset = offset
        self._then = then
        self._pending: asyncio.Future[ErrorCode] | asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to wait; `then` may be called before this returns."""
        answer = self._log.when_replicated(self._partition, self._offset)
        if isinstance(answer, asyncio.Future):
            self._pending = answer
            answer.add_done_callback(self._answered)
        elif answer is ErrorCode.REQUEST_TIMED_OUT:
            # Too many wait already: it was not even tried.
            self._pending = asyncio.get_running_loop().call_later(_ASK_AGAIN_S, self.start)
        else:
            self._settle(answer)

    def cancel(self) -> None:
        """Wait no longer: `then` is not called."""
        if self._pending is not None:
            self._pending.cancel()

    def _answered(self, answer: asyncio.Future[ErrorCode]) -> None:
        if answer.cancelled():
            return
        if answer.result() is ErrorCode.REQUEST_TIMED_OUT:
            self.start()
        else:
            self._settle(answer.result())

    def _settle(self, error: ErrorCode) -> None:
        self._pending = None
        self._then(error)
