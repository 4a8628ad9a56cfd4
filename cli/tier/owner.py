"""`tierlog tier owner`: shows the owner of a tier, or makes this broker the owner.

Besides this command, only `tierlog tier rebuild --take-over` changes the owner.
"""

import argparse
from collections.abc import Generator
from contextlib import contextmanager

from ...broker.config.config import BrokerConfig
from ...clients.errors import ErrorCode, KafkaError
from ...clients.runtime.environment import SystemEnvironment
from ...storage.directory.log_dir import LogDir, MetaProperties
from ...storage.files import OsFiles
from ...tiering.blocking_pool import ThreadedPool
from ...tiering.store.file_system import TierFileSystem
from ...tiering.tier_owner import (
    TRUST_SECONDS,
    NotTheOwnerError,
    Owner,
    OwnerFile,
    OwnerTools,
    TierOwnership,
    Writer,
    read_owner,
)
from ...tiering.tools.terminal import SOUND, Output
from .access import open_tier

OWNER_HELP = (
    "show the owner of a tier, or make the broker of this configuration its owner",
    """\
  tierlog tier owner --config server.properties
  tierlog tier owner --config server.properties --take-over
""",
)


def add_owner_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `tier owner`."""
    parser.add_argument(
        "--take-over",
        action="store_true",
        help="make the data directory in log.dirs the owner; the previous owner notices within "
        f"{TRUST_SECONDS:g} seconds and stops copying and removing",
    )


async def show_owner(config: BrokerConfig, parsed: argparse.Namespace, output: Output) -> int:
    """Print the owner, after a take-over if requested; returns the exit code."""
    async with open_tier(config) as tier:
        if parsed.take_over:
            before = await take_over(config, tier)
            if before is not None:
                output.line(f"The previous owner was {before}.")
        owner = await read_owner(tier)
    output.line(owner_sentence(owner, tier))
    fields = None if owner is None else {"cluster_id": owner.cluster_id, "node_id": owner.node_id}
    output.result({"tier": str(tier), "owner": fields})
    return SOUND


def owner_sentence(owner: Owner | None, tier: TierFileSystem) -> str:
    """A sentence that names the owner."""
    if owner is None:
        return f"{tier} has no owner: the first cluster that writes to it becomes the owner."
    return f"{tier} belongs to {owner}."


async def take_over(config: BrokerConfig, tier: TierFileSystem) -> Owner | None:
    """Make the data directory of a configuration the owner; returns the previous owner.

    Raises KafkaError if there is no data directory, and RemoteStorageError.
    """
    meta = stored_meta(config)
    if meta is None:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"{config.log_dirs[0]} holds no broker data that could own a tier: start a broker "
            "on it, or rebuild one, first.",
        )
    with _tools(config, meta) as tools:
        return await TierOwnership(tier, tools).take_over()


def stored_meta(config: BrokerConfig) -> MetaProperties | None:
    """The meta.properties of the first log directory; None if it has none."""
    return LogDir(OsFiles(), config.log_dirs[0]).read_meta_properties()


@contextmanager
def _tools(config: BrokerConfig, meta: MetaProperties) -> Generator[OwnerTools]:
    pool = ThreadedPool(1, "tier-owner")
    file = OwnerFile(OsFiles(), config.log_dirs[0], str(config.remote_storage))
    writer = Writer(meta.cluster_id, meta.node_id)
    try:
        yield OwnerTools(
            lambda: writer, file, SystemEnvironment(), pool, is_shared=config.is_member
        )
    finally:
        pool.stop()


async def check_may_scrub(config: BrokerConfig, tier: TierFileSystem, cluster_id: str) -> None:
    """Refuse to remove objects that another cluster may need. Raises NotTheOwnerError.

    Any broker of a cluster of several processes may scrub the tier that they share.

    `cluster_id` is the cluster of the metadata that the scrub uses. If the data directory here has
    tokens for the tier, the owner's must be among them: an older copy of the directory lacks it.
    """
    owner = await read_owner(tier)
    if owner is None:
        return
    tokens = OwnerFile(OsFiles(), config.log_dirs[0], str(config.remote_storage)).tokens()
    is_older_copy = bool(tokens) and owner.token not in tokens and not config.is_member
    if owner.cluster_id != cluster_id or is_older_copy:
        raise NotTheOwnerError(
            f"{owner_sentence(owner, tier).rstrip('.')}, not to the broker whose metadata was read "
            f"(cluster {cluster_id}): nothing is removed from it. If that owner is gone for "
            "good, run `tierlog tier owner --take-over`"
        )
