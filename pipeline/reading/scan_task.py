"""The work of one task of a scan, as planning hands it to the process that reads it."""

from dataclasses import dataclass
from typing import NamedTuple

from ...storage.segment.transaction_index import AbortedTxn


class ScanRange(NamedTuple):
    """Offsets of one partition, and their byte range in a log object."""

    key: str
    position: int
    end_position: int
    first_offset: int
    end_offset: int
    """Exclusive."""
    is_to_end: bool
    """Whether it ends where, by its manifest, the segment does: the log holds no more."""

    @property
    def nbytes(self) -> int:
        return self.end_position - self.position


@dataclass(frozen=True, slots=True)
class ScanTask:
    """The work of one task: neighbouring ranges of one partition, in offset order."""

    topic: str
    partition: int
    ranges: tuple[ScanRange, ...]
    aborted: tuple[AbortedTxn, ...] = ()
    """The aborted transactions, whose records are left out."""

    @property
    def first_offset(self) -> int:
        return self.ranges[0].first_offset

    @property
    def end_offset(self) -> int:
        """Exclusive."""
        return self.ranges[-1].end_offset

    @property
    def nbytes(self) -> int:
        return sum(scan_range.nbytes for scan_range in self.ranges)
