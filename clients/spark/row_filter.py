"""Which rows a query can want, as far as that says which batches to leave out.

A filter is only ever a reason to read less: whoever asks looks at each row once more.
"""

from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

_LEAST, _MOST = -(2**63), 2**63 - 1


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Bounds that all wanted rows keep to. Without any it is true of every row."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    """Any of them if it is None."""
    first_offset: int = _LEAST
    end_offset: int = _MOST
    """Exclusive."""
    first_timestamp_ms: int = _LEAST
    """A batch whose largest timestamp is below it holds no wanted row."""

    def __and__(self, other: "RowFilter") -> "RowFilter":
        """The bounds of both."""
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
