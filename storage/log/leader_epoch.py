"""The leader epochs of a log and their start offsets (KIP-101; Kafka's `LeaderEpochFileCache`).

An entry is (epoch, start offset). Epochs and start offsets both increase; an epoch ends where the
next one starts, and the newest ends at the log end. The history begins at the log start offset,
which for a tiered log is below the first local segment. The history is needed to find remote
segments, so only a move of the log start offset may truncate its beginning, never the deletion of
a local segment (KIP-405).

A new epoch is written to the checkpoint before its first batch is appended, and is durable before
the recovery point passes that batch. After a crash, recovery reads the batches above the recovery
point and restores their epochs. The first epoch of a new log can therefore be written without a
sync; the log's next flush syncs it. Creating many logs and starting to write to them then does not
wait for the disk. If a crash undoes a truncation, loading the log truncates the history to the
log's bounds again.
"""

from bisect import bisect_right
from typing import NamedTuple

from ..checkpoint import read_epoch_checkpoint, write_epoch_checkpoint
from ..files import Files

UNDEFINED_EPOCH = -1
UNDEFINED_EPOCH_OFFSET = -1


class EpochEntry(NamedTuple):
    """An epoch and the first offset that its leader wrote."""

    epoch: int
    start_offset: int


class LeaderEpochCache:
    """The epoch history of one log, kept in `leader-epoch-checkpoint`."""

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self._path = path
        self._entries = [EpochEntry(*entry) for entry in read_epoch_checkpoint(files, path)]
        self._version = 0
        """How many times the checkpoint was written."""
        self._synced_version = 0

    @property
    def is_synced(self) -> bool:
        """Whether the checkpoint, as it was last written, would survive a crash."""
        return self._synced_version >= self._version

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        """The whole history, oldest first."""
        return tuple(self._entries)

    @property
    def latest_epoch(self) -> int:
        """The newest epoch with a known start; -1 when there is none."""
        return self._entries[-1].epoch if self._entries else UNDEFINED_EPOCH

    def assign(self, epoch: int, start_offset: int) -> None:
        """Record that `epoch` starts at `start_offset`, unless it is the latest and starts earlier.

        Removes contradicting entries: those with a higher epoch, or with a start offset at or above
        `start_offset`.
        """
        last = self._entries[-1] if self._entries else None
        if last is not None and last.epoch == epoch and start_offset >= last.start_offset:
            return
        assert epoch >= 0
        assert start_offset >= 0
        kept = [
            entry
            for entry in self._entries
            if entry.epoch < epoch and entry.start_offset < start_offset
        ]
        self._change([*kept, EpochEntry(epoch, start_offset)], durable=last is not None)

    def replace(self, entries: list[EpochEntry]) -> None:
        """Replace the history (for a follower built from the remote tier)."""
        self._change(list(entries))

    def epoch_for_offset(self, offset: int) -> int | None:
        """The epoch that wrote `offset`; None below the first entry."""
        slot = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset)
        return self._entries[slot - 1].epoch if slot else None

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The largest known epoch at or below `epoch` and its end offset (KIP-101, KIP-279).

        (-1, -1) if the epoch is undefined or newer than any entry, or there is no entry. For an
        epoch older than the history, returns that epoch and the start of the first entry.
        """
        entries = self._entries
        if epoch == UNDEFINED_EPOCH or not entries or epoch > entries[-1].epoch:
            return UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET
        if epoch == entries[-1].epoch:
            return epoch, log_end_offset
        above = bisect_right(entries, epoch, key=lambda entry: entry.epoch)
        if above == 0:
            return epoch, entries[0].start_offset
        return entries[above - 1].epoch, entries[above].start_offset

    def entries_in_range(self, start_offset: int, end_offset: int) -> list[EpochEntry]:
        """The history of the offsets [`start_offset`, `end_offset`).

        This is the epoch map in a remote segment's metadata, as of Kafka's `epochEntriesInRange`.
        It begins at `start_offset`, or where the whole history begins if that is later: the log
        start offset may lie within a segment.
        """
        within = [
            entry for entry in self._entries if start_offset < entry.start_offset < end_offset
        ]
        first = self.epoch_for_offset(start_offset)
        if first is not None and start_offset < end_offset:
            within.insert(0, EpochEntry(first, start_offset))
        return within

    def entries_up_to(self, end_offset: int) -> list[EpochEntry]:
        """The history of everything below `end_offset`."""
        return [entry for entry in self._entries if entry.start_offset < end_offset]

    def truncate_from_end(self, end_offset: int) -> None:
        """Drop epochs that start at or above `end_offset`, where the log was truncated."""
        if self._entries and self._entries[-1].start_offset >= end_offset:
            self._change(self.entries_up_to(end_offset))

    def truncate_from_start(self, start_offset: int) -> None:
        """Drop the history below the log start offset.

        The epoch of `start_offset` then starts there.
        """
        if not self._entries or self._entries[0].start_offset >= start_offset:
            return
        kept = [entry for entry in self._entries if entry.start_offset > start_offset]
        epoch = self.epoch_for_offset(start_offset)
        assert epoch is not None
        self._change([EpochEntry(epoch, start_offset), *kept])

    def clear(self) -> None:
        """Drop every entry, for a log that starts over."""
        if self._entries:
            self._change([])

    def _change(self, entries: list[EpochEntry], *, durable: bool = True) -> None:
        """Write a new history, then use it."""
        # A sync in another thread may read the version at any moment. Before the write, so that one
        # that has begun does not count for it, and after it, so that one that begins meanwhile and
        # opens the old file does not count either.
        self._version += 1
        write_epoch_checkpoint(self._files, self._path, entries, durable=durable)
        self._version += 1
        self._entries = entries
        if durable:
            self._synced_version = self._version

    def sync(self) -> None:
        """fsync the checkpoint, in any thread; the caller must sync its directory."""
        version = self._version
        handle = self._files.open(self._path)
        handle.flush()
        handle.close()
        self._synced_version = version
