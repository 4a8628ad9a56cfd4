"""Files that nobody needs any more, and whose delay is over (`file.delete.delay.ms`).

To unlink them takes a file system long, a tenth of a second and more for a gigabyte. So the logs
only say what is to go, and whoever asks them removes it where it keeps nobody waiting.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from ..directory.log_dir import LogDir
from ..log.unified_log import UnifiedLog


class Deletion(NamedTuple):
    """Files to be removed by `remove`, which may be called in any thread.

    When it raises OSError, `log_dir.fail` is to be told in the thread of the logs.
    """

    log_dir: LogDir
    remove: Callable[[], object]

    def run(self) -> None:
        """Remove them here and now."""
        try:
            self.remove()
        except OSError as error:
            self.log_dir.fail(error)


def due_deletions(logs: Iterable[UnifiedLog], now_ms: int) -> list[Deletion]:
    """The segments that these logs have deleted long enough ago; each is answered once."""
    return [
        Deletion(log.log_dir, segment.delete)
        for log in logs
        for segment in log.local.take_due_deletes(now_ms)
    ]
