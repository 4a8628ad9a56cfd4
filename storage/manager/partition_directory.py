"""The directory of one partition's log: made, tied to its topic, and given up.

`partition.metadata` names the topic that the records belong to, so that a topic that was deleted
and made again cannot inherit them (KIP-516). A directory that is given up is renamed at once, so
that no start takes it for a log, and removed after `file.delete.delay.ms` (`LogManager` in Kafka).
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
    """An empty log in a directory of its own. Raises KafkaError(KAFKA_STORAGE_ERROR).

    Nothing of it is synced before its first flush: making a hundred of them must not wait for the
    disk three hundred times.
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
    """Say whose the log is, where that was lost. Raises KafkaError(KAFKA_STORAGE_ERROR)."""
    path = f"{log.directory}/{PARTITION_METADATA_FILE}"
    try:
        write_partition_metadata(log.log_dir.files, path, topic_id)
    except OSError as error:
        raise log.log_dir.fail(error) from error
    log.topic_id = topic_id


def set_aside(log: UnifiedLog, now_ms: int) -> str:
    """Rename a log's directory so that no start takes it for a log, durably; its new path.

    Raises OSError.
    """
    log_dir = log.log_dir
    unique_id = f"{log.topic_id.hex()}{now_ms:x}"
    aside = f"{log_dir.path}/{stray_directory_name(log.topic_partition, unique_id)}"
    rename_durably(log_dir.files, log.directory, aside)
    return aside


def is_misread(read: Uuid, meant: Uuid) -> bool:
    """Whether one letter of an id's text is wrong: ids that are drawn differ in nearly all."""
    pairs = zip(uuid_to_string(read), uuid_to_string(meant), strict=True)
    return sum(one != other for one, other in pairs) == 1


def read_topic_id(files: Files, directory: str, may_be_damaged: bool) -> Uuid:
    """Whose the log is; the zero id if it does not say. Raises LogDirError."""
    set_folders_aside(files, directory, [PARTITION_METADATA_FILE])
    try:
        topic_id = read_partition_metadata(files, f"{directory}/{PARTITION_METADATA_FILE}")
    except MalformedCheckpointError as error:
        if may_be_damaged:
            return ZERO_UUID
        raise LogDirError(f"Whose log this is cannot be told: {error}") from error
    return ZERO_UUID if topic_id is None else topic_id


class DoomedDirectories:
    """Directories on their way out, over all log directories."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._waiting: list[tuple[int, LogDir, str]] = []
        self._unsynced: set[LogDir] = set()

    def note(self, log_dir: LogDir, directory: str, due_ms: int) -> None:
        """Have a directory removed that has been renamed already."""
        self._waiting.append((due_ms, log_dir, directory))

    def doom(self, log: UnifiedLog, now_ms: int, *, durably: bool = True) -> str:
        """Rename a log's directory now; answers the new name. Raises OSError.

        Of many that go, each need not wait for the disk: `sync` does it for all.
        """
        log_dir = log.log_dir
        doomed = self.doomed_path(log, now_ms)
        if durably:
            rename_durably(self._files, log.directory, doomed)
        else:
            self._files.rename(log.directory, doomed)
            self._unsynced.add(log_dir)
        self.note(log_dir, doomed, now_ms + log.config.file_delete_delay_ms)
        return doomed

    def sync(self) -> None:
        """Make the new names durable. A disk that fails takes its directory offline.

        Where no descriptor is left for that it is done another time: before anything is removed.
        """
        for log_dir in list(self._unsynced):
            if log_dir.is_online:
                try:
                    self._files.sync_dir(log_dir.path)
                except OSError as error:
                    log_dir.fail(error)
                    if log_dir.is_online:
                        continue
            self._unsynced.discard(log_dir)

    def doomed_path(self, log: UnifiedLog, now_ms: int) -> str:
        """The name under which a log's directory waits for its removal."""
        unique_id = f"{log.topic_id.hex()}{now_ms:x}"
        name = deleted_directory_name(log.topic_partition, unique_id)
        return f"{log.log_dir.path}/{name}"

    def take_due(self, now_ms: int) -> list[Deletion]:
        """Those whose delay is over, from now on the caller's to remove."""
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
