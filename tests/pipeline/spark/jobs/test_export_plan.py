"""What an export decides before Spark starts: its steps, what is lost, what it remembers."""

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.topic_partition import TopicPartition
from tierlog.pipeline.reading.scan_bounds import OffsetRange
from tierlog.pipeline.spark.__main__ import main
from tierlog.pipeline.spark.jobs.export import check_topics, missing_ranges
from tierlog.pipeline.spark.streaming.offset_steps import records_in, steps
from tierlog.pipeline.spark.tables.export_state import (
    NOTHING,
    Exported,
    ExportError,
    exported_from_json,
    exported_from_rows,
)

ORDERS = TopicPartition("orders", 0)
OLD, NEW = Uuid(b"the first topic."), Uuid(b"the second topic")

RANGES = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from(["a", "b"]), st.integers(0, 5)),
    st.tuples(st.integers(0, 10**9), st.integers(0, 10**6)).map(
        lambda pair: OffsetRange(pair[0], sum(pair))
    ),
    max_size=8,
)


@given(RANGES, st.integers(1000, 10**6))
def test_steps_follow_one_another_and_cover_everything(
    ranges: dict[TopicPartition, OffsetRange], records: int
) -> None:
    reached = {partition: each.first for partition, each in ranges.items()}
    for step in steps(ranges, records):
        assert set(step) == set(ranges)
        assert 0 < records_in(step) <= records + len(ranges)
        for partition, each in step.items():
            assert each.first == reached[partition]
            reached[partition] = each.end
    assert reached == {partition: each.end for partition, each in ranges.items()}


@given(RANGES)
def test_what_is_remembered_reads_as_it_was_written(
    ranges: dict[TopicPartition, OffsetRange],
) -> None:
    offsets = {partition: each.end for partition, each in ranges.items()}
    remembered = NOTHING.after(offsets, {"a": OLD}, {each: [(0, 0), (3, 7)] for each in offsets})
    assert exported_from_json(remembered.to_json(), "t") == remembered
    assert exported_from_rows(offsets) == exported_from_rows(dict(reversed(offsets.items())))


STATE = '{"series": "s", "sequence": 2, "offsets": {"orders": {"0": 7}}'


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", '{"series": 1, "sequence": 2, "offsets": {}}'),
        *(
            f'{STATE}, "topicIds": {ids}}}'
            for ids in ("[]", '{"orders": 1}', '{"orders": "short"}')
        ),
    ],
)
def test_what_cannot_be_read_is_reported_with_its_table(text: str) -> None:
    with pytest.raises(ExportError, match="saved progress of exports to /data/t"):
        exported_from_json(text, "/data/t")


def test_the_state_of_an_earlier_version_has_no_ids_and_takes_on_those_it_meets() -> None:
    state = exported_from_json(STATE + "}", "t")
    assert state == Exported("s", 2, {ORDERS: 7}, {})
    check_topics({"orders": NEW}, state, "t")
    after = state.after({ORDERS: 9}, {"orders": NEW}, {})
    assert after == Exported("s", 3, {ORDERS: 9}, {"orders": NEW})


def test_a_topic_that_was_created_again_needs_another_table() -> None:
    state = NOTHING.after({ORDERS: 7}, {"orders": OLD, "refunds": OLD}, {})
    check_topics({"orders": OLD, "payments": NEW}, state, "t")
    with pytest.raises(ExportError) as refused:
        check_topics({"orders": NEW}, state, "t")
    assert str(refused.value) == (
        "t holds records of the old topic, but topic 'orders' was deleted and created again: its "
        "id was dGhlIGZpcnN0IHRvcGljLg and is dGhlIHNlY29uZCB0b3BpYw now; export it to another "
        "table."
    )


def test_offsets_that_were_deleted_too_early_are_named_unless_accepted() -> None:
    held = {ORDERS: OffsetRange(100, 200)}
    state = Exported("s", 3, {ORDERS: 40}, {})
    with pytest.raises(ExportError, match="deleted offsets 40 to 99 of orders-0"):
        missing_ranges(held, state, "t", {}, accept_loss=False)
    assert missing_ranges(held, state, "t", {}, accept_loss=True) == held


def test_a_tier_that_ends_before_the_table_is_another_one() -> None:
    state = Exported("s", 3, {ORDERS: 40}, {})
    with pytest.raises(ExportError, match="up to offset 40 and the tier ends at 30"):
        missing_ranges({ORDERS: OffsetRange(0, 30)}, state, "t", {}, accept_loss=True)


def test_a_table_may_have_what_follows_an_open_transaction() -> None:
    """It was exported with `read_uncommitted`, and is now with `read_committed`."""
    state = Exported("s", 3, {ORDERS: 40}, {})
    held, ends = {ORDERS: OffsetRange(0, 30)}, {ORDERS: 50}
    missing = missing_ranges(held, state, "t", ends, accept_loss=False)
    assert missing == {ORDERS: OffsetRange(40, 40)}


def test_a_partition_that_is_new_begins_where_the_tier_does() -> None:
    held = {ORDERS: OffsetRange(100, 200)}
    assert missing_ranges(held, NOTHING, "t", {}, accept_loss=False) == held


def test_a_tier_that_is_not_there_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tier").mkdir()
    asked = ["--tier", str(tmp_path / "tier"), "--topic", "nowhere"]
    table = ["--format", "delta", "--table", str(tmp_path / "table")]
    assert main(["export", *asked, *table]) == 2
    (printed,) = capsys.readouterr().err.splitlines()
    assert "no tier at" in printed
    assert not (tmp_path / "table").exists()


def test_an_iceberg_table_needs_a_catalog(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["--tier", str(tmp_path), "--topic", "t", "--format", "iceberg", "--table", "events"]
    assert main(["export", *asked]) == 2
    assert "catalog.namespace.table" in capsys.readouterr().err
