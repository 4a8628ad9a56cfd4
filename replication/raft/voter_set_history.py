"""The voter sets by the offset of their records (Kafka's `VoterSetHistory`).

A Voters record takes effect when it is appended, not when it is committed: so truncation takes it
back, and the set before it is in effect again. The set at offset -1 is the static one, or that of
the bootstrap snapshot.
"""

from bisect import bisect_left, bisect_right

from .voter_set import VoterSet

INITIAL_OFFSET = -1


class VoterSetHistory:
    """The voter sets of a log, oldest first; never empty."""

    def __init__(self, initial: VoterSet) -> None:
        self._initial = initial
        self._offsets = [INITIAL_OFFSET]
        self._sets = [initial]

    @property
    def latest(self) -> VoterSet:
        """The voter set in effect."""
        return self._sets[-1]

    @property
    def latest_offset(self) -> int:
        """The offset of the record of the voter set in effect; -1 for the initial one."""
        return self._offsets[-1]

    def at_or_before(self, offset: int) -> VoterSet | None:
        """The voter set in effect at an offset; None if it is no longer in the history."""
        index = bisect_right(self._offsets, offset)
        return self._sets[index - 1] if index else None

    def add(self, offset: int, voters: VoterSet) -> None:
        """Add the set of a record. Raises ValueError if its majorities miss those of the latest."""
        assert offset > self.latest_offset, "voter sets are added in the order of their offsets"
        latest = self.latest
        if latest and not voters.has_overlapping_majority(latest):
            # Voters with directories replace the same voters without.
            ids = set(voters.ids) ^ set(latest.ids)
            if latest.has_directories or len(ids) > 1:
                raise ValueError(
                    f"The voters at offset {offset} do not overlap with those at "
                    f"offset {self.latest_offset}."
                )
        self._offsets.append(offset)
        self._sets.append(voters)

    def truncate_to(self, end_offset: int) -> None:
        """Forget the sets at `end_offset` and above. The oldest set always stays."""
        keep = max(1, bisect_left(self._offsets, end_offset))
        del self._offsets[keep:], self._sets[keep:]

    def forget_before(self, start_offset: int) -> None:
        """Forget the sets that are not in effect at `start_offset` or above any more."""
        first = max(0, bisect_right(self._offsets, start_offset) - 1)
        del self._offsets[:first], self._sets[:first]

    def clear(self) -> None:
        """Begin again with the initial set."""
        self.reset(INITIAL_OFFSET, self._initial)

    def reset(self, offset: int, voters: VoterSet) -> None:
        """Begin again with the set of a loaded snapshot."""
        self._offsets = [offset]
        self._sets = [voters]
