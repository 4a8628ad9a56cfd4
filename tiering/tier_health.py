"""Whether the tier works; logged once when it fails and once when it works again.

During an outage, copying, expiration and removal fail for every partition until it ends. The
operator sees one log line. A request that alone gets no answer, while others do, is no outage: its
task is named, and the tier counts as working.
"""

import asyncio
import logging

from .remote_storage import Failure, RemoteStorageError
from .tier_owner import NotTheOwnerError

_log = logging.getLogger(__name__)


class TierHealth:
    """See the top of this file."""

    def __init__(self) -> None:
        self.trouble = ""
        """What is wrong with the tier, in a sentence; empty while it works."""
        self.failure: Failure | None = None
        """The kind of this trouble; None while the tier works."""
        self._worked_at = float("-inf")

    def fails(self, error: RemoteStorageError) -> None:
        """Record a failed operation; log it if the trouble is new."""
        is_another_matter = isinstance(error, NotTheOwnerError) and str(error) != self.trouble
        if not self.trouble or is_another_matter:
            _log.warning(
                "%s. Local data is still served, nothing is deleted that is not in the tier, "
                "and copying is retried.",
                error,
            )
        self.trouble, self.failure = str(error), error.failure

    def task_fails(self, task: str, began: float, error: RemoteStorageError) -> None:
        """Record that a task, such as "Copying of orders-0", has failed; `began` is loop time."""
        is_alone = error.failure is Failure.UNREACHABLE and self._worked_at > began
        if not is_alone or self.trouble:
            self.fails(error)
            return
        _log.warning(
            "%s is held up by a request of its own, while others are answered: %s. It is tried "
            "again.",
            task,
            error,
        )

    def works(self) -> None:
        """Record a successful operation; log it if the tier failed before."""
        self._worked_at = asyncio.get_running_loop().time()
        if self.trouble:
            _log.warning("The remote tier works again")
            self.trouble, self.failure = "", None
