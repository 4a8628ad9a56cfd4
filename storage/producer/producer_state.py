"""The producer state of one log, built from its batches (Kafka's `ProducerStateManager`).

Recovery, truncation and replication rely on this invariant: the state is exactly the result of
applying the batches in [log start, `map_end_offset`) in order. Snapshots are taken at segment
boundaries and on a clean close. Loading starts from the newest valid snapshot at or below the log
end and applies the rest of the log.

The state includes the transactions that hold back the last stable offset: those still open, and
those whose marker is appended but not yet below the high watermark.

While a transaction coordinator is asked whether a producer may begin a transaction here, the
producer has a guard (KIP-890). The producer's next marker, or the beginning of a transaction,
removes its guards: an answer that was overtaken by an abort opens no transaction.
"""

from ...clients.record.batch import RecordBatch
from ..files import Files
from ..log_file import offset_of, snapshot_path
from .producer_entry import (
    AppendOrigin,
    BatchMetadata,
    CompletedTxn,
    ProducerEntry,
    end_transaction_marker,
)
from .producer_snapshot import CorruptSnapshotError, decode_snapshot, encode_snapshot


class AppendGuard:
    """Identifies one attempt to begin a transaction in a log (Kafka's VerificationGuard)."""

    __slots__ = ()


class AppendGuards:
    """The attempts under way in one log, by producer id."""

    __slots__ = ("_guards",)

    def __init__(self) -> None:
        self._guards: dict[int, list[AppendGuard]] = {}

    def set(self, producer_id: int) -> AppendGuard:
        """Begin an attempt; end it with `release`."""
        guard = AppendGuard()
        self._guards.setdefault(producer_id, []).append(guard)
        return guard

    def holds(self, producer_id: int, guard: AppendGuard) -> bool:
        """Whether the producer has neither begun nor ended a transaction here since `set`."""
        return any(each is guard for each in self._guards.get(producer_id, ()))

    def release(self, producer_id: int, guard: AppendGuard) -> None:
        """End an attempt, whatever became of it."""
        others = [each for each in self._guards.pop(producer_id, ()) if each is not guard]
        if others:
            self._guards[producer_id] = others

    def remove(self, producer_id: int) -> None:
        """A transaction of the producer has begun or ended."""
        self._guards.pop(producer_id, None)

    def clear(self) -> None:
        """The log was truncated."""
        self._guards.clear()


class ProducerStateManager:
    """The producer state of the log in `directory`."""

    def __init__(self, files: Files, directory: str, expiration_ms: int = 86_400_000) -> None:
        self._files = files
        self._directory = directory
        self.expiration_ms = expiration_ms
        self._entries: dict[int, ProducerEntry] = {}
        self._ongoing_txns: dict[int, int] = {}
        """Open transactions: first offset to producer id, in offset order."""
        self._unreplicated_txns: dict[int, int] = {}
        """Ended, with a marker not yet below the high watermark: first offset to marker offset."""
        self.guards = AppendGuards()
        self._snapshots: list[int] = []
        self.map_end_offset = 0
        self.last_snapshot_offset = 0

    def get(self, producer_id: int) -> ProducerEntry | None:
        return self._entries.get(producer_id)

    def get_or_new(self, producer_id: int) -> ProducerEntry:
        """The producer's entry, or a new empty one that is not stored yet."""
        return self._entries.get(producer_id) or ProducerEntry(producer_id)

    @property
    def entries(self) -> dict[int, ProducerEntry]:
        """All entries by producer id. The caller must not change them."""
        return self._entries

    def check(self, batch: RecordBatch, origin: AppendOrigin) -> BatchMetadata | None:
        """The earlier batch that this one duplicates, if any. Raises KafkaError if invalid."""
        entry = self.get_or_new(batch.producer_id)
        if batch.is_control:
            marker = end_transaction_marker(batch)
            if marker is not None:
                entry.check_marker(batch, marker)
            return None
        if origin is AppendOrigin.CLIENT and (duplicate := entry.find_duplicate(batch)):
            return duplicate
        entry.check_data_batch(batch, origin)
        return None

    def apply(self, batch: RecordBatch) -> CompletedTxn | None:
        """Apply a batch that has its final offsets; returns the transaction that it ends."""
        assert batch.base_offset >= self.map_end_offset, "Batches are applied in order."
        completed = None
        if batch.producer_id >= 0:
            completed = self._apply_producer(batch)
        self.map_end_offset = batch.next_offset
        return completed

    def _apply_producer(self, batch: RecordBatch) -> CompletedTxn | None:
        producer_id = batch.producer_id
        if batch.is_control:
            marker = end_transaction_marker(batch)
            if marker is None:
                return None
            self.guards.remove(producer_id)
            producer = self._entries.setdefault(producer_id, ProducerEntry(producer_id))
            completed = producer.append_marker(batch, marker)
            if completed is not None:
                del self._ongoing_txns[completed.first_offset]
                self._unreplicated_txns[completed.first_offset] = completed.last_offset
            return completed
        entry = self._entries.get(producer_id)
        if entry is None:
            entry = self._entries[producer_id] = ProducerEntry(producer_id)
        if entry.append_data_batch(batch):
            self.guards.remove(producer_id)
            self._ongoing_txns[batch.base_offset] = producer_id
        return None

    def take_over(self, other: "ProducerStateManager") -> None:
        """Copy the state of another log that holds the same records.

        That state has more than the snapshot files: the last five batches of each producer, and the
        ended transactions that are not replicated yet.
        """
        assert other.map_end_offset == self.map_end_offset
        self._entries = dict(other._entries)
        self._ongoing_txns = dict(other._ongoing_txns)
        self._unreplicated_txns = dict(other._unreplicated_txns)
        self.guards = other.guards

    def advance_to(self, offset: int) -> None:
        """Record that all batches below `offset` have been applied."""
        self.map_end_offset = max(self.map_end_offset, offset)

    @property
    def first_unstable_offset(self) -> int | None:
        """The lowest first offset of the transactions that are open or not yet replicated."""
        unreplicated, ongoing = self._unreplicated_txns, self._ongoing_txns
        if not (unreplicated or ongoing):
            return None
        return min(next(iter(txns)) for txns in (unreplicated, ongoing) if txns)

    def last_stable_offset_after(self, completed: CompletedTxn) -> int:
        """The last stable offset after `completed`, for its transaction index entry."""
        for first_offset in self._ongoing_txns:
            if first_offset != completed.first_offset:
                return first_offset
        return completed.last_offset + 1

    def on_high_watermark(self, high_watermark: int) -> None:
        """Remove ended transactions whose markers are now replicated."""
        if not self._unreplicated_txns:
            return
        replicated = [
            first for first, marker in self._unreplicated_txns.items() if marker < high_watermark
        ]
        for first in replicated:
            del self._unreplicated_txns[first]

    def remove_expired(self, now_ms: int) -> None:
        """Remove producers that have been idle for `producer.id.expiration.ms`."""
        expired = [
            entry.producer_id for entry in self._entries.values() if self._is_expired(entry, now_ms)
        ]
        for producer_id in expired:
            del self._entries[producer_id]

    def _is_expired(self, entry: ProducerEntry, now_ms: int) -> bool:
        return (
            entry.current_txn_first_offset is None
            and now_ms - entry.last_timestamp >= self.expiration_ms
        )

    def scan_snapshots(self, names: list[str]) -> None:
        """Find the snapshot files in a listing of the directory."""
        self._snapshots = sorted(offset_of(name) for name in names if name.endswith(".snapshot"))

    @property
    def snapshot_offsets(self) -> tuple[int, ...]:
        return tuple(self._snapshots)

    def snapshot_file(self, offset: int) -> str | None:
        """The path of the snapshot taken at `offset`, if there is one."""
        return snapshot_path(self._directory, offset) if offset in self._snapshots else None

    def take_snapshot(self) -> None:
        """Write a snapshot at `map_end_offset`, unless there is one.

        The file is not synced: if a crash damages it, its CRC does not match, and more of the log
        is applied.
        """
        offset = self.map_end_offset
        if offset <= self.last_snapshot_offset:
            return
        content = encode_snapshot(self._entries.values())
        path = snapshot_path(self._directory, offset)
        self._files.atomic_replace(path, content, durable=False)
        if offset not in self._snapshots:
            self._snapshots.append(offset)
            self._snapshots.sort()
        self.last_snapshot_offset = offset

    def restore(self, content: bytes, offset: int) -> None:
        """Replace the state with another replica's snapshot at `offset` (KIP-405 followers).

        If the snapshot is invalid, raises CorruptSnapshotError and changes nothing.
        """
        entries = decode_snapshot(content)
        self._files.atomic_replace(snapshot_path(self._directory, offset), content)
        self.truncate_fully_and_start_at(offset, keep_snapshots_at=(offset,))
        self._snapshots = [offset]
        self._load_entries(entries)
        self.last_snapshot_offset = offset

    def load(self, log_start_offset: int, log_end_offset: int) -> None:
        """Load the newest valid snapshot above the log start, up to the log end.

        The caller then applies the batches from `map_end_offset` on.
        """
        self._clear()
        self.map_end_offset = self.last_snapshot_offset = max(log_start_offset, 0)
        for offset in reversed(self.snapshot_offsets):
            if not log_start_offset < offset <= log_end_offset:
                continue
            try:
                content = self._files.read(snapshot_path(self._directory, offset))
                entries = decode_snapshot(content)
            except (CorruptSnapshotError, FileNotFoundError):
                # The state is then rebuilt from an older snapshot by replaying more of the log.
                self._delete_snapshot(offset)
                continue
            self._load_entries(entries)
            self.map_end_offset = self.last_snapshot_offset = offset
            return

    def truncate_and_reload(self, log_start_offset: int, log_end_offset: int) -> None:
        """Delete snapshots outside the log's bounds, then `load` up to the new log end."""
        for offset in self.snapshot_offsets:
            if offset > log_end_offset or offset <= log_start_offset:
                self._delete_snapshot(offset)
        self.load(log_start_offset, log_end_offset)

    def truncate_fully_and_start_at(
        self, offset: int, keep_snapshots_at: tuple[int, ...] = ()
    ) -> None:
        """Clear the state for an empty log at `offset`; delete all snapshots not to be kept."""
        for snapshot in self.snapshot_offsets:
            if snapshot not in keep_snapshots_at:
                self._delete_snapshot(snapshot)
        self._clear()
        self.map_end_offset = self.last_snapshot_offset = offset

    def on_log_start_offset(self, log_start_offset: int) -> None:
        """Remove ended transactions that are entirely below the log start offset.

        `map_end_offset` moves up to the log start offset if it is lower.
        """
        below = [
            first for first, marker in self._unreplicated_txns.items() if marker < log_start_offset
        ]
        for first in below:
            del self._unreplicated_txns[first]
        self.map_end_offset = max(self.map_end_offset, log_start_offset)

    def delete_snapshot_at(self, offset: int) -> None:
        """Delete the snapshot taken at `offset`, if there is one: the segment there is removed."""
        if offset in self._snapshots:
            self._delete_snapshot(offset)

    def remove_stray_snapshots(self, segment_base_offsets: list[int]) -> None:
        """Delete the snapshots that are not at the start of a segment.

        The newest of them is kept if it is above all base offsets: a clean close left it.
        """
        bases = set(segment_base_offsets)
        newest_base = max(bases, default=-1)
        strays = [offset for offset in self._snapshots if offset not in bases]
        for stray in strays:
            if not (stray == strays[-1] and stray > newest_base):
                self._delete_snapshot(stray)

    def _delete_snapshot(self, offset: int) -> None:
        self._files.remove(snapshot_path(self._directory, offset))
        self._snapshots.remove(offset)

    def _load_entries(self, entries: list[ProducerEntry]) -> None:
        self._entries = {entry.producer_id: entry for entry in entries}
        opened = sorted(
            (entry.current_txn_first_offset, entry.producer_id)
            for entry in entries
            if entry.current_txn_first_offset is not None
        )
        self._ongoing_txns = dict(opened)

    def _clear(self) -> None:
        self._entries = {}
        self._ongoing_txns = {}
        self._unreplicated_txns = {}
        self.guards.clear()
