"""The remote tier of this broker, put together: imported only where a tier is configured."""

from collections.abc import Callable

from ..clients.environment import Environment
from ..storage.files import Files
from ..storage.log_manager import LogManager
from ..tiering.blocking_pool import BlockingPool
from ..tiering.fsspec_storage import FsspecStorage
from ..tiering.metadata_manager import TopicBasedRemoteLogMetadataManager
from ..tiering.metadata_topic import ClusterMetadataTopic
from ..tiering.remote_log_manager import RemoteLogManager
from ..tiering.remote_url import RemoteUrl
from ..tiering.tier_access import TierAccess
from .config import BrokerConfig
from .listeners import EVERY_INTERFACE, Endpoint


def own_address(endpoint: Endpoint) -> str:
    """Where this process reaches its own listener."""
    host = "127.0.0.1" if endpoint.host in EVERY_INTERFACE else endpoint.host
    return endpoint._replace(host=host).address


def make_remote_log_manager(
    config: BrokerConfig,
    location: RemoteUrl,
    surroundings: tuple[Environment, Files, BlockingPool],
    log_manager: LogManager,
    bootstrap: Callable[[], str],
) -> RemoteLogManager:
    """Make it, not started: it is a client of the broker that `bootstrap` names."""
    environment, files, pool = surroundings
    settings = config.remote_log_manager
    topic = ClusterMetadataTopic(settings.metadata, bootstrap, environment)
    access = TierAccess(
        storage=FsspecStorage(location, files, pool),
        metadata=TopicBasedRemoteLogMetadataManager(settings.metadata, topic, environment),
        files=files,
        pool=pool,
    )
    return RemoteLogManager(settings, access, environment, log_manager.get_log)
