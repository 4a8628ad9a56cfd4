"""What we write to `__consumer_offsets` is what Apache Kafka's own coordinator writes.

Kafka's record serde serialises the same groups and offsets, byte for byte, and reads ours. The
partition of a group comes from Java's own String.hashCode. Kafka's dump tool and the console
consumer's formatters then read a log that we wrote.
"""

import base64
import json
from pathlib import Path

import pytest

from tierlog.bench.harness.processes.kafka_peer import run_tool
from tierlog.clients.kafka_uuid import ZERO_UUID, Uuid, uuid_to_string
from tierlog.clients.record.builder import RecordBatchBuilder
from tierlog.coordinator.group_actions import GroupSnapshot, MemberSnapshot
from tierlog.coordinator.group_records import (
    CommittedOffset,
    GroupEntry,
    GroupRecord,
    OffsetEntry,
    OffsetKey,
    group_record,
    group_tombstone,
    offset_record,
    offset_tombstone,
    read_record,
)
from tierlog.coordinator.offsets_topic import partition_for
from tierlog.tests.conformance.java_programs import answers_of

pytestmark = pytest.mark.recorded

PROGRAM = "GroupRecords.java"
TOPIC_ID = Uuid(bytes(range(16)))

MEMBERS = (
    MemberSnapshot("anna-1", None, "anna", "/127.0.0.1", 300_000, 45_000, b"\0\1sub", b"\0\1ass"),
    MemberSnapshot("sam-1", "sam", "sämi", "/::1", 60_000, 10_000, b"", b""),
)
GROUPS = (
    GroupSnapshot("empty", None, 0, None, None, 1_700_000_000_000, ()),
    GroupSnapshot("once-full", "consumer", 7, None, None, 1_700_000_000_000, ()),
    GroupSnapshot("stable", "consumer", 3, "range", "anna-1", 1_700_000_000_001, MEMBERS),
)
OFFSETS = (
    CommittedOffset(42, 5, "some metadata", 1_700_000_000_000, None, TOPIC_ID),
    CommittedOffset(0, -1, "", 1_700_000_000_000, None, ZERO_UUID),
    CommittedOffset(9, -1, "", 1_700_000_000_000, 1_700_000_360_000, TOPIC_ID),
)


def base64_text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def group_json(group: GroupSnapshot) -> str:
    return json.dumps(
        {
            "protocolType": group.protocol_type or "",
            "generation": group.generation,
            "protocol": group.protocol_name,
            "leader": group.leader,
            "currentStateTimestamp": group.state_timestamp_ms,
            "members": [
                {
                    "memberId": member.member_id,
                    "groupInstanceId": member.instance_id,
                    "clientId": member.client_id,
                    "clientHost": member.client_host,
                    "rebalanceTimeout": member.rebalance_timeout_ms,
                    "sessionTimeout": member.session_timeout_ms,
                    "subscription": base64_text(member.subscription),
                    "assignment": base64_text(member.assignment),
                }
                for member in group.members
            ],
        },
        ensure_ascii=False,
    )


def offset_line(offset: CommittedOffset) -> str:
    value: dict[str, object] = {
        "offset": offset.offset,
        "metadata": offset.metadata,
        "commitTimestamp": offset.commit_timestamp_ms,
    }
    version = 4
    if offset.expire_timestamp_ms is not None:
        value["expireTimestamp"] = offset.expire_timestamp_ms
        version = 1
    else:
        value["leaderEpoch"] = offset.leader_epoch
        if offset.topic_id != ZERO_UUID:
            value["topicId"] = uuid_to_string(offset.topic_id)
    return f"offset\t{json.dumps(value)}\t{version}\tgroup\ttopic\t3"


def as_hex(record: GroupRecord) -> str:
    assert record.value is not None
    return f"{record.key.hex()}\t{record.value.hex()}"


def test_groups_and_offsets_are_written_byte_for_byte_as_kafka_writes_them() -> None:
    lines = [f"group\t{group_json(group)}\t{group.group_id}" for group in GROUPS]
    lines += [offset_line(offset) for offset in OFFSETS]
    ours = [as_hex(group_record(group)) for group in GROUPS]
    ours += [as_hex(offset_record(OffsetKey("group", "topic", 3), offset)) for offset in OFFSETS]
    assert ours == answers_of(PROGRAM, lines)


def test_what_kafka_wrote_is_read_back_as_it_was() -> None:
    lines = [f"group\t{group_json(group)}\t{group.group_id}" for group in GROUPS]
    lines += [offset_line(offset) for offset in OFFSETS]
    entries = [
        read_record(bytes.fromhex(key), bytes.fromhex(value), -1)
        for key, value in (line.split("\t") for line in answers_of(PROGRAM, lines))
    ]
    key = OffsetKey("group", "topic", 3)
    expected: list[GroupEntry | OffsetEntry] = [
        GroupEntry(group.group_id, group) for group in GROUPS
    ]
    expected += [
        # Version 1 has no room for the topic id.
        OffsetEntry(
            key,
            offset if offset.expire_timestamp_ms is None else offset._replace(topic_id=ZERO_UUID),
        )
        for offset in OFFSETS
    ]
    assert entries == expected


def test_kafka_reads_our_tombstones() -> None:
    records = [offset_tombstone(OffsetKey("group", "topic", 3)), group_tombstone("group")]
    answers = answers_of(PROGRAM, [f"read\t{record.key.hex()}\t" for record in records])
    assert answers == [
        "OffsetCommitKey(group='group', topic='topic', partition=3)\tnull",
        "GroupMetadataKey(group='group')\tnull",
    ]


def test_a_group_belongs_to_the_partition_that_java_says() -> None:
    # The hash of the last but one is the one number without a positive twin.
    names = ["", "g", "my-group", "sämi", "日本語", "🎈🎈", "polygenelubricants", "a" * 1_000]
    names += [f"group-{number}" for number in range(100)]
    answers = answers_of(PROGRAM, [f"partition\t{name}\t50" for name in names])
    assert [partition_for(name, 50) for name in names] == [int(answer) for answer in answers]


def _log_file(directory: Path) -> Path:
    builder = RecordBatchBuilder()
    records = [group_record(group) for group in GROUPS]
    records += [offset_record(OffsetKey("stable", "topic", n), OFFSETS[n]) for n in range(3)]
    records += [offset_tombstone(OffsetKey("stable", "topic", 0)), group_tombstone("empty")]
    for record in records:
        builder.append(1_700_000_000_000, record.key, record.value)
    path = directory / "00000000000000000000.log"
    path.write_bytes(builder.build())
    return path


@pytest.mark.requires("java", "mvn")
def test_kafkas_dump_tool_prints_every_record(tmp_path: Path) -> None:
    answer = run_tool(
        "kafka-dump-log", "--offsets-decoder", "--files", str(_log_file(tmp_path))
    ).stdout
    lines = [line for line in answer.splitlines() if line.startswith("| offset:")]
    assert len(lines) == 8
    assert '"group":"stable"' in lines[2]
    assert '"protocol":"range"' in lines[2]
    assert '"memberId":"anna-1"' in lines[2]
    assert '"offset":42' in lines[3]
    assert f'"topicId":"{uuid_to_string(TOPIC_ID)}"' in lines[3]
    assert '"expireTimestamp":1700000360000' in lines[5]
    assert lines[6].endswith("payload: <DELETE>")
    assert lines[7].endswith("payload: <DELETE>")
    assert "ERROR" not in answer
