"""Bounds on the rows that a query can return, for skipping batches.

A filter only makes a scan read less: the caller still checks each row.
"""

from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

_LEAST, _MOST = -(2**63), 2**63 - 1


@dataclass(frozen=True, slots=True)
class RowFilter:
    """The bounds of all matching rows. By default every row matches."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    """None means all."""
    first_offset: int = _LEAST
    end_offset: int = _MOST
    """Exclusive."""
    first_timestamp_ms: int = _LEAST

    def is_too_old(self, max_timestamp_ms: int) -> bool:
        """Whether a segment or batch with this max timestamp holds no matching row."""
        return max_timestamp_ms < self.first_timestamp_ms

    def __and__(self, other: "RowFilter") -> "RowFilter":
        """The intersection of both."""
        return RowFilter(
            _common(self.topics, other.topics),
            _common(self.partitions, other.partitions),
            max(self.first_offset, other.first_offset),
            min(self.end_offset, other.end_offset),
            max(self.first_timestamp_ms, other.first_timestamp_ms),
        )


def _common(ours: frozenset[T] | None, theirs: frozenset[T] | None) -> frozenset[T] | None:
    if ours is None or theirs is None:
        return ours if theirs is None else theirs
    return ours & theirs
