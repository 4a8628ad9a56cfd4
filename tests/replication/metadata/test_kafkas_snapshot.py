"""A snapshot that Apache Kafka 4.3.1 has written, read by us and written again."""

from collections import Counter
from pathlib import Path

from tierlog.clients.record.batch import batches
from tierlog.replication.metadata.cluster_image import ClusterImage
from tierlog.replication.metadata.image_records import image_records
from tierlog.replication.metadata.metadata_records import encode_record
from tierlog.replication.metadata.snapshot_format import (
    SnapshotContent,
    SnapshotId,
    snapshot_batches,
    snapshot_times,
)

from .random_records import folded

SNAPSHOT_ID = SnapshotId(191, 1)
"""From its name, 00000000000000000191-0000000001.checkpoint."""

KAFKAS = bytes.fromhex(Path(__file__).with_name("kafka_metadata_snapshot.hex").read_text())


def image() -> ClusterImage:
    content = SnapshotContent(SNAPSHOT_ID, KAFKAS)
    return folded([record for records in content.records() for record in records])


def values_in(content: bytes) -> list[bytes | None]:
    return [
        record.value
        for batch in batches(content)
        if not batch.is_control
        for record in batch.records()
    ]


def test_it_folds_into_the_cluster_that_was_there() -> None:
    cluster = image()
    assert {"t1", "u0"} <= set(cluster.topics_by_name)
    assert "gone" not in cluster.topics_by_name
    assert cluster.topic_config("t1")["segment.bytes"] == "2000000"
    assert cluster.features["metadata.version"] == 30
    assert cluster.broker_config(None)["log.retention.ms"] == "7000000"
    assert cluster.client_quotas == {(("user", "ann"),): {"consumer_byte_rate": 4096.0}}
    assert not cluster.brokers[1].fenced
    assert cluster.brokers[1].features["metadata.version"].highest == 30
    assert cluster.controllers[1].endpoints


def test_its_records_are_those_that_we_write_of_that_cluster() -> None:
    ours = [encode_record(record) for record in image_records(image())]
    assert Counter(ours) == Counter(values_in(KAFKAS))


def test_its_control_batches_are_ours_byte_for_byte() -> None:
    """But for the offset of the footer: Kafka puts other records before it in the same order."""
    times = snapshot_times(KAFKAS)
    ours = list(
        snapshot_batches(
            SNAPSHOT_ID,
            image_records(image()),
            last_timestamp_ms=times.last_record_ms,
            now_ms=times.written_ms,
        )
    )
    theirs = [bytes(batch.view) for batch in batches(KAFKAS)]
    assert bytes(ours[0]) == theirs[0]
    (footer,) = next(iter(batches(ours[-1]))).records()
    (their_footer,) = next(iter(batches(theirs[-1]))).records()
    assert (footer.key, footer.value, footer.offset) == (
        their_footer.key,
        their_footer.value,
        their_footer.offset,
    )
