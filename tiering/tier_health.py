"""Whether the tier works; logged once when it fails and once when it works again.

During an outage, copying, expiration and removal fail for every partition until it ends. The
operator sees one log line.
"""

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

    def works(self) -> None:
        """Record a successful operation; log it if the tier failed before."""
        if self.trouble:
            _log.warning("The remote tier works again")
            self.trouble, self.failure = "", None
