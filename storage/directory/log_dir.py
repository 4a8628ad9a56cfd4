"""One log directory: its cluster and node, its lock, and whether its disk still works.

`meta.properties` ties a directory to a cluster and a node, and `.lock` to a process. The marker
`.kafka_cleanshutdown` shows the next start that no recovery is needed; its broker epoch shows the
controller that nothing was lost (KIP-966). The first failed disk operation takes the directory
offline until the process ends: a failed fsync drops the pages that it could not write, so the disk
is not used again (KIP-112).
"""

import errno
import json
import logging
from collections.abc import Callable, Iterable
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar, cast

from ...clients.errors import ErrorCode, KafkaError
from ...clients.kafka_uuid import ZERO_UUID, Uuid, uuid_from_string, uuid_to_string
from ...clients.topic_partition import TopicPartition
from ..checkpoint import (
    CLEANER_OFFSET_FILE,
    HIGH_WATERMARK_FILE,
    LOG_START_FILE,
    RECOVERY_POINT_FILE,
    MalformedCheckpointError,
    read_offset_checkpoint,
    write_offset_checkpoint,
)
from ..durable_directory import make_durably
from ..files import DirectoryLock, Files
from ..segment.index import CorruptIndexError

if TYPE_CHECKING:
    from .log_loss import LogLoss

META_PROPERTIES_FILE = "meta.properties"
CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
LOCK_FILE = ".lock"
REBUILD_MARKER = ".rebuild-unfinished"
"""Marks a directory that `tierlog tier rebuild` has not finished writing."""
UNKNOWN_BROKER_EPOCH = -1
FOLDER_SUFFIX = ".folder-aside"

_log = logging.getLogger(__name__)

_FILES = (
    META_PROPERTIES_FILE,
    CLEAN_SHUTDOWN_FILE,
    RECOVERY_POINT_FILE,
    LOG_START_FILE,
    HIGH_WATERMARK_FILE,
    CLEANER_OFFSET_FILE,
)

_EXHAUSTED = {
    errno.EMFILE: "raise the limit on open files of this process (ulimit -n)",
    errno.ENFILE: "raise the system limit on open files (sysctl fs.file-max)",
    errno.ENOMEM: "give it more memory or more memory mappings (sysctl vm.max_map_count)",
}
"""The errors of an exhausted resource other than the disk, each with its remedy."""

_REMEDIES = {
    errno.EFBIG: "raise the limit on file sizes of this process (ulimit -f)",
    errno.ENOSPC: "free space on its disk",
    errno.EIO: "check its disk, and replace it if it is broken",
    errno.EDQUOT: "free space on its disk, or raise this user's disk quota",
    errno.EROFS: "remount its disk read-write",
    errno.EACCES: "give this user write permission for it",
}
"""The remedies for the disk errors that an operator can fix."""


class LogDirError(Exception):
    """The directory cannot be used until an operator acts; the message explains why."""


class ResourcesExhaustedError(KafkaError):
    """Too few free descriptors or mappings for this operation. The disk works: try again later."""


class MetaProperties(NamedTuple):
    """The content of a directory's `meta.properties` (version 1)."""

    cluster_id: str
    node_id: int
    directory_id: Uuid


FailureListener = Callable[["LogDir"], None]


class LogDir:
    """A directory that holds the logs of many partitions."""

    def __init__(self, files: Files, path: str) -> None:
        self.files = files
        self.path = path
        self.directory_id = ZERO_UUID
        """Its id in the cluster metadata (KIP-858); zero until the directory is opened."""
        self.is_online = True
        self.failure: OSError | None = None
        self.has_unclosed_log = False
        """Whether a log could not be closed although the disk works: the next start recovers it."""
        self._failure_listeners: list[FailureListener] = []
        self.losses: list[LogLoss] = []
        """The losses found when the logs were opened, one for each log that lost records."""
        self._lock: DirectoryLock | None = None
        self._was_clean: bool | None = None

    def __repr__(self) -> str:
        return f"LogDir({self.path}, {'online' if self.is_online else 'offline'})"

    def check(self) -> None:
        """Raise KafkaError(KAFKA_STORAGE_ERROR) if the directory is offline."""
        if not self.is_online:
            raise self._storage_error()

    def on_failure(self, listener: FailureListener) -> None:
        """Call `listener` once: when the directory goes offline, or now if it already is."""
        self._failure_listeners.append(listener)
        if not self.is_online:
            listener(self)

    def fail(self, error: OSError) -> KafkaError:
        """Take the directory offline because of `error`; returns what the caller must raise.

        An `error` that is not the disk's fault leaves the directory online: the result is then a
        ResourcesExhaustedError.
        """
        remedy = _EXHAUSTED.get(error.errno or 0)
        if remedy is not None and self.is_online:
            return ResourcesExhaustedError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"{error.strerror} in {self.path}: {remedy}.",
            )
        if self.is_online:
            self.is_online = False
            self.failure = error
            for listener in self._failure_listeners:
                listener(self)
        return self._storage_error()

    @property
    def why_offline(self) -> str:
        """The disk error and its remedy, for an operator to read; empty if there is no error."""
        if self.failure is None or not self.failure.strerror:
            return ""
        remedy = _REMEDIES.get(self.failure.errno or 0)
        advice = f": {remedy}, then restart the broker" if remedy else ""
        return f"{self.failure.strerror}{advice}"

    def _storage_error(self) -> KafkaError:
        reason = f": {self.failure.strerror}" if self.failure and self.failure.strerror else ""
        return KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR, f"The log directory {self.path} is offline{reason}."
        )

    def acquire(self, *, is_rebuild: bool = False) -> None:
        """Create the directory if it does not exist, and lock it.

        Raises LogDirError if another process has locked it, or if an unfinished rebuild must first
        be continued.
        """
        make_durably(self.files, self.path.rstrip("/"))
        try:
            self._lock = self.files.lock(f"{self.path}/{LOCK_FILE}")
        except BlockingIOError as error:
            raise LogDirError(
                f"The log directory {self.path} is in use by another process: stop that "
                "process, or use another directory in log.dirs."
            ) from error
        set_folders_aside(self.files, self.path, _FILES)
        if not is_rebuild and self.files.exists(f"{self.path}/{REBUILD_MARKER}"):
            self.release()
            raise LogDirError(
                f"The rebuild of log directory {self.path} did not finish: run `tierlog tier "
                "rebuild` again."
            )

    def release(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def read_meta_properties(self) -> MetaProperties | None:
        """Read the directory's `meta.properties`; None if the directory was never used.

        Raises LogDirError if the file is incomplete or has another version.
        """
        path = f"{self.path}/{META_PROPERTIES_FILE}"
        if not self.files.exists(path):
            return None
        try:
            fields = _parse_properties(self.files.read(path))
            version = int(fields["version"])
            if version != 1:
                raise LogDirError(f"{path} has version {version}; only version 1 is supported.")
            cluster_id = fields["cluster.id"]
            if not (cluster_id and cluster_id.isascii() and cluster_id.isprintable()):
                raise ValueError("the cluster id is not printable text")
            directory_id = uuid_from_string(fields["directory.id"])
            return MetaProperties(cluster_id, int(fields["node.id"]), directory_id)
        except (KeyError, ValueError) as error:
            raise LogDirError(
                f"{path} is damaged: it does not name the cluster and node of the directory. "
                "Restore the file from a backup."
            ) from error

    def write_meta_properties(self, meta: MetaProperties) -> None:
        """Tie the directory to a cluster and a node, durably."""
        content = (
            "#\n"
            f"node.id={meta.node_id}\n"
            f"directory.id={uuid_to_string(meta.directory_id)}\n"
            "version=1\n"
            f"cluster.id={meta.cluster_id}\n"
        )
        self.files.atomic_replace(f"{self.path}/{META_PROPERTIES_FILE}", content.encode("utf-8"))

    def lower_recovery_point(self, topic_partition: TopicPartition, offset: int) -> None:
        """Durably lower the partition's checkpointed recovery point to at most `offset`.

        To be called before durable records are removed, so that a later recovery checks, batch by
        batch, what is written in their place.
        """
        path = f"{self.path}/{RECOVERY_POINT_FILE}"
        try:
            points = read_offset_checkpoint(self.files, path)
        except MalformedCheckpointError:
            return  # a malformed checkpoint is ignored, so the recovery point is 0
        if points.get(topic_partition, 0) > offset:
            points[topic_partition] = offset
            write_offset_checkpoint(self.files, path, points)

    def has_clean_shutdown_marker(self) -> bool:
        return self.files.exists(f"{self.path}/{CLEAN_SHUTDOWN_FILE}")

    def take_clean_shutdown_marker(self) -> bool:
        """Remove the marker durably; returns whether there was one: the last stop was clean.

        Only the first call removes it; later calls return the same. To be called before anything in
        the directory is written, so that a crash leads to recovery. Raises OSError.
        """
        if self._was_clean is None:
            was_clean = self.has_clean_shutdown_marker()
            self.remove_clean_shutdown_marker()
            self._was_clean = was_clean
        return self._was_clean

    def clean_shutdown_broker_epoch(self) -> int:
        """The broker epoch in the marker; -1 if there is no marker or no epoch in it."""
        path = f"{self.path}/{CLEAN_SHUTDOWN_FILE}"
        if not self.files.exists(path):
            return UNKNOWN_BROKER_EPOCH
        try:
            parsed: object = json.loads(self.files.read(path))
        except ValueError:
            return UNKNOWN_BROKER_EPOCH
        if not isinstance(parsed, dict):
            return UNKNOWN_BROKER_EPOCH
        epoch = cast("dict[str, object]", parsed).get("brokerEpoch")
        return epoch if isinstance(epoch, int) else UNKNOWN_BROKER_EPOCH

    def write_clean_shutdown_marker(self, broker_epoch: int) -> None:
        """Record that every log was closed properly; a shutdown writes this marker last."""
        content = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
        self.files.atomic_replace(f"{self.path}/{CLEAN_SHUTDOWN_FILE}", content.encode("ascii"))

    def remove_clean_shutdown_marker(self) -> None:
        """Remove the marker durably, before anything is written: a crash then leads to recovery."""
        if self.files.remove(f"{self.path}/{CLEAN_SHUTDOWN_FILE}"):
            self.files.sync_dir(self.path)


def set_folders_aside(files: Files, directory: str, names: Iterable[str]) -> None:
    """Rename folders that have the name of an expected file.

    Such a folder does not mean that the disk has failed, and it may hold a user's data.
    """
    for name in names:
        path = f"{directory}/{name}"
        if not name.endswith(FOLDER_SUFFIX) and files.is_directory(path):
            files.rename(path, path + FOLDER_SUFFIX)
            _log.error(
                "%s is a directory, but a file is expected there. Renamed it to %s; the file "
                "counts as missing.",
                path,
                path + FOLDER_SUFFIX,
            )


class _OnDisk(Protocol):
    @property
    def log_dir(self) -> LogDir: ...


_Log = TypeVar("_Log", bound=_OnDisk)
_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


def on_disk(
    method: Callable[Concatenate[_Log, _Parameters], _Result],
) -> Callable[Concatenate[_Log, _Parameters], _Result]:
    """Decorate a log's method that uses the disk: a failure takes the log directory offline.

    If the directory is already offline, the method is not called. In both cases
    KAFKA_STORAGE_ERROR is raised. A corrupt index raises UNKNOWN_SERVER_ERROR instead, and the
    directory stays online.
    """

    @wraps(method)
    def guarded(log: _Log, /, *args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        directory = log.log_dir
        if not directory.is_online:
            directory.check()
        try:
            return method(log, *args, **kwargs)
        except OSError as error:
            raise directory.fail(error) from error
        except CorruptIndexError as error:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error

    return guarded


def _parse_properties(content: bytes) -> dict[str, str]:
    """Parse the subset of Java's properties format that Kafka writes here, as Latin-1 text."""
    fields: dict[str, str] = {}
    for line in content.splitlines():
        stripped = line.decode("latin-1").strip()
        if stripped and stripped[0] not in "#!":
            name, _, value = stripped.partition("=")
            fields[name.strip()] = value.strip().replace("\\:", ":").replace("\\=", "=")
    return fields
