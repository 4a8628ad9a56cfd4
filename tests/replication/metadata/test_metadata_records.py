"""Metadata records, held against a metadata log that Apache Kafka 4.3.1 has written."""

from pathlib import Path

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.kafka_uuid import Uuid, uuid_to_string
from tierlog.clients.protocol.codec import decode, encode_bytes
from tierlog.clients.protocol.messages.leader_change_message import LeaderChangeMessage, Voter
from tierlog.clients.protocol.schema import Message
from tierlog.clients.record.batch import batches
from tierlog.clients.record.control import ControlRecordType
from tierlog.replication.metadata.cluster_image import ClusterDelta, ClusterImage
from tierlog.replication.metadata.metadata_records import (
    RECORD_CLASSES,
    WRITTEN_VERSIONS,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
    decode_record,
    encode_record,
)

LOG = Path(__file__).with_name("kafka_metadata_log.hex")


def kafka_log() -> bytes:
    return bytes.fromhex(LOG.read_text())


def kafka_values() -> list[bytes]:
    return [
        record.value or b""
        for batch in batches(kafka_log())
        if not batch.is_control
        for record in batch.records()
    ]


def test_kafkas_records_are_read_and_written_back_byte_by_byte() -> None:
    seen: set[str] = set()
    for value in kafka_values():
        record = decode_record(value)
        version = value[2]
        written = bytes((1, record.api_key, version)) + encode_bytes(record, version)
        assert written == value, record
        seen.add(type(record).__name__)
    assert len(seen) >= 12


def test_the_epoch_begins_with_the_leader_change_that_kafka_writes() -> None:
    first = next(iter(batches(kafka_log())))
    assert first.is_control
    (record,) = first.records()
    assert record.key == ControlRecordType.LEADER_CHANGE.key()
    voter = [Voter(voter_id=1)]
    message = LeaderChangeMessage(version=0, leader_id=1, voters=voter, granting_voters=voter)
    assert encode_bytes(message, 0) == record.value
    assert decode(LeaderChangeMessage, 0, memoryview(record.value or b""))[0] == message


def test_kafkas_log_folds_into_the_cluster_that_kafka_showed() -> None:
    delta = ClusterDelta(ClusterImage("DKtQfi4zRE2QUDwqmEbbHA"))
    delta.replay_all(map(decode_record, kafka_values()))
    image = delta.apply(760, 1)
    assert sorted(image.topics_by_name) == ["b.1", "b1", "t1"]
    assert image.topics_by_name["t1"].partitions[0].replicas == (1,)
    assert len(image.topics_by_name["t1"].partitions) == 5
    assert uuid_to_string(image.topics_by_name["t1"].topic_id) == "Eyif378hSb-D_M11J9V-_w"
    assert dict(image.topic_config("t1")) == {"segment.bytes": "2000000"}
    assert image.features["metadata.version"] == 30
    broker = image.brokers[1]
    assert (broker.epoch, broker.fenced) == (11, False)
    assert broker.endpoints["PLAINTEXT"].port == 19192
    assert image.next_producer_id == 1_000
    assert dict(image.broker_config(None)) == {"min.insync.replicas": "1"}


@pytest.mark.parametrize("key", sorted(RECORD_CLASSES))
def test_a_record_of_defaults_survives_the_log(key: int) -> None:
    record: Message = RECORD_CLASSES[key]()
    assert decode_record(encode_record(record)) == record


def test_tagged_and_nullable_fields_survive_the_log() -> None:
    ids = [Uuid(bytes([n]) * 16) for n in range(3)]
    partition = PartitionRecord(
        partition_id=3,
        topic_id=ids[0],
        replicas=[1, 2],
        isr=[2],
        leader=2,
        leader_epoch=4,
        partition_epoch=9,
        directories=ids[1:],
        eligible_leader_replicas=[1],
        last_known_elr=[],
        leader_recovery_state=1,
    )
    broker = RegisterBrokerRecord(broker_id=1, rack="r1", log_dirs=ids, cordoned_log_dirs=[ids[0]])
    for record in (partition, broker):
        assert decode_record(encode_record(record)) == record


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (b"\x00\x02\x00", "frame version is 0"),
        (b"\x01\x63\x00", "type 99"),
        (b"\x01\x02\x05", "version 5 of TopicRecord"),
        (encode_record(TopicRecord(name="t", topic_id=Uuid(bytes(16)))) + b"!", "1 bytes follow"),
        (b"\x01\x02\x00\x05t", "TopicRecord is malformed"),
        (b"", "truncated"),
        (b"\x01", "truncated"),
    ],
)
def test_what_cannot_be_understood_is_refused(value: bytes, complaint: str) -> None:
    with pytest.raises(KafkaError, match=complaint) as refused:
        decode_record(value)
    assert refused.value.code is ErrorCode.INVALID_RECORD


def test_records_are_written_in_the_versions_of_kafka_4_3() -> None:
    assert WRITTEN_VERSIONS[RegisterBrokerRecord.api_key] == 4
    assert WRITTEN_VERSIONS[PartitionRecord.api_key] == 2
