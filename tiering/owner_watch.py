"""Looks now and then whether the tier is still this broker's, and says so when it is not.

Whoever wants to write asks first (`tier_owner.py`). But a broker with nothing to write just now
would be the last to hear that its tier was taken over, or that it was restored from a backup and
does not own it: its records would be copied nowhere, with nothing to be seen of it. So once a
partition is led here that is tiered, somebody looks, at once and then every `WATCH_SECONDS`: one
small read, which claims nothing.
"""

import asyncio

from .remote_storage import OwnedStorage, RemoteStorageError, RemoteStorageManager
from .tier_health import TierHealth

WATCH_SECONDS = 30.0
"""After so long at the latest a broker knows that its tier is another's."""


class OwnerWatch:
    """The look at one tier, again and again."""

    def __init__(self, storage: RemoteStorageManager, health: TierHealth) -> None:
        self._storage = storage
        self._health = health
        self._is_refused = False

    async def run(self) -> None:
        """Until it is cancelled; at once where a storage has no owner."""
        while isinstance(self._storage, OwnedStorage):
            await self._look(self._storage)
            await asyncio.sleep(WATCH_SECONDS)

    async def _look(self, storage: OwnedStorage) -> None:
        try:
            await storage.look_at_owner()
        except RemoteStorageError as error:
            # A store that is away is told by who wants something of it.
            if not error.is_retriable:
                self._is_refused = True
                self._health.fails(error)
        else:
            if self._is_refused:
                self._is_refused = False
                self._health.works()
