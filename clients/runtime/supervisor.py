"""Keeps background loops running after a failure.

A loop of a broker works on many items in turn: partitions, groups, events, files. It handles the
errors that it expects; an unexpected exception must stop only the work on the item that raised it,
not the loop or the work on other items.

    while True:
        for log in logs:
            with supervisor.attempt("log retention", log.topic_partition):
                log.delete_old_segments(now_ms)
        await asyncio.sleep(interval_s + supervisor.pause_seconds("log retention"))

Every failure is counted. The first failure in a row is logged, with its traceback unless it comes
from the operating system (a full disk, no descriptor left). After that, a failure is logged each
time the number in a row has doubled, without the traceback. Recovery is logged once. The pause
doubles with each failure in a row; it is bounded and jittered.
"""

import errno
import logging
from collections import Counter
from random import Random
from types import TracebackType
from typing import Self

from ..errors import ErrorCode, KafkaError
from .backoff import Backoff

_log = logging.getLogger(__name__)

_STREAKS_MAX = 10_000
_MACHINE_ERRORS = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO}
)
_BACKOFF = Backoff(1_000, 60_000)


class Supervisor:
    """Catches, logs and counts the unexpected failures of the loops of one component."""

    def __init__(self, random: Random, backoff: Backoff = _BACKOFF) -> None:
        self._random = random
        self._backoff = backoff
        # Failures in a row, by loop and subject, in the order of the first failure.
        self._streaks: dict[tuple[str, str], int] = {}
        self.failures: Counter[str] = Counter()
        """How often each loop has failed since the start, by the loop's name."""

    def attempt(self, loop: str, subject: object = "") -> "Attempt":
        """Catch the failures of `loop` during its work on one `subject`.

        Catches every Exception, but not cancellation. `str(subject)` names the subject in the log.
        """
        return Attempt(self, loop, subject)

    def has_failed(self, loop: str, subject: object = "") -> bool:
        """Whether the last attempt failed."""
        return (loop, str(subject)) in self._streaks

    def pause_seconds(self, loop: str, subject: object = "") -> float:
        """How long to wait before the next attempt; 0 if the last one succeeded."""
        failures = self._streaks.get((loop, str(subject)), 0)
        return self._backoff.delay_seconds(failures, self._random)

    def forget(self, loop: str, subject: object = "") -> None:
        """Forget the failures of a subject that is gone and will not be tried again."""
        self._streaks.pop((loop, str(subject)), None)

    def on_success(self, loop: str, subject: object) -> None:
        """End the streak of failures, if there is one."""
        # `_streaks` is nearly always empty, so a success costs one test.
        if self._streaks and self._streaks.pop(key := (loop, str(subject)), 0):
            _log.info("%s works again", _describe(key))

    def on_failure(self, loop: str, subject: object, error: Exception) -> None:
        """Count a failure, and log it if it begins a streak or doubles one."""
        key = (loop, str(subject))
        failures = self._streaks.get(key, 0) + 1
        if failures == 1 and len(self._streaks) >= _STREAKS_MAX:
            del self._streaks[next(iter(self._streaks))]
        self._streaks[key] = failures
        self.failures[key[0]] += 1
        if failures == 1 and is_answer_of_system(error):
            _log.error("%s failed: %s", _describe(key), error)
        elif failures == 1:
            _log.error(
                "%s failed with an internal error; other tasks continue",
                _describe(key),
                exc_info=error,
            )
        elif failures & (failures - 1) == 0:
            _log.error(
                "%s has failed %d times in a row: %s: %s",
                _describe(key),
                failures,
                type(error).__name__,
                error,
            )


class Attempt:
    """One turn of a loop with one subject. After the turn, `has_failed` is its outcome."""

    __slots__ = ("_loop", "_subject", "_supervisor", "has_failed")

    def __init__(self, supervisor: Supervisor, loop: str, subject: object) -> None:
        self._supervisor = supervisor
        self._loop = loop
        self._subject = subject
        self.has_failed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> bool:
        if error is None:
            self._supervisor.on_success(self._loop, self._subject)
            return False
        if not isinstance(error, Exception):
            return False
        self.has_failed = True
        self._supervisor.on_failure(self._loop, self._subject, error)
        return True


def is_answer_of_system(error: Exception) -> bool:
    """Whether the system caused the failure, so that the error needs no traceback in the log."""
    if isinstance(error, KafkaError):
        return error.code is ErrorCode.KAFKA_STORAGE_ERROR
    return isinstance(error, OSError) and error.errno in _MACHINE_ERRORS


def _describe(key: tuple[str, str]) -> str:
    loop, subject = key
    return f"{loop} of {subject}" if subject else loop
