"""Opens the tier that a command works on, and reads the metadata of its segments.

The URL and its options come from the broker's own configuration. The metadata topic is read from a
running broker (`--bootstrap`) or from the log directories of a stopped one (`--offline`). Either
way it is read from its beginning, or not at all, and unreadable parts are reported: a scrub with
half of the metadata would mistake live segments for orphans.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

from ...broker.config.config import BrokerConfig
from ...clients.errors import ErrorCode, KafkaError
from ...clients.topic_partition import TopicIdPartition
from ...storage.directory.log_dir import LogDir, LogDirError
from ...storage.files import OsFiles
from ...storage.log_file import parse_partition_directory
from ...storage.remote.remote_log import RemoteLog
from ...tiering.metadata.metadata_events import METADATA_TOPIC
from ...tiering.metadata.skipped_events import SkippedEvents
from ...tiering.store.file_system import TierFileSystem
from ...tiering.store.impossible_tiers import check_place, check_writable
from ...tiering.store.tier_packages import check_packages
from ...tiering.tools.known_metadata import KnownMetadata
from ...tiering.tools.opened_tier import opened_tier
from ...tiering.tools.read_metadata import no_metadata
from ...tiering.tools.stored_metadata import StoredMetadata
from ...tiering.tools.tier_survey import Finding


@asynccontextmanager
async def open_tier(config: BrokerConfig) -> AsyncGenerator[TierFileSystem]:
    """The tier that the configuration names. Raises KafkaError(INVALID_CONFIG) if there is none."""
    location = config.remote_storage
    if config.storage_plugin is not None:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Only the class {config.storage_plugin.name} can read this tier. `tierlog tier` "
            "works on tiers that rsm.config.url names.",
        )
    if location is None:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, "The configuration has no remote tier: set rsm.config.url."
        )
    check_writable(location)
    check_packages(location)
    check_place(location, OsFiles())
    async with opened_tier(location) as tier:
        yield tier


class StatedMetadata(NamedTuple):
    """The contents of the metadata topic."""

    remote_logs: Mapping[TopicIdPartition, RemoteLog]
    findings: Sequence[Finding] = ()
    """The parts of the topic that could not be read."""

    def only(self, topic: str) -> "StatedMetadata":
        """The contents for this topic, with all findings, which may concern any topic."""
        logs = self.remote_logs
        return StatedMetadata(
            {partition: logs[partition] for partition in logs if partition.topic == topic},
            self.findings,
        )


def metadata_of_log_dirs(
    config: BrokerConfig, skipped: SkippedEvents | None = None
) -> StatedMetadata:
    """The contents of the metadata topic in the log directories of a stopped broker.

    Records that are not events are skipped, and reported by `skipped`. Raises KafkaError, for
    example if a broker uses the directories.
    """
    files = OsFiles()
    metadata = KnownMetadata(skipped)
    stored = StoredMetadata(files, metadata)
    has_metadata_topic = False
    for path in config.log_dirs:
        if not files.is_directory(path):
            continue
        log_dir = LogDir(files, path)
        try:
            log_dir.acquire()
        except LogDirError as error:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"{error} To read the metadata from the running broker, use --bootstrap.",
            ) from error
        try:
            for name in files.listdir(path):
                partition = parse_partition_directory(name)
                if partition is not None and partition.topic == METADATA_TOPIC:
                    has_metadata_topic = True
                    stored.read(f"{path}/{name}", partition)
        finally:
            log_dir.release()
    if not has_metadata_topic:
        raise no_metadata(", ".join(config.log_dirs))
    return StatedMetadata(metadata.remote_logs, stored.findings)
