"""Checks periodically that this broker still owns the tier, and reports when it does not.

Every write checks the owner first (`tier_owner.py`). But a broker with nothing to write would not
notice that its tier was taken over, or that its own data was restored from a backup and no longer
owns the tier: nothing would show that its next records will not be copied. So once this broker
leads a tiered partition, it checks at once and then every `WATCH_SECONDS`, with one small read that
claims nothing.
"""

import asyncio

from .remote_storage import OwnedStorage, RemoteStorageError, RemoteStorageManager
from .tier_health import TierHealth

WATCH_SECONDS = 30.0
"""The longest time until a broker notices that another one owns its tier."""


class OwnerWatch:
    """Periodic checks of the owner of one tier."""

    def __init__(self, storage: RemoteStorageManager, health: TierHealth) -> None:
        self._storage = storage
        self._health = health
        self._is_refused = False

    async def run(self) -> None:
        """Check until cancelled; return at once if the storage knows no owners."""
        while isinstance(self._storage, OwnedStorage):
            await self._look(self._storage)
            await asyncio.sleep(WATCH_SECONDS)

    async def _look(self, storage: OwnedStorage) -> None:
        try:
            await storage.look_at_owner()
        except RemoteStorageError as error:
            # Tasks that use an unreachable store report it themselves.
            if not error.is_retriable:
                self._is_refused = True
                self._health.fails(error)
        else:
            if self._is_refused:
                self._is_refused = False
                self._health.works()
