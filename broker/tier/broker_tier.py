"""The tier of one broker, and the tiers of others that it mounts.

It is made before the broker serves, since replicas read from it; it starts after the listeners and
stops before them, since it is a client of this very broker. Imported only if there is one.
"""

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass

from ...clients.runtime.environment import Environment
from ...clients.runtime.supervisor import Supervisor
from ...replication.control.controller import Controller
from ...replication.metadata.cluster_image import ClusterImage
from ...storage.files import Files
from ...storage.manager.log_manager import LogManager
from ...tiering.blocking_pool import BlockingPool
from ...tiering.remote_log_manager import RemoteLogManager
from ..config.config import BrokerConfig
from ..config.listeners import Listeners
from .deletion_proof import Allocation
from .image_topics import ImageTopics, MemberTopics
from .metadata_writers import BrokersThatWrite, MetadataWriters, OnlyWriter
from .mounts import Mounts, MountTools
from .remote_tier import make_remote_log_manager, own_address, owner_tools
from .tier_resources import AroundStorage, TierResources
from .tier_scrub import make_tier_scrub
from .tiered_topics import has_mounts, mend_metadata_topic

_SCRUB_THREADS = 2


@dataclass(frozen=True, slots=True)
class TierParts:
    """The parts of the broker that its tier stands on."""

    config: BrokerConfig
    environment: Environment
    files: Files
    blocking_pool: Callable[[int], BlockingPool]
    around_storage: AroundStorage
    log_manager: LogManager
    controller: Controller
    listeners: Callable[[], Listeners]
    supervisor: Supervisor
    allocate: Allocation | None
    """Allocates producer ids in a cluster of several processes; None if this one is all of it."""

    def image(self) -> ClusterImage:
        return self.controller.image


class BrokerTier:
    """The remote log manager, the mounts and the scrub of one broker, each where there is one."""

    def __init__(self, parts: TierParts) -> None:
        """Raises KafkaError(INVALID_CONFIG) if a plugin cannot be loaded or configured."""
        self._parts = parts
        self.writers = self._writers()
        """Who writes the tier's metadata; None if this broker has no tier of its own."""
        self.remote = None if self.writers is None else self._remote_log_manager(self.writers)
        self._mounts = self._make_mounts()

    @property
    def reader(self) -> Mounts | RemoteLogManager | None:
        """Where replicas read what is not local; mounts pass on what is not mounted."""
        return self._mounts or self.remote

    async def start(self, started: AsyncExitStack) -> None:
        """Start all that is there. Each part is stopped by `started`, in reverse order."""
        if self.remote is not None:
            if self._parts.allocate is None:
                await mend_metadata_topic(self._parts.controller)
            started.push_async_callback(self.remote.stop)
            await self.remote.start()
            self._start_scrub(started)
        if self._mounts is not None:
            started.push_async_callback(self._mounts.stop)
            await self._mounts.start()

    def _writers(self) -> MetadataWriters | None:
        parts = self._parts
        if not parts.config.is_tiered:
            return None
        if parts.allocate is None:
            return OnlyWriter(parts.environment.random_uuid())
        return BrokersThatWrite(parts.config.node_id, parts.image)

    def _remote_log_manager(self, writers: MetadataWriters) -> RemoteLogManager:
        parts = self._parts
        config = parts.config
        pool = parts.blocking_pool(config.remote_log_manager.threads)
        if parts.allocate is None:
            topics = ImageTopics(parts.image)
        else:
            topics = MemberTopics(config.node_id, parts.image, parts.allocate)
        return make_remote_log_manager(
            config,
            TierResources(parts.environment, parts.files, pool, parts.around_storage),
            parts.log_manager,
            parts.listeners,
            topics,
            writers.own_name,
            parts.supervisor,
        )

    def _make_mounts(self) -> Mounts | None:
        parts = self._parts
        config = parts.config
        if not has_mounts(config, parts.files):
            return None
        tools = MountTools(
            config.node_id,
            parts.controller,
            parts.log_manager,
            parts.environment,
            parts.files,
            parts.blocking_pool(config.remote_log_manager.reader_threads),
            config.remote_log_manager,
            parts.supervisor,
        )
        return Mounts(config.mounts, tools, self.remote)

    def _start_scrub(self, started: AsyncExitStack) -> None:
        """Scrub the tier periodically if the configuration has an interval for it."""
        parts = self._parts
        config = parts.config
        if config.remote_storage is None or config.values.integer("tierlog.scrub.interval.ms") < 0:
            return
        pool = parts.blocking_pool(_SCRUB_THREADS)
        started.callback(pool.stop)
        resources = TierResources(parts.environment, parts.files, pool)
        scrub = make_tier_scrub(
            config.values,
            config.remote_storage,
            resources,
            lambda: own_address(parts.listeners().bound[0]),
            parts.supervisor,
            owner_tools(config, resources, parts.image),
        )
        started.push_async_callback(scrub.stop)
        scrub.start()
