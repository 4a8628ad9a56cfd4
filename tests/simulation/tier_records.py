"""What clients were promised of one incarnation of a topic, and what a reader then finds.

Each record names its incarnation and its number. Sent one after the other and acknowledged, a
record has an offset; what was sent and never acknowledged may be there or not.
"""

from dataclasses import dataclass, field

from tierlog.clients.consumer.completed_fetch import ConsumerRecord
from tierlog.clients.topic_partition import TopicIdPartition

BATCH_OVERHEAD_BYTES = 61 + 30
"""More than a batch of one record takes beside its value."""


@dataclass(eq=False, slots=True)
class Promises:
    """One incarnation of a topic of one partition."""

    partition: TopicIdPartition
    retention_bytes: int
    retention_ms: int
    segment_bytes: int
    sent: int = 0
    acknowledged: dict[int, bytes] = field(default_factory=dict[int, bytes])
    written_ms: dict[int, int] = field(default_factory=dict[int, int])
    """By offset, the time stamp of what was acknowledged."""
    deleted_below: int = 0
    """The highest offset of which a client asked that all below it go."""
    floor: int = 0
    """The highest offset at which the log was ever seen to begin."""
    safe_end: int = 0
    """Everything below was once on the disk for good, or readable from the tier."""
    lost_bytes: int = 0
    """Of acknowledged records that a loss of power has taken, as it may."""

    def next_value(self, padding: int) -> bytes:
        """Another record's value."""
        value = b"%s %06d " % (str(self.partition).encode(), self.sent)
        self.sent += 1
        return value + b"." * padding

    def number_of(self, value: bytes) -> int:
        """The number of a record of this incarnation; AssertionError for anybody else's."""
        owner, number, _ = value.split(b" ")
        assert owner == str(self.partition).encode(), f"{value!r} in {self.partition}"
        return int(number)

    def key_of(self, value: bytes) -> bytes | None:
        """The key of a record; here it has none."""
        return None

    def may_be_superseded(self, offset: int) -> bool:
        """Whether compaction may have taken an acknowledged record; here there is none."""
        return False

    @property
    def end_offset(self) -> int:
        """One past the last acknowledged record."""
        return max(self.acknowledged, default=-1) + 1

    def saw_log_start(self, offset: int, now_ms: int) -> None:
        """The log begins at `offset` now: has anybody allowed that?"""
        if offset <= self.floor:
            return
        self.floor = offset
        if offset <= self.deleted_below:
            return
        above = [value for at, value in self.acknowledged.items() if at >= offset]
        unacknowledged = self.sent - len(self.acknowledged)
        most_bytes = sum(len(value) + BATCH_OVERHEAD_BYTES for value in above)
        most_bytes += self.lost_bytes
        most_bytes += unacknowledged * (self.segment_bytes + BATCH_OVERHEAD_BYTES)
        if 0 <= self.retention_bytes <= most_bytes:
            return
        below = [at for at in self.written_ms if self.deleted_below <= at < offset]
        gone = [at for at in below if not self.may_be_superseded(at)]
        if below and not gone:
            # The cleaner took them all; a history that is rebuilt begins with what it has left.
            return
        youngest = max((self.written_ms[at] for at in gone), default=0)
        assert 0 <= self.retention_ms < now_ms - youngest, (
            f"{self.partition} begins at {offset}: {most_bytes} bytes from there on, the youngest "
            f"record below is {now_ms - youngest} ms old, "
            f"deleted below {self.deleted_below}, {self.retention_bytes=} {self.retention_ms=}"
        )

    def lose_from(self, end_offset: int) -> None:
        """The log ends there after a loss of power: records above are gone, if they may be."""
        assert end_offset >= min(self.safe_end, self.end_offset), (
            f"{self.partition} ends at {end_offset}, and all below {self.safe_end} was safe"
        )
        for offset in [each for each in self.acknowledged if each >= end_offset]:
            self.lost_bytes += len(self.acknowledged.pop(offset)) + BATCH_OVERHEAD_BYTES
            del self.written_ms[offset]

    def check_read(self, found: list[ConsumerRecord], start: int) -> None:
        """All of the log from `start` to its end was read: nothing lost, torn, twice or alien."""
        offsets = [record.offset for record in found]
        end = max(self.end_offset, start)
        assert offsets == list(range(start, start + len(found))), f"a hole in {offsets}"
        assert start + len(found) >= end, (
            f"{self.partition} ends at {start + len(found)}, not {end}"
        )
        values = [record.value or b"" for record in found]
        numbers = [self.number_of(value) for value in values]
        assert numbers == sorted(set(numbers)), f"twice or out of order: {numbers}"
        for offset, value in zip(offsets, values, strict=True):
            assert self.acknowledged.get(offset, value) == value, f"another record at {offset}"
