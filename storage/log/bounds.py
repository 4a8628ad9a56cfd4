"""The offsets that bound one partition's log, and their order.

    log start <= local log start <= high watermark <= log end

The log end moves with every append, and the high watermark as followers replicate. The local log
start moves when segments that are in the tier are deleted locally, and the log start when retention
or DeleteRecords deletes records. Only the methods here change these offsets, and they assert the
order afterwards.

The last stable offset is derived and lies between log start and high watermark. It is below the
local log start only in a log built from the tier (`aux_state`), while a transaction is open that
began below the local log start. Kafka keeps the same offsets as fields of `UnifiedLog` and
`LocalLog`.
"""

_UNKNOWN = -1


class LogBounds:
    """The bounds of one log, all of them record offsets."""

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
        """One past the last replicated offset."""
        self.log_end = 0
        """The offset of the next record. It moves only after the bytes are written."""
        self.highest_remote = _UNKNOWN
        """The last offset of a finished copy in this leader's lineage; -1 while unknown."""
        self.knows_remote = True
        """Whether `highest_remote` is up to date; False while the tier's metadata is being read."""

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
        """Set the bounds of a loaded log; the high watermark starts at the local log start."""
        self.log_start = log_start
        self.local_log_start = self.high_watermark = max(log_start, first_segment)
        self._check()

    def last_stable_offset(self, first_unstable: int | None) -> int:
        """The offset below which read_committed may read; no open transaction begins below it."""
        if first_unstable is None or first_unstable >= self.high_watermark:
            return self.high_watermark
        return max(first_unstable, self.log_start)

    def advance_log_end(self, offset: int) -> None:
        """Move the log end to `offset`, because the records below it are written."""
        assert offset >= self.log_end, f"The log end of {self} goes back to {offset}."
        self.log_end = offset

    def move_high_watermark(self, offset: int) -> int:
        """Set the high watermark, clamped to the local log; returns the new value.

        On a follower it moves back if the leader's high watermark is lower.
        """
        if offset > self.log_end:
            offset = self.log_end
        elif offset < self.local_log_start:
            offset = self.local_log_start
        self.high_watermark = offset
        return offset

    def advance_log_start(self, offset: int) -> None:
        """Move the log start to `offset`, and the local log start if it is lower."""
        assert offset >= self.log_start, f"The log start of {self} goes back to {offset}."
        self.log_start = offset
        self.local_log_start = max(self.local_log_start, offset)
        self._check()

    def advance_local_log_start(self, offset: int) -> None:
        """Move the local log start to `offset`; records below it are only in the tier."""
        self.local_log_start = max(self.local_log_start, offset)
        self._check()

    def truncate_to(self, offset: int) -> None:
        """Set the log end to `offset` and lower every bound above it."""
        assert 0 <= offset <= self.log_end
        self.log_end = offset
        self.log_start = min(self.log_start, offset)
        self.local_log_start = min(self.local_log_start, offset)
        self.high_watermark = min(self.high_watermark, offset)
        self.highest_remote = min(self.highest_remote, offset - 1)
        self._check()

    def begin_at(self, offset: int, log_start: int) -> None:
        """Set the bounds of a locally empty log that continues at `offset`."""
        self.log_start = log_start
        self.local_log_start = self.high_watermark = self.log_end = offset
        self.highest_remote = min(self.highest_remote, offset - 1)
        self._check()

    def update_highest_remote(self, offset: int) -> None:
        """Record that everything up to and including `offset` is in the remote tier."""
        self.highest_remote = offset
        self.knows_remote = True

    def forget_highest_remote(self) -> None:
        """Mark the highest remote offset as unknown until it is determined again."""
        self.highest_remote = _UNKNOWN
        self.knows_remote = False

    def adopt(self, other: "LogBounds") -> None:
        """Copy the high watermark and remote offset of a log with the same records (KIP-113)."""
        assert self.log_end == other.log_end
        self.move_high_watermark(other.high_watermark)
        self.highest_remote, self.knows_remote = other.highest_remote, other.knows_remote
