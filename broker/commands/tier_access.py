"""The tier that a command works on, and the metadata that says what in it counts.

The URL and its options come from the broker's own configuration. The metadata topic is read from a
broker that runs (`--bootstrap`) or, if none does, from the log directories of one that has stopped
(`--offline`). Either way it is read whole or not at all: a scrub on half of it would take live
segments for orphans.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

from ...clients.errors import ErrorCode, KafkaError
from ...clients.record.batch import batches
from ...clients.topic_partition import TopicIdPartition, TopicPartition
from ...storage.files import Files, OsFiles
from ...storage.log_dir import LogDir, LogDirError
from ...storage.log_file import LOG_SUFFIX, has_offset_name, offset_of, parse_partition_directory
from ...storage.remote_log import RemoteLog
from ...tiering.file_system import TierFileSystem
from ...tiering.metadata_events import METADATA_TOPIC
from ...tiering.skipped_events import SkippedEvents
from ...tiering.tier_packages import check_packages
from ...tiering.tools.known_metadata import KnownMetadata
from ...tiering.tools.opened_tier import opened_tier
from ...tiering.tools.read_metadata import incomplete, no_metadata
from ..config import BrokerConfig


@asynccontextmanager
async def open_tier(config: BrokerConfig) -> AsyncGenerator[TierFileSystem]:
    """The tier that the configuration names. Raises KafkaError(INVALID_CONFIG) if there is none."""
    location = config.remote_storage
    if config.storage_plugin is not None:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"The tier is kept by the class {config.storage_plugin.name}: only it can read it. "
            "`tierlog tier` works on tiers that rsm.config.url names.",
        )
    if location is None:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, "The configuration names no tier: set rsm.config.url."
        )
    check_packages(location)
    async with opened_tier(location) as tier:
        yield tier


def metadata_of_log_dirs(
    config: BrokerConfig, skipped: SkippedEvents | None = None
) -> Mapping[TopicIdPartition, RemoteLog]:
    """What the metadata topic in the log directories of a stopped broker says.

    What is no event is stepped over, and told through `skipped`. Raises KafkaError, also if a
    broker has the directories in use.
    """
    files = OsFiles()
    known = KnownMetadata(skipped)
    found = False
    for path in config.log_dirs:
        if not files.is_directory(path):
            continue
        log_dir = LogDir(files, path)
        try:
            log_dir.acquire()
        except LogDirError as error:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, f"{error} Ask it with --bootstrap."
            ) from error
        try:
            for name in files.listdir(path):
                partition = parse_partition_directory(name)
                if partition is not None and partition.topic == METADATA_TOPIC:
                    found = True
                    _read_log(files, f"{path}/{name}", partition, known)
        finally:
            log_dir.release()
    if not found:
        raise no_metadata(", ".join(config.log_dirs))
    return known.remote_logs


def _read_log(
    files: Files, directory: str, partition: TopicPartition, known: KnownMetadata
) -> None:
    expected = 0
    damaged: KafkaError | None = None
    damaged_at = 0
    for name in files.listdir(directory):
        if not (name.endswith(LOG_SUFFIX) and has_offset_name(name)):
            continue
        if offset_of(name) > expected:
            raise incomplete(partition, offset_of(name))
        for batch in batches(files.read(f"{directory}/{name}")):
            if damaged is not None:
                known.skipped.skip(partition.partition, damaged_at, damaged.message)
                damaged = None
            try:
                batch.ensure_valid()
            except KafkaError as error:
                # The last one is what was being written when the broker was killed, which goes at
                # the next start.
                damaged, damaged_at = error, batch.base_offset
            else:
                known.apply_all(batch, partition.partition)
            expected = max(expected, batch.next_offset)
