"""Decides what becomes of rows that the log of a topic has lost since they were exported."""

from collections.abc import Mapping, Sequence

from ....clients.text_table import counted
from ....clients.topic_partition import TopicPartition
from ....tiering.tools.lineage_choice import TierLineage
from ...reading.scan_bounds import OffsetRange
from ..streaming.offset_steps import Ranges
from ..tables.export_state import Exported, ExportError
from ..tables.exported_epochs import Divergence, Epochs, divergence, epochs_between, joined

Lineages = Mapping[TopicPartition, TierLineage]


def divergences(lineages: Lineages, state: Exported) -> list[Divergence]:
    """The partitions of which the tier holds other records than the table, in order."""
    compared = [
        divergence(
            partition,
            state.offsets.get(partition, 0),
            state.epochs.get(partition, ()),
            lineage.history,
            lineage.log_end_offset,
        )
        for partition, lineage in sorted(lineages.items())
    ]
    return [each for each in compared if each is not None]


def divergence_error(table: str, diverged: Sequence[Divergence], *, is_upsert: bool) -> ExportError:
    """The error for a table that has diverged, unless its rows are to be deleted."""
    first, *others = diverged
    more = f" ({counted(len(others), 'other partition')} too)" if others else ""
    advice = (
        "it no longer has the records before them, so copy the topic to another table."
        if is_upsert
        else "--on-divergence delete deletes those rows and goes on from there."
    )
    return ExportError(f"{table} holds {first}{more}; {advice}")


def rows_of(diverged: Sequence[Divergence]) -> Ranges:
    """The offsets whose rows have to be deleted."""
    return {each.partition: OffsetRange(each.first_offset, each.end_offset) for each in diverged}


def state_without(state: Exported, diverged: Sequence[Divergence]) -> Exported:
    """The state after the commit that deletes those rows: each partition ends before them."""
    ends = {each.partition: each.first_offset for each in diverged}
    epochs = {
        partition: [entry for entry in state.epochs[partition] if entry[1] < end]
        for partition, end in ends.items()
    }
    return state.after(ends, {}, epochs)


def epochs_after(lineages: Lineages, state: Exported, step: Ranges) -> Epochs:
    """The epochs of the rows of a table once it has those of a step as well."""
    return {
        partition: joined(
            state.epochs.get(partition, ()),
            epochs_between(lineages[partition].history, offsets.first, offsets.end),
        )
        for partition, offsets in step.items()
        if partition in lineages
    }
