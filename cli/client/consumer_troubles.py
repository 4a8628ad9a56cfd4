"""Says on stderr why a consumer reads nothing: it goes on trying, and would look as if it hung.

Nothing is printed of what passes within some seconds, as an election does. Each cause is printed
once, however many partitions have it and however often it comes back.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager

from ...clients.errors import ErrorCode, KafkaError
from ...clients.runtime.task_owner import TaskOwner
from ...clients.text_table import counted
from .client_session import print_error

PRINTED_AFTER_S = 5.0
_LOOKS_EVERY_S = 0.5

_ITS_LOG = "its broker's log says why"
_REASONS = {
    ErrorCode.KAFKA_STORAGE_ERROR: _ITS_LOG,
    ErrorCode.REQUEST_TIMED_OUT: _ITS_LOG,
    ErrorCode.UNKNOWN_SERVER_ERROR: _ITS_LOG,
}

Troubles = Callable[[], Sequence[KafkaError]]


@asynccontextmanager
async def printed_troubles(troubles: Troubles) -> AsyncGenerator[None]:
    """Print the troubles that last, while the context does."""
    tasks = TaskOwner(1)
    tasks.start(_print_lasting(troubles), "troubles of the consumer")
    try:
        yield
    finally:
        await tasks.stop()


async def _print_lasting(troubles: Troubles) -> None:
    lasting = LastingTroubles()
    loop = asyncio.get_running_loop()
    while True:
        for message in lasting.due_messages(troubles(), loop.time()):
            print_error(message)
        await asyncio.sleep(_LOOKS_EVERY_S)


class LastingTroubles:
    """Which troubles have lasted, and are not printed yet."""

    def __init__(self) -> None:
        self._since: dict[ErrorCode, float] = {}
        self._printed: set[ErrorCode] = set()

    def due_messages(self, troubles: Sequence[KafkaError], now_s: float) -> list[str]:
        """The messages that are due, if these are the troubles at this time."""
        by_code: dict[ErrorCode, list[KafkaError]] = {}
        for trouble in troubles:
            by_code.setdefault(trouble.code, []).append(trouble)
        self._since = {code: self._since.get(code, now_s) for code in by_code}
        due = [code for code in by_code if now_s - self._since[code] >= PRINTED_AFTER_S]
        new = [code for code in due if code not in self._printed]
        self._printed.update(new)
        return [_message(by_code[code]) for code in new]


def _message(troubles: Sequence[KafkaError]) -> str:
    first = troubles[0]
    reason = _REASONS.get(first.code)
    why = f": {reason}" if reason else ""
    more = f" (and {counted(len(troubles) - 1, 'other')} like it)" if troubles[1:] else ""
    return f"{first.message.rstrip('.')} [{first.code.name}]{more}{why}; still trying"
