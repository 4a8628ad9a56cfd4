"""A tier as a stream, call by call as Spark's engine makes them."""

import pickle
from typing import Any, cast

import pytest
from pyspark.sql.types import StructType

from tierlog.clients.kafka_uuid import Uuid, uuid_to_string
from tierlog.clients.topic_partition import TopicIdPartition
from tierlog.pipeline.reading.scan_options import ScanError, scan_options
from tierlog.pipeline.spark.source import TierlogDataSource
from tierlog.pipeline.spark.streaming.stream_offset import OffsetJson
from tierlog.pipeline.spark.streaming.stream_reader import TierlogStreamReader
from tierlog.tests.pipeline.spark.folder_tier import Tier
from tierlog.tests.tiering.remote_partition import PARTITION

AGAIN = PARTITION._replace(topic_id=Uuid(b"the second topic"))


def at(offset: int, topic_id: Uuid | None = PARTITION.topic_id) -> OffsetJson:
    """An offset in a checkpoint; those of earlier versions have no id."""
    known: dict[str, int | str] = {} if topic_id is None else {"topicId": uuid_to_string(topic_id)}
    return {"orders": {"0": offset, **known}}


def reader_of(tier: Tier, **options: str) -> TierlogStreamReader:
    return TierlogStreamReader(scan_options(tier.options(**options), streaming=True))


def read(reader: TierlogStreamReader, start: OffsetJson, end: OffsetJson) -> list[int]:
    """The offsets of a micro-batch; its tasks run elsewhere, with a copy of the reader."""
    copy = cast("TierlogStreamReader", pickle.loads(pickle.dumps(reader)))
    return [
        cast("int", row["offset"])
        for partition in reader.partitions(start, end)
        for batch in copy.read(partition)
        for row in cast("list[dict[str, Any]]", cast("Any", batch).to_pylist())
    ]


def test_a_stream_begins_at_the_end_unless_an_offset_is_stated(tier: Tier) -> None:
    latest, earliest = reader_of(tier), reader_of(tier, startingOffsets="earliest")
    assert latest.initialOffset() == at(100)
    assert earliest.initialOffset() == at(0)
    for reader in (latest, earliest):
        reader.stop()


def test_what_comes_to_the_tier_is_the_next_micro_batch(tier: Tier) -> None:
    reader = reader_of(tier, startingOffsets="earliest")
    assert reader.initialOffset() == at(0)
    assert reader.latestOffset() == at(100)
    assert read(reader, at(0), at(100)) == [*range(100)]
    tier.bucket.put(2, (100, 149))
    tier.write()
    assert reader.latestOffset() == at(150)
    assert read(reader, at(100), at(150)) == [*range(100, 150)]
    assert reader.latestOffset() == at(150)
    reader.stop()


def test_every_micro_batch_of_a_new_stream_is_bounded(tier: Tier) -> None:
    """Spark asks for the end of the first micro-batch before it asks where the stream begins."""
    reader = reader_of(tier, startingOffsets="earliest", maxOffsetsPerTrigger="40")
    first = reader.latestOffset()
    offsets = [reader.initialOffset(), first]
    assert read(reader, *offsets) == [*range(40)]
    while (latest := reader.latestOffset()) != offsets[-1]:
        assert len(read(reader, offsets[-1], latest)) <= 40
        offsets.append(latest)
    assert offsets == [at(0), at(40), at(80), at(100)]
    reader.stop()


def test_a_new_bounded_stream_begins_where_it_was_when_it_was_asked_first(tier: Tier) -> None:
    reader = reader_of(tier, maxOffsetsPerTrigger="40")
    assert reader.latestOffset() == at(100)
    tier.bucket.put(2, (100, 149))
    tier.write()
    assert reader.initialOffset() == at(100)
    assert reader.latestOffset() == at(140)
    reader.stop()


def test_after_a_restart_it_goes_on_from_the_checkpoint(tier: Tier) -> None:
    """Spark first passes the end of the last micro-batch; it repeats that one if need be."""
    reader = reader_of(tier, startingOffsets="earliest", maxOffsetsPerTrigger="15")
    assert read(reader, at(80), at(80)) == []
    assert reader.latestOffset() == at(95)
    reader.stop()
    again = reader_of(tier, startingOffsets="earliest", maxOffsetsPerTrigger="40")
    assert read(again, at(80), at(80)) == []
    assert read(again, at(40), at(80)) == [*range(40, 80)]
    assert again.latestOffset() == at(100)
    again.stop()


def test_an_end_that_is_asked_for_before_the_position_is_passed_cannot_be_bounded(
    tier: Tier,
) -> None:
    reader = reader_of(tier, startingOffsets="earliest", maxOffsetsPerTrigger="40")
    assert reader.latestOffset() == at(40)
    with pytest.raises(ScanError, match=r"triggerAvailableNowWrapper.enabled at false"):
        reader.partitions(at(80), at(80))
    reader.stop()
    # Without a bound there is nothing to go wrong.
    unbounded = reader_of(tier, startingOffsets="earliest")
    assert unbounded.latestOffset() == at(100)
    assert read(unbounded, at(80), at(80)) == []
    assert read(unbounded, at(80), at(100)) == [*range(80, 100)]
    unbounded.stop()


def test_a_partition_that_comes_later_is_bounded_from_its_first_offset(tier: Tier) -> None:
    reader = reader_of(tier, startingOffsets="earliest", maxOffsetsPerTrigger="40")
    assert read(reader, at(100), at(100)) == []
    tier.bucket.put(2, (500, 599), partition=PARTITION._replace(partition=1), log_start=500)
    tier.write()
    latest = reader.latestOffset()
    assert latest["orders"]["1"] == 540
    assert read(reader, at(100), latest) == [*range(500, 540)]
    reader.stop()


def test_topics_that_begin_to_match_a_pattern_are_read_from_their_start(tier: Tier) -> None:
    options = {name: text for name, text in tier.options().items() if name != "topic"}
    stated = {**options, "subscribePattern": "orders.*", "maxOffsetsPerTrigger": "30"}
    reader = TierlogStreamReader(scan_options(stated, streaming=True))
    assert reader.latestOffset() == at(100)
    start = reader.initialOffset()
    other = Uuid(b"orders of europe")
    tier.bucket.put(2, (0, 49), partition=TopicIdPartition(other, "orders-eu", 0))
    tier.write()
    latest = reader.latestOffset()
    assert latest == {**at(100), "orders-eu": {"0": 30, "topicId": uuid_to_string(other)}}
    assert read(reader, start, latest) == [*range(30)]
    reader.stop()


def test_a_partition_that_is_gone_ends_a_stream_unless_loss_is_fine(tier: Tier) -> None:
    both: OffsetJson = {**at(100), "refunds": {"0": 7}}
    strict, lenient = reader_of(tier), reader_of(tier, failOnDataLoss="false")
    with pytest.raises(ScanError, match="Partition refunds-0 is no longer in the tier"):
        strict.partitions(both, both)
    assert read(lenient, {**at(90), "refunds": {"0": 3}}, both) == [*range(90, 100)]
    assert lenient.latestOffset() == both
    for reader in (strict, lenient):
        reader.stop()


def test_a_micro_batch_waits_for_enough_offsets_but_the_first_does_not(tier: Tier) -> None:
    stated = {"minOffsetsPerTrigger": "30", "maxOffsetsPerTrigger": "60", "maxTriggerDelay": "9d"}
    reader = reader_of(tier, startingOffsets="earliest", **stated)
    assert read(reader, at(95), at(95)) == []
    assert reader.latestOffset() == at(100)
    assert read(reader, at(95), at(100)) == [*range(95, 100)]
    for number, (segment, end) in enumerate(
        [((100, 110), 100), ((111, 128), 100), ((129, 129), 130)], 2
    ):
        tier.bucket.put(number, segment)
        tier.write()
        assert reader.latestOffset() == at(end), segment
    reader.stop()
    hasty = reader_of(tier, minOffsetsPerTrigger="1000", maxTriggerDelay="0")
    assert read(hasty, at(129), at(129)) == []
    assert hasty.latestOffset() == at(130)
    hasty.stop()


def test_offsets_that_are_gone_end_a_stream_unless_loss_is_fine(tier: Tier) -> None:
    strict, lenient = reader_of(tier), reader_of(tier, failOnDataLoss="false")
    with pytest.raises(ScanError, match="Offset 200 of orders-0 is not in the tier"):
        strict.partitions(at(90), at(200))
    assert read(lenient, at(90), at(200)) == [*range(90, 100)]
    for reader in (strict, lenient):
        reader.stop()


def recreate(tier: Tier) -> None:
    """Another topic of the name is longer than the first, whose segments are not gone yet."""
    tier.bucket.put(2, (0, 199), partition=AGAIN)
    tier.write()


def test_a_topic_that_was_created_again_ends_a_stream_that_runs(tier: Tier) -> None:
    reader = reader_of(tier, startingOffsets="earliest", failOnDataLoss="false")
    assert read(reader, reader.initialOffset(), reader.latestOffset()) == [*range(100)]
    recreate(tier)
    with pytest.raises(ScanError, match="begin a new stream, with another checkpoint") as ended:
        reader.latestOffset()
    for each in (PARTITION, AGAIN):
        assert uuid_to_string(each.topic_id) in str(ended.value)
    assert "\n" not in str(ended.value)
    reader.stop()


@pytest.mark.parametrize("end", [at(150), at(150, AGAIN.topic_id), at(150, None)])
def test_a_topic_that_was_created_again_ends_a_stream_that_is_started_again(
    tier: Tier, end: OffsetJson
) -> None:
    """Whether Spark repeats a micro-batch or asked for the end of a new one."""
    recreate(tier)
    reader = reader_of(tier, startingOffsets="earliest")
    with pytest.raises(ScanError, match="topic 'orders' was deleted and created again"):
        reader.partitions(at(100), end)
    reader.stop()


def test_the_checkpoint_of_an_earlier_version_takes_on_the_id(tier: Tier) -> None:
    reader = reader_of(tier, startingOffsets="earliest", maxOffsetsPerTrigger="40")
    assert read(reader, at(0, None), at(40, None)) == [*range(40)]
    assert reader.latestOffset() == at(80)
    assert read(reader, at(40, None), at(80)) == [*range(40, 80)]
    reader.stop()


@pytest.mark.parametrize(
    "wrong", [[], {"orders": 3}, {"orders": {"0": "3"}}, {"orders": {"topicId": 3}}]
)
def test_a_checkpoint_of_something_else_is_reported(tier: Tier, wrong: OffsetJson) -> None:
    reader = reader_of(tier)
    with pytest.raises(ScanError, match="which is not tier offsets"):
        reader.partitions(at(0), wrong)
    reader.stop()


def test_wrong_options_are_refused_when_a_stream_asks_for_offsets(tier: Tier) -> None:
    """PySpark 4.1 raises an UnboundLocalError of its own if no reader is returned."""
    source = TierlogDataSource(tier.options(startingOffset="3"))
    schema = StructType().add("key", "binary")
    places: tuple[OffsetJson, ...] = (at(0), at(1))
    for ask, arguments in (("initialOffset", ()), ("latestOffset", ()), ("partitions", places)):
        reader = source.streamReader(schema)
        with pytest.raises(ScanError, match="has no option 'startingoffset'"):
            getattr(reader, ask)(*arguments)
        reader.stop()
    reader = TierlogDataSource(tier.options()).streamReader(StructType().add("keys", "binary"))
    with pytest.raises(ScanError, match="unknown column keys binary"):
        cast("Any", reader).latestOffset()
