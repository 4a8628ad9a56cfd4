"""The snapshots of the metadata log, as files in its directory (KIP-630).

A snapshot is written under a temporary name, synced, and then renamed: a snapshot under its final
name is complete, whenever the power fails. One that is superseded is renamed to `.deleted`, and its
file goes a minute later, so that transfers of it can finish.

After a start, files of unfinished work are removed, and so are snapshots below the log's start. A
snapshot that cannot be read is named in the log and left where it is; an older one, or the log from
its beginning, replaces it.
"""

import logging

from ...storage.files import FileHandle, Files
from .snapshot_format import (
    DELETED_SUFFIX,
    PARTIAL_SUFFIX,
    SNAPSHOT_SUFFIX,
    SnapshotContent,
    SnapshotDamagedError,
    SnapshotId,
    SnapshotTimes,
    snapshot_id_of,
    snapshot_times,
)

_DELETE_DELAY_MS = 60_000
_HEADER_BYTES = 64 * 1024
"""More than the first batch of a snapshot, with the voters of any quorum."""

_log = logging.getLogger(__name__)


class SnapshotWriting:
    """One snapshot being written; nobody sees it before `freeze`. All methods raise OSError."""

    def __init__(self, files: Files, directory: str, snapshot_id: SnapshotId, unique: str) -> None:
        """`unique` distinguishes the temporary file from those of earlier attempts."""
        self.snapshot_id = snapshot_id
        self.size = 0
        """The bytes written so far."""
        self._files = files
        self._directory = directory
        self._temporary = f"{directory}/{snapshot_id}-{unique}{PARTIAL_SUFFIX}"
        self._handle: FileHandle = files.open(self._temporary, create=True)

    def append(self, batch: bytes | bytearray) -> None:
        """Write the next batch; it need not be on the disk yet."""
        self._handle.write_at(self.size, batch)
        self.size += len(batch)

    def sync(self) -> None:
        """Make what was written durable. May run in any thread."""
        self._handle.flush()

    def check(self) -> None:
        """Read what was written. Raises SnapshotDamagedError. May run in any thread."""
        SnapshotContent(self.snapshot_id, self._files.read(self._temporary))

    def freeze(self) -> None:
        """Give the synced file its final name, durably. May run in any thread."""
        self._handle.close()
        self._files.rename(
            self._temporary, f"{self._directory}/{self.snapshot_id}{SNAPSHOT_SUFFIX}"
        )
        self._files.sync_dir(self._directory)

    def abandon(self) -> None:
        """Remove the temporary file; do nothing if it has its final name."""
        self._handle.close()
        self._files.remove(self._temporary)


class MetadataSnapshots:
    """The complete snapshots in the directory of a metadata log.

    Methods raise OSError. The bootstrap snapshot of a formatted directory does not count.
    """

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory
        self._ids: list[SnapshotId] = []
        self._doomed: list[tuple[int, str]] = []
        self._find()

    def _find(self) -> None:
        """Find the snapshots; remove the files of unfinished and of superseded ones."""
        for name in self._files.listdir(self._directory):
            snapshot_id, path = snapshot_id_of(name), f"{self._directory}/{name}"
            if snapshot_id is None or self._files.is_directory(path):
                continue
            if not name.endswith(SNAPSHOT_SUFFIX):
                self._files.remove(path)
            elif path == self.path(snapshot_id) and snapshot_id.offset > 0:
                # Not a copy under a longer name, nor the bootstrap snapshot.
                self._ids.append(snapshot_id)
        self._ids.sort()

    @property
    def ids(self) -> tuple[SnapshotId, ...]:
        """The snapshots, the oldest first."""
        return tuple(self._ids)

    @property
    def latest(self) -> SnapshotId | None:
        return self._ids[-1] if self._ids else None

    @property
    def earliest(self) -> SnapshotId | None:
        return self._ids[0] if self._ids else None

    def path(self, snapshot_id: SnapshotId) -> str:
        return f"{self._directory}/{snapshot_id}{SNAPSHOT_SUFFIX}"

    def size(self, snapshot_id: SnapshotId) -> int:
        """The size of a snapshot in bytes."""
        return self._files.size(self.path(snapshot_id))

    def begin(self, snapshot_id: SnapshotId, unique: str) -> SnapshotWriting:
        """Begin to write a snapshot; `add` it once it is frozen."""
        return SnapshotWriting(self._files, self._directory, snapshot_id, unique)

    def add(self, snapshot_id: SnapshotId) -> None:
        """Count a snapshot that has its final name."""
        if snapshot_id not in self._ids:
            self._ids.append(snapshot_id)
            self._ids.sort()

    def load(self, snapshot_id: SnapshotId) -> SnapshotContent:
        """Read and check a snapshot. Raises SnapshotDamagedError."""
        try:
            content = self._files.read(self.path(snapshot_id))
        except FileNotFoundError as error:
            raise SnapshotDamagedError("its file is gone") from error
        return SnapshotContent(snapshot_id, content)

    def load_newest(self) -> SnapshotContent | None:
        """The newest snapshot that can be used; those that cannot be read no longer count."""
        for snapshot_id in reversed(self.ids):
            try:
                return self.load(snapshot_id)
            except SnapshotDamagedError as error:
                self.forget(snapshot_id, error)
        return None

    def delete_before(self, offset: int, now_ms: int) -> list[SnapshotId]:
        """Delete the snapshots that end below `offset`, which the log start has passed.

        Their files remain for a minute. Returns which they were.
        """
        gone = [each for each in self._ids if each.offset < offset]
        for snapshot_id in gone:
            path = self.path(snapshot_id)
            doomed = path.removesuffix(SNAPSHOT_SUFFIX) + DELETED_SUFFIX
            self._files.rename(path, doomed)
            self._ids.remove(snapshot_id)
            self._doomed.append((now_ms + _DELETE_DELAY_MS, doomed))
        return gone

    def delete_pending(self, now_ms: int) -> int:
        """Remove the files whose minute is over; returns how many remain."""
        due = [path for due_ms, path in self._doomed if due_ms <= now_ms]
        for path in due:
            self._files.remove(path)
        self._doomed = [each for each in self._doomed if each[1] not in due]
        return len(self._doomed)

    def forget(self, snapshot_id: SnapshotId, damage: SnapshotDamagedError) -> None:
        """Say that a snapshot is damaged, and count it no longer. Its file is left as it is."""
        self._ids.remove(snapshot_id)
        _log.error(
            "The metadata snapshot %s is damaged and is not used: %s.",
            self.path(snapshot_id),
            damage,
        )

    def read(self, snapshot_id: SnapshotId, position: int, max_bytes: int) -> bytes:
        """A part of a snapshot's bytes; fewer at its end."""
        handle = self._files.open(self.path(snapshot_id))
        try:
            return handle.pread(position, max_bytes)
        finally:
            handle.close()

    def times(self, snapshot_id: SnapshotId) -> SnapshotTimes:
        """The times in a snapshot's header."""
        return snapshot_times(self.read(snapshot_id, 0, _HEADER_BYTES))
