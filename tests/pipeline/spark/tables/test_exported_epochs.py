"""One offset in one epoch is one record: where a table and a tier disagree about the epoch."""

import pytest
from hypothesis import given, strategies as st

from tierlog.clients.topic_partition import TopicPartition
from tierlog.pipeline.spark.tables.exported_epochs import (
    EPOCHS_KEPT,
    Divergence,
    divergence,
    epochs_between,
    epochs_from_json,
    epochs_to_json,
    joined,
)
from tierlog.storage.remote.remote_lineage import epoch_of_offset

ORDERS = TopicPartition("orders", 0)

History = list[tuple[int, int]]


@st.composite
def histories(draw: st.DrawFn) -> History:
    """From offset 0 on."""
    starts = sorted(draw(st.sets(st.integers(1, 40), max_size=5)))
    epochs = sorted(draw(st.sets(st.integers(0, 9), min_size=len(starts) + 1, max_size=7)))
    return list(zip(epochs, [0, *starts], strict=False))


@given(histories(), histories(), st.integers(1, 60), st.integers(1, 60))
def test_a_divergence_is_the_first_offset_of_both_that_has_another_epoch(
    history: History, current: History, end: int, current_end: int
) -> None:
    found = divergence(ORDERS, end, history, current, current_end)
    expected = next(
        (
            offset
            for offset in range(min(end, current_end))
            if epoch_of_offset(history, offset) != epoch_of_offset(current, offset)
        ),
        None,
    )
    assert (None if found is None else found.first_offset) == expected


@given(histories(), st.integers(0, 50), st.lists(st.integers(0, 20), max_size=5))
def test_epochs_kept_step_by_step_are_those_of_all_rows(
    history: History, first: int, steps: list[int]
) -> None:
    kept: History = []
    end = first
    for step in steps:
        kept = joined(kept, epochs_between(history, end, end + step))
        end += step
    assert kept == epochs_between(history, first, end)
    for offset in range(first, end):
        assert epoch_of_offset(kept, offset) == epoch_of_offset(history, offset)


def test_what_the_tier_has_deleted_and_what_a_table_does_not_know_is_no_divergence() -> None:
    assert divergence(ORDERS, 50, [(0, 0), (1, 10), (3, 30)], [(3, 40)], 60) is None
    assert divergence(ORDERS, 50, [], [(3, 40)], 60) is None
    # The tier ends early: it lacks the offsets, and does not say that they are of another epoch.
    assert divergence(ORDERS, 50, [(0, 0), (2, 30)], [(0, 0)], 30) is None


def test_a_divergence_names_offsets_and_epochs() -> None:
    found = divergence(ORDERS, 100, [(0, 0), (3, 60)], [(0, 0), (3, 60), (5, 80)], 90)
    assert found == Divergence(ORDERS, 80, 100, 3, 5)
    assert str(found) == (
        "offsets 80 to 99 of orders-0 of leader epoch 3, which an unclean leader election has "
        "removed: offset 80 is of leader epoch 5 in the tier now"
    )


def test_of_many_epochs_the_newest_are_kept() -> None:
    history = [(epoch, 10 * epoch) for epoch in range(3 * EPOCHS_KEPT)]
    kept = epochs_between(history, 0, 10**6)
    assert kept == history[-EPOCHS_KEPT:]
    assert joined(kept, [(10**6, 10**7)]) == [*kept[1:], (10**6, 10**7)]


def test_histories_read_as_they_were_written() -> None:
    epochs = {ORDERS: [(0, 0), (3, 60)], TopicPartition("orders", 1): [(2, 5)]}
    assert epochs_from_json(epochs_to_json(epochs)) == epochs


@pytest.mark.parametrize("entries", ["[0]", [[0]], [[0, -1]], [[0, True]], [[0, 1, 2]]])
def test_what_is_no_history_is_refused(entries: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        epochs_from_json({"orders": {"0": entries}})
