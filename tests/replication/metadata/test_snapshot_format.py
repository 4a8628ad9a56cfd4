"""The bytes of a snapshot: what is written is read; what is cut, bent or mixed up is refused."""

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.record.batch import batches
from tierlog.clients.record.control import ControlRecordType
from tierlog.replication.metadata.cluster_image import ClusterImage
from tierlog.replication.metadata.image_records import image_records
from tierlog.replication.metadata.metadata_records import TopicRecord
from tierlog.replication.metadata.snapshot_format import (
    QuorumRecord,
    SnapshotContent,
    SnapshotDamagedError,
    SnapshotId,
    SnapshotTimes,
    snapshot_batches,
    snapshot_id_of,
    snapshot_times,
)

from .random_records import PLANS, RecordWalk, Step, folded

ID = SnapshotId(1234, 7)
TOPICS = [TopicRecord(name=f"topic-{n}", topic_id=Uuid(n.to_bytes(16, "big"))) for n in range(3000)]


def content_of(image: ClusterImage, quorum: tuple[QuorumRecord, ...] = ()) -> bytes:
    return b"".join(
        snapshot_batches(ID, image_records(image), last_timestamp_ms=41, now_ms=42, quorum=quorum)
    )


def image_of(content: bytes) -> ClusterImage:
    records = [each for batch in SnapshotContent(ID, content).records() for each in batch]
    return folded(records)


@given(PLANS)
def test_what_is_written_is_read(plan: list[Step]) -> None:
    image = folded(RecordWalk().records(plan))
    read = image_of(content_of(image))
    assert replace(read, offset=image.offset, epoch=image.epoch) == image


def test_a_large_image_takes_many_batches_of_one_epoch_without_gaps() -> None:
    content = content_of(folded(TOPICS))
    expected = 0
    for batch in batches(content):
        assert (batch.base_offset, batch.partition_leader_epoch) == (expected, 7)
        assert batch.size_in_bytes < 34_000
        expected = batch.next_offset
    assert expected == len(TOPICS) + 2
    assert len(image_of(content).topics_by_name) == len(TOPICS)


def test_the_header_tells_the_times_and_the_quorum() -> None:
    quorum = (
        QuorumRecord(ControlRecordType.KRAFT_VERSION, b"version"),
        QuorumRecord(ControlRecordType.KRAFT_VOTERS, b"voters"),
    )
    content = content_of(folded(TOPICS[:1]), quorum)
    assert tuple(SnapshotContent(ID, content).quorum) == quorum
    assert snapshot_times(content[:500]) == SnapshotTimes(last_record_ms=41, written_ms=42)
    assert snapshot_times(content[:50]) == snapshot_times(b"") == SnapshotTimes(-1, -1)


@given(st.data())
def test_a_snapshot_that_is_cut_anywhere_is_damaged(data: st.DataObject) -> None:
    content = content_of(folded(TOPICS[:5]))
    length = data.draw(st.integers(0, len(content) - 1))
    with pytest.raises(SnapshotDamagedError):
        SnapshotContent(ID, content[:length])


@given(st.data())
def test_a_flipped_bit_is_found_wherever_it_is(data: st.DataObject) -> None:
    content = bytearray(content_of(folded(TOPICS[:5])))
    position = data.draw(st.integers(0, len(content) - 1))
    content[position] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(SnapshotDamagedError, match=r"[^.]$"):
        SnapshotContent(ID, bytes(content))


@pytest.mark.parametrize(
    ("order", "reason"),
    [
        ((0, 1), "no footer"),
        ((0, 1, 2, 2), "follows its footer"),
        ((1, 2), "has offset 1, not 0"),
        ((0, 2), "has offset 6, not 1"),
        ((), "does not begin with a header"),
    ],
)
def test_a_snapshot_without_one_of_its_parts_is_damaged(
    order: tuple[int, ...], reason: str
) -> None:
    parts = [bytes(each.view) for each in batches(content_of(folded(TOPICS[:5])))]
    assert len(parts) == 3
    with pytest.raises(SnapshotDamagedError, match=reason):
        SnapshotContent(ID, b"".join(parts[each] for each in order))


def test_the_name_of_a_file_says_which_snapshot_it_is() -> None:
    assert str(ID) == "00000000000000001234-0000000007"
    for suffix in (".checkpoint", "-8f3a.checkpoint.part", ".checkpoint.deleted"):
        assert snapshot_id_of(f"{ID}{suffix}") == ID
    for name in (
        "00000000000000001234.snapshot",
        "leader-epoch-checkpoint",
        "bootstrap.checkpoint",
        f"{ID}",
        f"{ID}.checkpoint.tmp",
        "0000000000000000123x-0000000007.checkpoint",
        "12-7.checkpoint",
    ):
        assert snapshot_id_of(name) is None
