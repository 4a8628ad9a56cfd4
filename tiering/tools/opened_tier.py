"""Opens a tier for the time that a tool uses it.

The caller may be a command, or one of many tasks of a Spark job on another machine, so the threads
and connections are created here and closed at the end.
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
    """Open the tier at a location. An unreachable store fails at the first call, not here."""
    pool = ThreadedPool(_THREADS, "tier-tool")
    tier = TierFileSystem(location, OsFiles(), pool)
    try:
        yield tier
    finally:
        await tier.close()
        pool.stop()
