"""What groups of the consumer protocol write is what Apache Kafka's own coordinator writes.

Kafka's record serde serialises the same records, byte for byte, and reads ours; the declarations
are compared with those in the coordinator's jar. Kafka's dump tool then prints a log of them.
"""

import base64
import json
import zipfile
from pathlib import Path

import pytest

from tierlog.bench.harness.processes.kafka_peer import KAFKA_VERSION, kafka_jars, run_tool
from tierlog.clients.kafka_uuid import Uuid, uuid_to_string
from tierlog.clients.protocol.schema import Message
from tierlog.clients.record.builder import RecordBatchBuilder
from tierlog.coordinator.consumer import consumer_schemas
from tierlog.coordinator.consumer.consumer_records import (
    ClassicMemberValue,
    ConsumerGroupEntry,
    CurrentAssignmentEntry,
    GroupEpochValue,
    GroupMetadataEntry,
    MemberEntry,
    MemberValue,
    PartitionMetadataEntry,
    RegexEntry,
    RegexValue,
    TargetEpochValue,
    TargetMemberEntry,
    TargetMetadataEntry,
    consumer_record,
    read_consumer_record,
)
from tierlog.coordinator.consumer.reconciliation import CurrentAssignment, MemberState
from tierlog.coordinator.group_actions import GroupProtocol
from tierlog.tests.clients.protocol.definitions import KafkaDefinition, our_definition
from tierlog.tests.clients.protocol.served_messages import identify
from tierlog.tests.conformance.java_programs import answers_of

pytestmark = pytest.mark.recorded

PROGRAM = "GroupRecords.java"
TOPIC_ID = Uuid(bytes(range(16)))
MEMBER = MemberValue("sam", "rack-1", "sämi", "/::1", ("a", "b"), "c.*", 300_000, "uniform", None)
CLASSIC = MEMBER._replace(
    instance_id=None,
    rack_id=None,
    subscribed_topic_regex="",
    server_assignor=None,
    classic=ClassicMemberValue(45_000, (GroupProtocol("range", b"\0\1sub"),)),
)
HELD = CurrentAssignment(
    7, 6, MemberState.UNREVOKED_PARTITIONS, {(TOPIC_ID, 0): 5, (TOPIC_ID, 3): 7}, {(TOPIC_ID, 1): 2}
)

SCHEMAS = [
    cls
    for cls in vars(consumer_schemas).values()
    if isinstance(cls, type)
    and issubclass(cls, Message)
    and cls.__module__ == consumer_schemas.__name__
]


def topic(*partitions: int, epochs: list[int] | None = None) -> dict[str, object]:
    listed: dict[str, object] = {
        "topicId": uuid_to_string(TOPIC_ID),
        "partitions": list(partitions),
    }
    return listed if epochs is None else {**listed, "assignmentEpochs": epochs}


def member_json(member: MemberValue) -> dict[str, object]:
    values: dict[str, object] = {
        "instanceId": member.instance_id,
        "rackId": member.rack_id,
        "clientId": member.client_id,
        "clientHost": member.client_host,
        "subscribedTopicNames": list(member.subscribed_topic_names),
        "subscribedTopicRegex": member.subscribed_topic_regex,
        "rebalanceTimeoutMs": member.rebalance_timeout_ms,
        "serverAssignor": member.server_assignor,
        # Kafka writes the null of a member of the consumer protocol, for it is not the default.
        "classicMemberMetadata": None,
    }
    if member.classic is not None:
        values["classicMemberMetadata"] = {
            "sessionTimeoutMs": member.classic.session_timeout_ms,
            "supportedProtocols": [
                {"name": each.name, "metadata": base64.b64encode(each.metadata).decode()}
                for each in member.classic.protocols
            ],
        }
    return values


GROUP, OF_MEMBER = {"groupId": "g"}, {"groupId": "g", "memberId": "m"}
WRITTEN: list[tuple[ConsumerGroupEntry, str, dict[str, str], dict[str, object] | None]] = [
    (
        GroupMetadataEntry("g", GroupEpochValue(3, -17)),
        "ConsumerGroupMetadata",
        GROUP,
        {"epoch": 3, "metadataHash": -17},
    ),
    (GroupMetadataEntry("g", GroupEpochValue(3)), "ConsumerGroupMetadata", GROUP, {"epoch": 3}),
    (PartitionMetadataEntry("g", True), "ConsumerGroupPartitionMetadata", GROUP, None),
    (MemberEntry("g", "m", MEMBER), "ConsumerGroupMemberMetadata", OF_MEMBER, member_json(MEMBER)),
    (
        MemberEntry("g", "m", CLASSIC),
        "ConsumerGroupMemberMetadata",
        OF_MEMBER,
        member_json(CLASSIC),
    ),
    (
        TargetMetadataEntry("g", TargetEpochValue(3, 1_700_000_000_000)),
        "ConsumerGroupTargetAssignmentMetadata",
        GROUP,
        {"assignmentEpoch": 3, "assignmentTimestamp": 1_700_000_000_000},
    ),
    (
        TargetMemberEntry("g", "m", frozenset({(TOPIC_ID, 2), (TOPIC_ID, 0)})),
        "ConsumerGroupTargetAssignmentMember",
        OF_MEMBER,
        {"topicPartitions": [topic(0, 2)]},
    ),
    (
        CurrentAssignmentEntry("g", "m", HELD),
        "ConsumerGroupCurrentMemberAssignment",
        OF_MEMBER,
        {
            "memberEpoch": 7,
            "previousMemberEpoch": 6,
            "state": 1,
            "assignedPartitions": [topic(0, 3, epochs=[5, 7])],
            "partitionsPendingRevocation": [topic(1, epochs=[2])],
        },
    ),
    (
        RegexEntry("g", "a.*", RegexValue(("a", "ab"), 12, 1_700_000_000_000)),
        "ConsumerGroupRegularExpression",
        {"groupId": "g", "regularExpression": "a.*"},
        {"topics": ["a", "ab"], "version": 12, "timestamp": 1_700_000_000_000},
    ),
]


def written_by_kafka() -> list[tuple[str, str]]:
    lines = [
        f"record\t{name}\t{json.dumps(key)}\t{'' if value is None else json.dumps(value)}"
        for _, name, key, value in WRITTEN
    ]
    answers = [line.split("\t") for line in answers_of(PROGRAM, lines)]
    return [(key, value) for key, value in answers]


def test_records_are_written_and_read_byte_for_byte_as_kafka_does_it() -> None:
    entries = [entry for entry, *_ in WRITTEN]
    ours = [consumer_record(entry) for entry in entries]
    kafkas = written_by_kafka()
    assert [(key.hex(), "" if value is None else value.hex()) for key, value in ours] == kafkas
    read = [
        read_consumer_record(
            int(key[:4], 16), bytes.fromhex(key), bytes.fromhex(value) if value else None
        )
        for key, value in kafkas
    ]
    assert read == entries


def test_kafka_reads_our_tombstones() -> None:
    entries: list[ConsumerGroupEntry] = [
        GroupMetadataEntry("g", None),
        MemberEntry("g", "m", None),
        TargetMetadataEntry("g", None),
        TargetMemberEntry("g", "m", None),
        CurrentAssignmentEntry("g", "m", None),
        RegexEntry("g", "a.*", None),
    ]
    answers = answers_of(
        PROGRAM, [f"read\t{consumer_record(entry).key.hex()}\t" for entry in entries]
    )
    assert answers == [
        "ConsumerGroupMetadataKey(groupId='g')\tnull",
        "ConsumerGroupMemberMetadataKey(groupId='g', memberId='m')\tnull",
        "ConsumerGroupTargetAssignmentMetadataKey(groupId='g')\tnull",
        "ConsumerGroupTargetAssignmentMemberKey(groupId='g', memberId='m')\tnull",
        "ConsumerGroupCurrentMemberAssignmentKey(groupId='g', memberId='m')\tnull",
        "ConsumerGroupRegularExpressionKey(groupId='g', regularExpression='a.*')\tnull",
    ]


@pytest.mark.requires("java", "mvn")
@pytest.mark.parametrize("cls", SCHEMAS, ids=identify)
def test_a_record_is_declared_as_in_the_coordinators_jar(cls: type[Message]) -> None:
    jar = kafka_jars() / f"kafka-group-coordinator-{KAFKA_VERSION}.jar"
    with zipfile.ZipFile(jar) as opened:
        text = opened.read(f"common/message/{cls.__name__}.json").decode()
    assert our_definition(cls) == KafkaDefinition(text).message()


@pytest.mark.requires("java", "mvn")
def test_kafkas_dump_tool_prints_every_record(tmp_path: Path) -> None:
    builder = RecordBatchBuilder()
    for entry, *_ in WRITTEN:
        record = consumer_record(entry)
        builder.append(1_700_000_000_000, record.key, record.value)
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(builder.build())
    answer = run_tool("kafka-dump-log", "--offsets-decoder", "--files", str(path)).stdout
    lines = [line for line in answer.splitlines() if line.startswith("| offset:")]
    assert len(lines) == len(WRITTEN)
    for line, (_, _, key, value) in zip(lines, WRITTEN, strict=True):
        for name, text in key.items():
            assert f'"{name}":"{text}"' in line
        if value is None:
            assert line.endswith("payload: <DELETE>")
        else:
            assert f'"data":{json.dumps(value, separators=(",", ":"), ensure_ascii=False)}' in line
    assert "ERROR" not in answer
