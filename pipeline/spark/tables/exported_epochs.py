"""The leader epochs of the records in a table, and where a tier no longer holds those records.

An unclean leader election may remove records that were exported already: the new leader's log ends
before them, and goes on with others at the same offsets. Offsets alone do not show it; the epochs
do, as in a follower's log (KIP-101): one offset in one epoch is one record. So the state of a table
has the epoch history of each partition, and a run compares it with the one of the tier.
"""

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias, cast

from ....clients.topic_partition import TopicPartition
from ....storage.remote.remote_lineage import EpochHistory, epoch_of_offset

EPOCHS_KEPT = 100
"""The most epochs of a partition in a state, the newest; a divergence before them is not seen."""

Epochs: TypeAlias = Mapping[TopicPartition, EpochHistory]
"""The histories by partition: ascending (epoch, its first offset). A partition that is not there
was exported by an earlier version, which kept none."""


class Divergence(NamedTuple):
    """Offsets of a partition that a table holds in an epoch, and the tier no longer does."""

    partition: TopicPartition
    first_offset: int
    end_offset: int
    """The end of what the table holds; exclusive."""
    epoch: int
    """Of the first offset, in the table."""
    current_epoch: int
    """Of the first offset, in the tier."""

    def __str__(self) -> str:
        """What is the case, as the first part of a sentence for the user."""
        return (
            f"offsets {self.first_offset} to {self.end_offset - 1} of {self.partition} of leader "
            f"epoch {self.epoch}, which an unclean leader election has removed: offset "
            f"{self.first_offset} is of leader epoch {self.current_epoch} in the tier now"
        )


def epochs_between(history: EpochHistory, first: int, end: int) -> list[tuple[int, int]]:
    """The epochs of these offsets: the first one begins at `first`; at most `EPOCHS_KEPT`."""
    if first >= end:
        return []
    epoch = epoch_of_offset(history, first)
    later = [(epoch, start) for epoch, start in history if first < start < end]
    return ([(epoch, first), *later] if epoch >= 0 else later)[-EPOCHS_KEPT:]


def joined(before: EpochHistory, later: EpochHistory) -> list[tuple[int, int]]:
    """The history of rows that were there, and of rows that came behind them."""
    if before and later and before[-1][0] == later[0][0]:
        later = later[1:]
    return [*before, *later][-EPOCHS_KEPT:]


def divergence(
    partition: TopicPartition,
    end: int,
    history: EpochHistory,
    current: EpochHistory,
    current_end: int,
) -> Divergence | None:
    """Where the exported offsets below `end` begin to be of another epoch than in the tier.

    `history` is that of the table and `current` that of the tier, which begins where its log does.
    Offsets from `current_end` on, where that ends, are in no epoch of the tier: it may have lost
    them, and so they are no reason to take them out of a table.
    """
    if not history or not current:
        return None
    begin = max(history[0][1], current[0][1])
    starts = {begin, *(start for _, start in history), *(start for _, start in current)}
    for offset in sorted(start for start in starts if begin <= start < min(end, current_end)):
        epoch, now = epoch_of_offset(history, offset), epoch_of_offset(current, offset)
        if epoch != now:
            return Divergence(partition, offset, end, epoch, now)
    return None


def epochs_to_json(epochs: Epochs) -> dict[str, dict[str, list[list[int]]]]:
    """The histories as JSON: {"topic": {"0": [[epoch, first offset]]}}, sorted."""
    by_topic: dict[str, dict[str, list[list[int]]]] = {}
    for partition, history in sorted(epochs.items()):
        entries = [list(entry) for entry in history]
        by_topic.setdefault(partition.topic, {})[str(partition.partition)] = entries
    return by_topic


def epochs_from_json(content: object) -> Epochs:
    """Read what `epochs_to_json` wrote. Raises ValueError, TypeError or AttributeError."""
    epochs: dict[TopicPartition, list[tuple[int, int]]] = {}
    for topic, partitions in cast("dict[str, dict[str, list[list[int]]]]", content).items():
        for partition, entries in partitions.items():
            history = [(epoch, start) for epoch, start in entries]
            numbers = [number for entry in history for number in entry]
            if not all(type(number) is int and number >= 0 for number in numbers):
                raise ValueError(entries)
            epochs[TopicPartition(topic, int(partition))] = history
    return epochs
