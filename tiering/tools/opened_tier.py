"""A tier, open for as long as a tool works on it.

Whoever opens it may be a command, or one of many tasks of a Spark job on another machine: threads
and connections are made here and are gone at the end.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from ...storage.files import OsFiles
from ..blocking_pool import ThreadedPool
from ..store.file_system import TierFileSystem
from ..store.remote_url import RemoteUrl

_THREADS = 16


@asynccontextmanager
async def opened_tier(location: RemoteUrl) -> AsyncGenerator[TierFileSystem]:
    """The objects at a location. What does not answer shows at the first call, not here."""
    pool = ThreadedPool(_THREADS, "tier-tool")
    tier = TierFileSystem(location, OsFiles(), pool)
    try:
        yield tier
    finally:
        await tier.close()
        pool.stop()
