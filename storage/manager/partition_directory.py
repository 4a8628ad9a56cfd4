"""Creates, names and deletes the directory of one partition's log (Kafka's `LogManager`).

`partition.metadata` has the id of the topic that the records belong to, so that a re-created topic
does not inherit its predecessor's records (KIP-516). A deleted directory is renamed at once, so
that startup does not load it as a log, and is removed after `file.delete.delay.ms`.
"""

from functools import partial

from ...clients.kafka_uuid import ZERO_UUID, Uuid, uuid_to_string
from ..checkpoint import (
    PARTITION_METADATA_FILE,
    MalformedCheckpointError,
    read_partition_metadata,
    write_partition_metadata,
)
from ..directory.log_dir import LogDir, LogDirError, set_folders_aside
from ..durable_directory import rename_durably
from ..files import Files
from ..log.unified_log import UnifiedLog
from ..log_file import deleted_directory_name, stray_directory_name
from .due_deletions import Deletion
from .log_loader import LoadRequest, load_log


def make_log(log_dir: LogDir, request: LoadRequest, now_ms: int) -> UnifiedLog:
    """Create an empty log in its own directory. Raises KafkaError(KAFKA_STORAGE_ERROR).

    Nothing is synced before the first flush, so that the creation of a hundred logs does not wait
    for the disk three hundred times.
    """
    path = f"{request.directory}/{PARTITION_METADATA_FILE}"
    try:
        log_dir.files.mkdirs(request.directory)
        write_partition_metadata(log_dir.files, path, request.topic_id, durable=False)
    except OSError as error:
        raise log_dir.fail(error) from error
    log = load_log(log_dir, request, now_ms)
    log.local.sync_with_next_flush(partial(_sync_new_log, log_dir, path))
    return log


def _sync_new_log(log_dir: LogDir, metadata_path: str) -> None:
    handle = log_dir.files.open(metadata_path)
    handle.flush()
    handle.close()
    log_dir.files.sync_dir(log_dir.path)


def write_topic_id(log: UnifiedLog, topic_id: Uuid) -> None:
    """Rewrite a log's lost topic id. Raises KafkaError(KAFKA_STORAGE_ERROR)."""
    path = f"{log.directory}/{PARTITION_METADATA_FILE}"
    try:
        write_partition_metadata(log.log_dir.files, path, topic_id)
    except OSError as error:
        raise log.log_dir.fail(error) from error
    log.topic_id = topic_id


def set_aside(log: UnifiedLog, now_ms: int) -> str:
    """Rename a log's directory durably, so that startup does not load it; returns the new path.

    Raises OSError.
    """
    log_dir = log.log_dir
    unique_id = f"{log.topic_id.hex()}{now_ms:x}"
    aside = f"{log_dir.path}/{stray_directory_name(log.topic_partition, unique_id)}"
    rename_durably(log_dir.files, log.directory, aside)
    return aside


def is_misread(read: Uuid, meant: Uuid) -> bool:
    """Whether two ids differ in exactly one letter; random ids differ in nearly all letters."""
    pairs = zip(uuid_to_string(read), uuid_to_string(meant), strict=True)
    return sum(one != other for one, other in pairs) == 1


def read_topic_id(files: Files, directory: str, may_be_damaged: bool) -> Uuid:
    """The topic id of a log; the zero id if its `partition.metadata` is missing or damaged.

    A damaged file raises LogDirError unless `may_be_damaged`.
    """
    set_folders_aside(files, directory, [PARTITION_METADATA_FILE])
    try:
        topic_id = read_partition_metadata(files, f"{directory}/{PARTITION_METADATA_FILE}")
    except MalformedCheckpointError as error:
        if may_be_damaged:
            return ZERO_UUID
        raise LogDirError(f"Cannot determine which topic this log belongs to: {error}") from error
    return ZERO_UUID if topic_id is None else topic_id


class DoomedDirectories:
    """The directories of deleted logs, in all log directories, until they are removed."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._waiting: list[tuple[int, LogDir, str]] = []
        self._unsynced: dict[LogDir, None] = {}

    def note(self, log_dir: LogDir, directory: str, due_ms: int) -> None:
        """Schedule the removal of a directory that has been renamed already."""
        self._waiting.append((due_ms, log_dir, directory))

    def doom(self, log: UnifiedLog, now_ms: int, *, durably: bool = True) -> str:
        """Rename the directory of a deleted log now; returns the new path. Raises OSError.

        For many logs, pass `durably=False` and call `sync` once at the end.
        """
        log_dir = log.log_dir
        doomed = self.doomed_path(log, now_ms)
        if durably:
            rename_durably(self._files, log.directory, doomed)
        else:
            self._files.rename(log.directory, doomed)
            self._unsynced[log_dir] = None
        self.note(log_dir, doomed, now_ms + log.config.file_delete_delay_ms)
        return doomed

    def sync(self) -> None:
        """Make the new names durable. A disk failure takes its directory offline.

        If no descriptor is free, the sync is postponed; no directory is removed before it.
        """
        for log_dir in list(self._unsynced):
            if log_dir.is_online:
                try:
                    self._files.sync_dir(log_dir.path)
                except OSError as error:
                    log_dir.fail(error)
                    if log_dir.is_online:
                        continue
            self._unsynced.pop(log_dir, None)

    def doomed_path(self, log: UnifiedLog, now_ms: int) -> str:
        """The path of a log's directory between its deletion and its removal."""
        unique_id = f"{log.topic_id.hex()}{now_ms:x}"
        name = deleted_directory_name(log.topic_partition, unique_id)
        return f"{log.log_dir.path}/{name}"

    def take_due(self, now_ms: int) -> list[Deletion]:
        """Return each directory whose delay is over, once; the caller must remove it."""
        self.sync()
        due: list[tuple[int, LogDir, str]] = []
        waiting: list[tuple[int, LogDir, str]] = []
        for entry in self._waiting:
            due_ms, log_dir, _ = entry
            is_due = due_ms <= now_ms and log_dir.is_online and log_dir not in self._unsynced
            (due if is_due else waiting).append(entry)
        self._waiting = waiting
        return [
            Deletion(log_dir, partial(self._files.remove_tree, directory))
            for _, log_dir, directory in due
        ]
