"""The scrub that a broker runs by itself, every `tierlog.scrub.interval.ms`; off by default.

An object that is unreferenced in two consecutive scans is removed if it is older than
`tierlog.scrub.grace.ms`. The rules are those of `tierlog tier scrub` (`tiering/tools/orphans.py`),
and as for that command, the whole metadata topic is read for each scan, by a client of this broker.
A failed scan changes nothing, and the next one follows after the usual interval; only the first of
several failures in a row is logged. In a cluster it is enough if one broker scrubs, but several do
no harm.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Protocol

from ...clients.errors import KafkaError
from ...clients.runtime.supervisor import Supervisor
from ...clients.runtime.task_owner import TaskOwner
from ...clients.topic_partition import TopicIdPartition
from ...storage.remote.remote_log import RemoteLog
from ...tiering.metadata.skipped_events import SkippedEvents
from ...tiering.remote_storage import RemoteStorageError
from ...tiering.store.file_system import TierFileSystem
from ...tiering.store.remote_url import RemoteUrl
from ...tiering.tier_owner import OwnerTools, TierOwnership
from ...tiering.tools.read_metadata import metadata_of_cluster
from ...tiering.tools.scrubber import Scrubber
from ..config.config_values import ConfigValues
from .tier_resources import TierResources

_log = logging.getLogger(__name__)


class Closable(Protocol):
    """A tier with connections to close at the end."""

    async def close(self) -> None: ...


class TierScrub:
    """Scrubs the tier at each interval until it is stopped."""

    def __init__(
        self,
        scrubber: Scrubber,
        tier: Closable,
        interval_ms: int,
        supervisor: Supervisor,
        ownership: TierOwnership | None = None,
    ) -> None:
        self._ownership = ownership
        self._scrubber = scrubber
        self._tier = tier
        self._interval_s = interval_ms / 1000
        self._supervisor = supervisor
        self._tasks = TaskOwner(1)
        self._trouble = ""

    def start(self) -> None:
        """Start; the first scan follows after the first interval."""
        self._tasks.start(self._run(), "tier scrub")

    async def stop(self) -> None:
        """Stop, even during a scan. Idempotent."""
        await self._tasks.stop()
        await self._tier.close()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval_s)
            with self._supervisor.attempt("Tier scrub"):
                await self._try_once()

    async def _try_once(self) -> None:
        try:
            await self.look_once()
            self._trouble = ""
        except (RemoteStorageError, KafkaError) as error:
            if not self._trouble:
                _log.warning("Could not scrub the remote tier, trying again: %s", error)
            self._trouble = str(error)

    async def look_once(self) -> int:
        """Scan the tier, and remove the orphans that are due; returns how many were removed."""
        if self._ownership is not None:
            await self._ownership.check()
        look = await self._scrubber.look()
        removed = await self._scrubber.remove(look.ripe)
        if removed:
            _log.info("Removed %d orphaned objects from the remote tier", removed)
        return removed


def make_tier_scrub(
    values: ConfigValues,
    location: RemoteUrl,
    resources: TierResources,
    bootstrap: Callable[[], str],
    supervisor: Supervisor,
    owner: OwnerTools | None,
) -> TierScrub:
    """Make the scrub without starting it: it is a client of the broker at `bootstrap`."""
    environment, files, pool, _ = resources
    tier = TierFileSystem(location, files, pool)

    skipped = SkippedEvents()

    async def metadata() -> Mapping[TopicIdPartition, RemoteLog]:
        return await metadata_of_cluster(bootstrap(), environment, skipped)

    grace_ms = values.integer("tierlog.scrub.grace.ms")
    scrubber = Scrubber(tier, metadata, environment.wall_clock_ms, grace_ms)
    interval_ms = values.integer("tierlog.scrub.interval.ms")
    ownership = None if owner is None else TierOwnership(tier, owner, renews_token=False)
    return TierScrub(scrubber, tier, interval_ms, supervisor, ownership)
