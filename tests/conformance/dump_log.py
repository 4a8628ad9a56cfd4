"""What Kafka's own kafka-dump-log prints about files, taken apart line by line.

The tool's exit code says little: it prints its complaints and ends well. So nothing that it prints
goes unread here. Every line must be one of the forms known below, and a line that is not, such as
"Mismatches in", "Found out of order timestamp", "Found 7 invalid bytes at the end", or anything on
its error output, fails whoever asked.

One complaint is the tool's own mistake: 4.3.1, where it looks into batches, takes the offset before
a file's first record for -1 and calls any file that starts later "non-consecutive", those that
Kafka wrote too (`test_kafka_log_directories.py` shows it). Only this one is let through.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from tierlog.bench.harness.processes.kafka_peer import run_tool

_DUMPING = re.compile(r"Dumping (?P<path>.+)")
_SNAPSHOT = re.compile(r"Snapshot end offset: (?P<offset>\d+), epoch: \d+")
_START = re.compile(r"Log starting offset: (?P<offset>\d+)")
_BATCH = re.compile(
    r"baseOffset: (?P<base_offset>\d+) lastOffset: (?P<last_offset>\d+) count: (?P<count>\d+)"
    r" baseSequence: (?P<base_sequence>-?\d+) lastSequence: (?P<last_sequence>-?\d+)"
    r" producerId: (?P<producer_id>-?\d+) producerEpoch: (?P<producer_epoch>-?\d+)"
    r" partitionLeaderEpoch: (?P<leader_epoch>-?\d+) isTransactional: (?P<transactional>\w+)"
    r" isControl: (?P<control>\w+) deleteHorizonMs: OptionalLong\.empty"
    r" position: (?P<position>\d+) (?:CreateTime|LogAppendTime): (?P<timestamp>\d+)"
    r" size: (?P<size>\d+) magic: 2 compresscodec: (?P<codec>\w+) crc: (?P<crc>\d+) isvalid: true"
)
_RECORD = re.compile(
    r"\| offset: (?P<offset>\d+) (?:CreateTime|LogAppendTime): (?P<timestamp>\d+)"
    r" keySize: (?P<key_size>-?\d+) valueSize: (?P<value_size>-?\d+)"
    r" sequence: (?P<sequence>-?\d+) headerKeys: \[(?P<headers>[^]]*)\]"
    r"(?P<control> (?:endTxnMarker|LeaderChange|KRaftVersion|SnapshotHeader|SnapshotFooter):? .*?)?"
    r"(?: key: (?P<key>.*?))?(?: payload: (?P<payload>.*))?"
)
_OFFSET_ENTRY = re.compile(r"offset: (?P<offset>\d+) position: (?P<position>\d+)")
_TIME_ENTRY = re.compile(r"timestamp: (?P<timestamp>-?\d+) offset: (?P<offset>\d+)")
_TXN_ENTRY = re.compile(
    r"version: 0 producerId: (?P<producer_id>\d+) firstOffset: (?P<first>\d+)"
    r" lastOffset: (?P<last>\d+) lastStableOffset: (?P<stable>\d+)"
)
_PRODUCER = re.compile(
    r"producerId: (?P<producer_id>\d+) producerEpoch: (?P<epoch>\d+)"
    r" coordinatorEpoch: (?P<coordinator_epoch>-?\d+)"
    r" currentTxnFirstOffset: (?P<transaction>OptionalLong\S+) lastTimestamp: \d+"
    r"(?: firstSequence: (?P<first_sequence>\d+) lastSequence: (?P<last_sequence>\d+)"
    r" lastOffset: (?P<last_offset>\d+) offsetDelta: (?P<delta>\d+) timestamp: (?P<timestamp>\d+))?"
)
_FIRST_OFFSET = re.compile(
    r"^Non-consecutive offsets in .*/0*(\d+)\.log\n  -1 is followed by \1\n", re.MULTILINE
)
_SANE = re.compile(r"(?P<path>.+) passed sanity check\.")


AbortedEntry = tuple[int, int, int, int]


class DumpedBatch(NamedTuple):
    """The line of one batch."""

    base_offset: int
    last_offset: int
    record_count: int
    position: int
    size: int
    codec: str
    producer_id: int
    base_sequence: int
    leader_epoch: int
    is_transactional: bool
    is_control: bool
    timestamp: int


class DumpedRecord(NamedTuple):
    """The line of one record; key and payload as the chosen decoder prints them."""

    offset: int
    timestamp: int
    key_size: int
    value_size: int
    sequence: int
    header_keys: tuple[str, ...]
    key: str | None
    payload: str | None
    control: str


class DumpedProducer(NamedTuple):
    """One producer of a snapshot; its last batch, -1 where it has none."""

    producer_id: int
    epoch: int
    first_sequence: int
    last_sequence: int
    last_offset: int
    transaction: str


@dataclass
class Dump:
    """All that the tool said about one file."""

    start_offset: int = -1
    snapshot_end: int = -1
    batches: list[DumpedBatch] = field(default_factory=list[DumpedBatch])
    records: list[DumpedRecord] = field(default_factory=list[DumpedRecord])
    offset_entries: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """(offset, position)"""
    time_entries: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """(timestamp, offset)"""
    aborted: list[tuple[int, int, int, int]] = field(
        default_factory=list[tuple[int, int, int, int]]
    )
    """(producer id, first offset, last offset, last stable offset)"""
    producers: list[DumpedProducer] = field(default_factory=list[DumpedProducer])
    is_sane: bool = False


def dump(paths: Iterable[Path], *flags: str) -> dict[Path, Dump]:
    """Run the tool once over the files; AssertionError for any line that is not known."""
    asked = sorted(paths)
    assert asked, "there is nothing to dump"
    answer = run_tool("kafka-dump-log", "--files", ",".join(map(str, asked)), *flags)
    assert not _complaints(answer.stderr), answer.stderr
    dumps: dict[Path, Dump] = {}
    current: Dump | None = None
    # A line ends with a line feed and with nothing else: payloads may hold other breaks.
    for line in answer.stdout.split("\n"):
        if started := _DUMPING.fullmatch(line):
            current = dumps[Path(started["path"])] = Dump()
        elif line:
            assert current is not None, line
            assert _take(current, line), f"kafka-dump-log says: {line}"
    assert sorted(dumps) == asked
    return dumps


def _complaints(errors: str) -> list[str]:
    """What the tool's error output says but for its mistake about the first offset of a file."""
    return _FIRST_OFFSET.sub("", errors).split()


def _take(into: Dump, line: str) -> bool:
    """File a line under what it is; False if it is nothing that is known."""
    if found := _RECORD.fullmatch(line):
        into.records.append(_record(found))
    elif found := _BATCH.fullmatch(line):
        into.batches.append(_batch(found))
    elif found := _OFFSET_ENTRY.fullmatch(line):
        into.offset_entries.append((int(found["offset"]), int(found["position"])))
    elif found := _TIME_ENTRY.fullmatch(line):
        into.time_entries.append((int(found["timestamp"]), int(found["offset"])))
    elif found := _PRODUCER.fullmatch(line):
        into.producers.append(_producer(found))
    elif found := _TXN_ENTRY.fullmatch(line):
        producer, first, last, stable = map(int, found.groups())
        into.aborted.append((producer, first, last, stable))
    elif found := _START.fullmatch(line):
        into.start_offset = int(found["offset"])
    elif found := _SNAPSHOT.fullmatch(line):
        into.snapshot_end = int(found["offset"])
    elif _SANE.fullmatch(line):
        into.is_sane = True
    else:
        return False
    return True


def _batch(found: re.Match[str]) -> DumpedBatch:
    return DumpedBatch(
        int(found["base_offset"]),
        int(found["last_offset"]),
        int(found["count"]),
        int(found["position"]),
        int(found["size"]),
        found["codec"],
        int(found["producer_id"]),
        int(found["base_sequence"]),
        int(found["leader_epoch"]),
        found["transactional"] == "true",
        found["control"] == "true",
        int(found["timestamp"]),
    )


def _record(found: re.Match[str]) -> DumpedRecord:
    return DumpedRecord(
        int(found["offset"]),
        int(found["timestamp"]),
        int(found["key_size"]),
        int(found["value_size"]),
        int(found["sequence"]),
        tuple(found["headers"].split(",")) if found["headers"] else (),
        found["key"],
        found["payload"],
        (found["control"] or "").strip(),
    )


def _producer(found: re.Match[str]) -> DumpedProducer:
    return DumpedProducer(
        int(found["producer_id"]),
        int(found["epoch"]),
        int(found["first_sequence"] or -1),
        int(found["last_sequence"] or -1),
        int(found["last_offset"] or -1),
        found["transaction"],
    )


def files_in(directory: Path, suffix: str) -> list[Path]:
    """The files of a kind, in offset order; at least one."""
    found = sorted(directory.glob(f"*{suffix}"))
    assert found, f"no {suffix} in {directory}"
    return found


def check_segments(directory: Path, *flags: str) -> list[Dump]:
    """Dump a partition's log and all indexes; hold them against one another; the logs in order.

    The offset indexes must point at batches that start there, the time indexes at the batch whose
    latest timestamp they name, and the batches must follow one another without a gap. A log's dump
    carries its indexes' entries too.
    """
    logs = files_in(directory, ".log")
    dumped = dump(logs, "--print-data-log", "--deep-iteration", *flags)
    indexes = [path for log in logs for path in _indexes_of(log)]
    if indexes:
        entries = dump(indexes)
        assert all(each.is_sane for each in dump(indexes, "--index-sanity-check").values())
        for path in indexes:
            log = dumped[path.with_suffix(".log")]
            log.offset_entries += entries[path].offset_entries
            log.time_entries += entries[path].time_entries
    for path in logs:
        _check_log(dumped[path], int(path.stem))
        _check_indexes(dumped[path])
    _check_no_gap([dumped[path] for path in logs])
    return [dumped[path] for path in logs]


def _indexes_of(log: Path) -> list[Path]:
    """The indexes of a segment. The tool fails on an empty one, which Kafka itself leaves too."""
    paths = [log.with_suffix(".index"), log.with_suffix(".timeindex")]
    return [path for path in paths if path.exists() and path.stat().st_size]


def _check_log(log: Dump, base_offset: int) -> None:
    assert log.start_offset == base_offset
    position = 0
    for batch in log.batches:
        assert batch.position == position
        position += batch.size
        assert batch.record_count == batch.last_offset - batch.base_offset + 1
    offsets = [record.offset for record in log.records]
    assert len(offsets) == sum(batch.record_count for batch in log.batches)


def _check_indexes(log: Dump) -> None:
    ends = {(batch.last_offset, batch.position) for batch in log.batches}
    assert set(log.offset_entries) <= ends
    times = {batch.last_offset: batch.timestamp for batch in log.batches}
    assert all(times[offset] == timestamp for timestamp, offset in log.time_entries)


def _check_no_gap(logs: Sequence[Dump]) -> None:
    batches = [batch for log in logs for batch in log.batches]
    for before, after in pairwise(batches):
        assert after.base_offset == before.last_offset + 1
