"""The offsets between which one partition's log lies, and their order.

    log start <= local log start <= high watermark <= log end

The log end moves with every append, the high watermark as replicas follow, the local log start as
segments that are safe in the tier leave the disk, the log start as retention or DeleteRecords take
records away. Each has its own method here and nobody else assigns one; each method asserts that
the order holds behind it.

The last stable offset is derived and lies between log start and high watermark. It lies below the
local log start only in a log that was begun from the tier (`aux_state`), while a transaction is
open that began there (Kafka keeps the same offsets as fields of `UnifiedLog` and `LocalLog`).
"""

_UNKNOWN = -1


class LogBounds:
    """The offsets of one log. All are offsets of records, none is a position."""

    __slots__ = (
        "high_watermark",
        "highest_remote",
        "knows_remote",
        "local_log_start",
        "log_end",
        "log_start",
    )

    def __init__(self) -> None:
        self.log_start = 0
        """The first offset that may be read at all."""
        self.local_log_start = 0
        """The first offset that is on this machine's disk."""
        self.high_watermark = 0
        """One past the last offset that is replicated."""
        self.log_end = 0
        """The offset that the next record gets. It moves only after the bytes are written."""
        self.highest_remote = _UNKNOWN
        """The last offset of a finished copy in this leader's lineage; -1 while unknown."""
        self.knows_remote = True
        """Whether that is what the tier has; not while the tier's metadata is being read."""

    def __repr__(self) -> str:
        return (
            f"LogBounds({self.log_start} <= {self.local_log_start} <= {self.high_watermark} <= "
            f"{self.log_end})"
        )

    def _check(self) -> None:
        assert 0 <= self.log_start <= self.local_log_start <= self.high_watermark <= self.log_end, (
            f"The offsets of a log are out of order: {self}"
        )

    def open_at(self, log_start: int, first_segment: int) -> None:
        """Begin where a loaded log does; the high watermark is not known yet and begins low."""
        self.log_start = log_start
        self.local_log_start = self.high_watermark = max(log_start, first_segment)
        self._check()

    def last_stable_offset(self, first_unstable: int | None) -> int:
        """One past what read_committed may see: below every transaction that is not decided."""
        if first_unstable is None or first_unstable >= self.high_watermark:
            return self.high_watermark
        return max(first_unstable, self.log_start)

    def advance_log_end(self, offset: int) -> None:
        """Publish what was written up to `offset`, exclusive."""
        assert offset >= self.log_end, f"The log end of {self} goes back to {offset}."
        self.log_end = offset

    def move_high_watermark(self, offset: int) -> int:
        """Set the high watermark, clamped to the local log; the offset that it has then.

        It goes back where a follower learns of a leader that has less.
        """
        if offset > self.log_end:
            offset = self.log_end
        elif offset < self.local_log_start:
            offset = self.local_log_start
        self.high_watermark = offset
        return offset

    def advance_log_start(self, offset: int) -> None:
        """Take everything below `offset` away, in both tiers."""
        assert offset >= self.log_start, f"The log start of {self} goes back to {offset}."
        self.log_start = offset
        self.local_log_start = max(self.local_log_start, offset)
        self._check()

    def advance_local_log_start(self, offset: int) -> None:
        """Say that what lies below `offset` is not on the disk any more; the tier has it."""
        self.local_log_start = max(self.local_log_start, offset)
        self._check()

    def truncate_to(self, offset: int) -> None:
        """Drop everything at and above `offset`; bounds above it come down to it."""
        assert 0 <= offset <= self.log_end
        self.log_end = offset
        self.log_start = min(self.log_start, offset)
        self.local_log_start = min(self.local_log_start, offset)
        self.high_watermark = min(self.high_watermark, offset)
        self.highest_remote = min(self.highest_remote, offset - 1)
        self._check()

    def begin_at(self, offset: int, log_start: int) -> None:
        """Be those of a log that is locally empty and goes on at `offset`."""
        self.log_start = log_start
        self.local_log_start = self.high_watermark = self.log_end = offset
        self.highest_remote = min(self.highest_remote, offset - 1)
        self._check()

    def update_highest_remote(self, offset: int) -> None:
        """Say that everything up to and including `offset` is safe in the tier."""
        self.highest_remote = offset
        self.knows_remote = True

    def forget_highest_remote(self) -> None:
        """How far the tier has the log is to be found out anew."""
        self.highest_remote = _UNKNOWN
        self.knows_remote = False

    def adopt(self, other: "LogBounds") -> None:
        """Know what another log of the same records knows (KIP-113)."""
        assert self.log_end == other.log_end
        self.move_high_watermark(other.high_watermark)
        self.highest_remote, self.knows_remote = other.highest_remote, other.knows_remote
