"""Our events are Kafka's events, byte for byte, and land in the partitions that Kafka chooses."""

import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tierlog.bench.harness.processes.kafka_peer import java_command, run_tool
from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.record.batch import Record
from tierlog.clients.record.builder import build_batch
from tierlog.storage.remote.remote_segment import RemoteLogMetadata
from tierlog.tests.tiering.metadata_event_strategies import EVENTS
from tierlog.tiering.metadata.metadata_events import decode_event, encode_event, metadata_partition

GOLDEN = Path(__file__).with_name("remote_metadata_golden.txt")


def golden_lines() -> list[list[str]]:
    lines = GOLDEN.read_text().splitlines()
    return [line.split("\t") for line in lines if not line.startswith("#")]


@given(EVENTS)
def test_an_event_survives_the_topic(event: RemoteLogMetadata) -> None:
    assert decode_event(encode_event(event)) == event


@pytest.mark.parametrize("line", golden_lines(), ids=lambda line: line[2][:40])
def test_kafkas_own_records_are_read_and_written_back_the_same(line: list[str]) -> None:
    value, partition, _ = line
    event = decode_event(bytes.fromhex(value))
    assert encode_event(event).hex() == value
    assert metadata_partition(event.topic_id_partition, 50) == int(partition)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("", id="nothing"),
        pytest.param("01", id="no kind"),
        pytest.param("020000", id="unknown frame version"),
        pytest.param("010700", id="unknown kind"),
        pytest.param("010300", id="a snapshot record"),
        pytest.param("010001", id="unknown version"),
        pytest.param("010200", id="cut short"),
        pytest.param("ffffffffffff", id="endless varint"),
    ],
)
def test_what_is_not_an_event_is_refused(value: str) -> None:
    with pytest.raises(KafkaError):
        decode_event(bytes.fromhex(value))


def test_bytes_after_an_event_are_refused() -> None:
    value = bytes.fromhex(golden_lines()[0][0])
    with pytest.raises(KafkaError) as refused:
        decode_event(value + b"\0")
    assert refused.value.code is ErrorCode.INVALID_RECORD


@given(EVENTS)
def test_a_damaged_event_is_another_event_or_an_error_of_ours(event: RemoteLogMetadata) -> None:
    value = bytearray(encode_event(event))
    for position in range(0, len(value), 3):
        damaged = bytes(value[:position]) + bytes([value[position] ^ 0x81]) + value[position + 1 :]
        with suppress(KafkaError):
            decode_event(damaged)


def many_events(count: int) -> list[RemoteLogMetadata]:
    found: list[RemoteLogMetadata] = []

    @settings(
        max_examples=count,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(EVENTS)
    def collect(event: RemoteLogMetadata) -> None:
        found.append(event)

    collect()
    return found


@pytest.mark.slow
@pytest.mark.requires("java", "mvn")
def test_kafkas_serde_reads_ours_and_writes_the_same_bytes() -> None:
    events = many_events(200)
    oracle = str(Path(__file__).with_name("RemoteMetadataOracle.java"))
    answer = subprocess.run(
        java_command(oracle),
        input="".join(f"{encode_event(event).hex()}\n" for event in events),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    lines = [line.split("\t") for line in answer.stdout.splitlines()]
    assert len(lines) == len(events)
    for event, (value, partition, _) in zip(events, lines, strict=True):
        assert value == encode_event(event).hex()
        assert int(partition) == metadata_partition(event.topic_id_partition, 50)


@pytest.mark.slow
@pytest.mark.requires("java", "mvn")
def test_kafka_dump_log_prints_the_topic(tmp_path: Path) -> None:
    values = [bytes.fromhex(line[0]) for line in golden_lines()]
    records = [
        Record(offset, 1000 + offset, None, value, ()) for offset, value in enumerate(values)
    ]
    segment = tmp_path / "00000000000000000000.log"
    segment.write_bytes(build_batch(records))
    answer = run_tool("kafka-dump-log", "--remote-log-metadata-decoder", "--files", str(segment))
    printed = [line for line in answer.stdout.splitlines() if "payload: Remote" in line]
    assert len(printed) == len(values)
    for line, (_, _, expected) in zip(printed, golden_lines(), strict=True):
        assert expected in line
