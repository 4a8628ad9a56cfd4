"""Checkpoint files: Kafka's text, byte for byte, and no belief in anything else."""

from pathlib import Path

import pytest

from tierlog.clients.kafka_uuid import uuid_from_string
from tierlog.clients.topic_partition import TopicPartition
from tierlog.storage.checkpoint import (
    MalformedCheckpointError,
    format_epochs,
    read_epoch_checkpoint,
    read_offset_checkpoint,
    read_partition_metadata,
    write_epoch_checkpoint,
    write_offset_checkpoint,
    write_partition_metadata,
)
from tierlog.storage.files import OsFiles

FILES = OsFiles()


def test_offsets_are_written_as_kafka_writes_them(tmp_path: Path) -> None:
    path = tmp_path / "recovery-point-offset-checkpoint"
    offsets = {TopicPartition("idem", 0): 8000, TopicPartition("a.b_c-d", 12): 0}
    write_offset_checkpoint(FILES, str(path), offsets)
    assert path.read_bytes() == b"0\n2\nidem 0 8000\na.b_c-d 12 0\n"
    assert read_offset_checkpoint(FILES, str(path)) == offsets


def test_no_entries_are_written_as_kafka_writes_them(tmp_path: Path) -> None:
    path = tmp_path / "log-start-offset-checkpoint"
    write_offset_checkpoint(FILES, str(path), {})
    assert path.read_bytes() == b"0\n0\n"
    assert read_offset_checkpoint(FILES, str(path)) == {}


def test_epochs_are_written_as_kafka_writes_them(tmp_path: Path) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    write_epoch_checkpoint(FILES, str(path), [(0, 0), (2, 4000)])
    assert path.read_bytes() == b"0\n2\n0 0\n2 4000\n" == format_epochs([(0, 0), (2, 4000)])
    assert read_epoch_checkpoint(FILES, str(path)) == [(0, 0), (2, 4000)]


def test_the_topic_id_is_written_as_kafka_writes_it(tmp_path: Path) -> None:
    path = tmp_path / "partition.metadata"
    topic_id = uuid_from_string("WFijiWJ4S8mW9CBXVVgEdA")
    write_partition_metadata(FILES, str(path), topic_id)
    assert path.read_bytes() == b"version: 0\ntopic_id: WFijiWJ4S8mW9CBXVVgEdA"
    assert read_partition_metadata(FILES, str(path)) == topic_id


def test_what_is_missing_or_empty_says_nothing(tmp_path: Path) -> None:
    absent = str(tmp_path / "absent")
    assert read_offset_checkpoint(FILES, absent) == {}
    assert read_epoch_checkpoint(FILES, absent) == []
    assert read_partition_metadata(FILES, absent) is None
    # Kafka makes its checkpoint files empty before it first writes them.
    (tmp_path / "absent").write_bytes(b"")
    assert read_offset_checkpoint(FILES, absent) == {}


@pytest.mark.parametrize(
    "content",
    [
        b"1\n0\n",
        b"0\n",
        b"0\n2\nt 0 1\n",
        b"0\n1\nt 0\n",
        b"0\n1\nt x 1\n",
        b"0\n1\nt 0 -5\n",
        b"\xff\xfe",
        b"garbage",
    ],
)
def test_damaged_checkpoints_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes(content)
    with pytest.raises(MalformedCheckpointError):
        read_offset_checkpoint(FILES, str(path))
    with pytest.raises(MalformedCheckpointError):
        read_epoch_checkpoint(FILES, str(path))


@pytest.mark.parametrize("content", [b"", b"version: 1\ntopic_id: x", b"version: 0\ntopic_id: x"])
def test_damaged_partition_metadata_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "partition.metadata"
    path.write_bytes(content)
    with pytest.raises(MalformedCheckpointError):
        read_partition_metadata(FILES, str(path))
