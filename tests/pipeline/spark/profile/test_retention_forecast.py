"""What a retention would save, by the broker's own rules."""

import pytest

from tierlog.clients.errors import KafkaError
from tierlog.pipeline.spark.profile.retention_forecast import forecasts, size_setting, time_setting
from tierlog.tests.tiering.remote_partition import PARTITION
from tierlog.tests.tiering.tools.bucket import Bucket
from tierlog.tiering.store.manifest import Manifest, decode_manifest
from tierlog.tiering.store.object_keys import object_key, object_stem
from tierlog.tiering.tools.lineage_choice import choose_lineage

# The records of the bucket have ten milliseconds from one to the next: offset 9 is of 90 ms.
RANGES = ((0, 9), (10, 29), (30, 44))


def tier() -> tuple[Bucket, list[Manifest]]:
    bucket = Bucket()
    segments = [bucket.put(number, each) for number, each in enumerate(RANGES, 1)]
    return bucket, [decode_manifest(bucket.objects[object_key(s, "manifest")]) for s in segments]


@pytest.mark.parametrize(
    ("setting", "gone"),
    [
        (time_setting("1000"), 0),
        (time_setting("609ms"), 1),
        (time_setting("300"), 2),
        (time_setting("0s"), 3),
        (size_setting("1TiB"), 0),
        (size_setting("1"), 2),
        (size_setting("0B"), 3),
    ],
)
def test_what_the_broker_would_delete_is_what_would_be_saved(setting: object, gone: int) -> None:
    _, manifests = tier()
    lineage = choose_lineage([each.metadata for each in manifests], ((0, 0),))
    by_stem = {object_stem(each.metadata): each for each in manifests}
    assert isinstance(setting, type(time_setting("1d")))
    (found,) = forecasts({PARTITION.topic_partition: lineage}, by_stem, [setting], 700)
    sizes = [sum(part.size for part in each.parts.values()) for each in manifests]
    assert (found.topic, found.segments, found.freed) == ("orders", gone, sum(sizes[:gone]))
    assert found.nbytes == sum(sizes)
    assert found.share == 1 - sum(sizes[:gone]) / sum(sizes)


def test_times_and_sizes_are_written_as_people_write_them() -> None:
    assert time_setting("7d").limits == (604_800_000, -1)
    assert time_setting("604800000").limits == (604_800_000, -1)
    assert size_setting("10GiB").limits == (-1, 10 << 30)
    assert size_setting("5KiB").name == "retention.bytes=5KiB"


@pytest.mark.parametrize("text", ["", "a week", "-1", "7 d", "7x", "10GB"])
def test_what_is_neither_is_one_sentence(text: str) -> None:
    with pytest.raises(KafkaError, match="is not a time such as") as time:
        time_setting(text)
    with pytest.raises(KafkaError, match="is not a size such as") as size:
        size_setting(text)
    assert text in time.value.message
    assert text in size.value.message
