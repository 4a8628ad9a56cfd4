"""Deleted files whose delay is over (`file.delete.delay.ms`).

Unlinking is slow: a tenth of a second or more for a gigabyte. So the logs only list the files, and
the caller removes them in another thread, where this blocks nothing.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from ..directory.log_dir import LogDir
from ..log.unified_log import UnifiedLog


class Deletion(NamedTuple):
    """Files to be removed by `remove`, which may be called in any thread.

    If `remove` raises OSError, call `log_dir.fail` in the thread that uses the logs.
    """

    log_dir: LogDir
    remove: Callable[[], object]

    def run(self) -> None:
        """Remove the files now, in this thread."""
        try:
            self.remove()
        except OSError as error:
            self.log_dir.fail(error)


def due_deletions(logs: Iterable[UnifiedLog], now_ms: int) -> list[Deletion]:
    """The deleted segments of these logs whose delay is over; each is returned once."""
    return [
        Deletion(log.log_dir, segment.delete)
        for log in logs
        for segment in log.local.take_due_deletes(now_ms)
    ]
