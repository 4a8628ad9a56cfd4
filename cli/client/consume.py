"""`tierlog consume`: prints the records of topics.

Without a group it reads the partitions itself, and stops where the user says. What says an end is
bounded by the ends that the partitions had when it began, and counts offsets, not records: so it
also ends where the last offset is a transaction's marker, and where others go on writing.
"""

import argparse
import asyncio
import sys
from collections.abc import Callable, Collection, Mapping

from ...clients.admin import Admin
from ...clients.consumer.completed_fetch import ConsumerRecord
from ...clients.consumer.consumer import Consumer
from ...clients.consumer.fetcher import FetchConfig
from ...clients.consumer.group import GroupConfig
from ...clients.errors import ErrorCode, KafkaError
from ...clients.network.metadata import TopicMetadata
from ...clients.text_table import counted
from ...clients.topic_partition import TopicPartition
from .address import UsageError
from .client_properties import ClientProperties
from .client_session import Session, print_error, run_command
from .connection_arguments import EXIT_CODES, add_connection
from .consumer_troubles import printed_troubles
from .positions import END, Range, parse_range, places_of
from .record_format import parse_format
from .record_json import line_of
from .topic import partitions_of_topic

_POLL_MS = 100
"""How long to wait for records before looking whether the end is reached."""
_RECORDS_A_POLL = 500
_QUIET_POLLS = 10
"""After so many polls without a record it is looked whether the topics are still there."""
_ISOLATION = {"read_uncommitted": 0, "read_committed": 1}

_EXAMPLES = f"""\
examples:
  tierlog consume orders                         all records, and then those that come
  tierlog consume orders -e                      those that are there now
  tierlog consume orders -o -10 -e               the last ten of each partition
  tierlog consume orders -o @-1h:end             those of the last hour
  tierlog consume orders -n 5 -f '%t[%p]@%o %T %k=%s\\n'
  tierlog consume orders -g billing              as a member of a group, which commits
  tierlog consume orders -e --json | tierlog produce copy --json

places (-o): start, end, an offset, +N after the start, -N before the end, @ and a time: seconds
  (10 digits), milliseconds (13), 2026-01-31T12:00:00Z, or a duration before now such as @-1h30m.
  FROM:TO is a range; TO is not in it, and :end is what is there now.
format (-f): %s or %v value, %k key, %t topic, %p partition, %o offset, %T or %d timestamp in ms,
  %h headers, %S %K lengths, %% a percent sign; %v{{hex}}, %k{{base64}}; \\n \\t \\xHH.

{EXIT_CODES}"""


def add_consume_command(parser: argparse.ArgumentParser) -> None:
    """Add the arguments to the parser of `tierlog consume`."""
    parser.description = "Print the records of topics, one per line, until Ctrl-C or the given end."
    parser.epilog = _EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("topics", metavar="TOPIC", nargs="+")
    parser.add_argument(
        *("-o", "--offset"),
        metavar="PLACE",
        help="where to begin, or FROM:TO (default: start; with -g, what the group committed)",
    )
    parser.add_argument(
        "-p", "--partition", metavar="N", type=int, action="append", help="only this partition"
    )
    parser.add_argument(*("-e", "--exit"), action="store_true", help="stop at the current end")
    parser.add_argument(
        *("-n", "-c", "--count"), metavar="N", type=int, help="stop after this many records"
    )
    parser.add_argument("-f", "--format", metavar="FORMAT", help="how to print a record")
    parser.add_argument("-g", "--group", metavar="GROUP", help="read as a member of this group")
    add_connection(parser, as_json="print each record as a JSON object in a line")


def run_consume_command(parsed: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    return run_command(_consume, parsed)


async def _consume(parsed: argparse.Namespace, session: Session) -> None:
    if parsed.group == "":
        raise UsageError("The group (-g) has no name: write one, or leave -g out.")
    if parsed.group and (parsed.offset or parsed.partition):
        raise UsageError(
            "A group has its own positions and partitions: leave -o and -p out, and move the group"
            " with `tierlog group seek`."
        )
    if parsed.json and parsed.format:
        raise UsageError("--json and -f are two formats: name one of them.")
    if parsed.count is not None and parsed.count < 0:
        raise UsageError("-n is a number of records, not below zero.")
    wished = parse_range(parsed.offset or "start")
    write = line_of if parsed.json else parse_format(parsed.format or "%s\\n")
    isolation = session.properties.one_of(
        "isolation.level", _ISOLATION, default=_ISOLATION["read_committed"]
    )
    async with session.admin() as admin:
        partitions = [
            each
            for topic in dict.fromkeys(parsed.topics)
            for each in await partitions_of_topic(admin, topic, parsed.partition)
        ]
        topics = _Topics(admin, await admin.describe_topics(parsed.topics))
        starts, ends = await _bounds(admin, partitions, wished, parsed, isolation)
        reader = _Reader(write, parsed.count, ends, topics)
        try:
            async with _consumer(session, parsed.group, isolation) as consumer:
                if parsed.group:
                    consumer.subscribe(parsed.topics)
                else:
                    consumer.assign(partitions)
                    for partition, offset in starts.items():
                        consumer.seek(partition, offset)
                async with printed_troubles(consumer.troubles):
                    await reader.read(consumer, is_member=bool(parsed.group))
        except asyncio.CancelledError:
            # Ctrl-C is how one ends what has no end.
            if ends is not None or parsed.count is not None:
                raise


async def _bounds(
    admin: Admin,
    partitions: Collection[TopicPartition],
    wished: Range,
    parsed: argparse.Namespace,
    isolation: int,
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int] | None]:
    """Where to begin, and where to stop if there is an end, in each partition."""
    starts = await places_of(admin, partitions, wished.start, isolation_level=isolation)
    if wished.start.offset is not None:
        _report_out_of_range(wished.start.offset, starts)
    if wished.end is None and not parsed.exit:
        return starts, None
    ends = await places_of(admin, partitions, wished.end or END, isolation_level=isolation)
    return starts, ends


def _report_out_of_range(stated: int, starts: Mapping[TopicPartition, int]) -> None:
    """Say on stderr where a given offset is not in a partition, and what is done."""
    others = [(partition, at) for partition, at in starts.items() if at != stated]
    if not others:
        return
    partition, at = others[0]
    where = f"ends at {at}" if at < stated else f"begins at {at}"
    more = f", and so in {counted(len(others) - 1, 'more partition')}" if others[1:] else ""
    print_error(
        f"Offset {stated} is out of range in {partition}, which {where}: reading from there{more}"
    )


def _consumer(session: Session, group_id: str | None, isolation: int) -> Consumer:
    properties = session.properties
    fetch = FetchConfig()
    return Consumer(
        session.bootstrap,
        network=session.network("tierlog-consumer"),
        group=None if group_id is None else _group_config(group_id, properties),
        auto_offset_reset="earliest",
        enable_auto_commit=group_id is not None,
        max_poll_records=max(1, properties.number("max.poll.records", _RECORDS_A_POLL)),
        fetch=FetchConfig(
            fetch_min_bytes=properties.number("fetch.min.bytes", fetch.fetch_min_bytes),
            fetch_max_bytes=properties.number("fetch.max.bytes", fetch.fetch_max_bytes),
            fetch_max_wait_ms=properties.number("fetch.max.wait.ms", fetch.fetch_max_wait_ms),
            max_partition_fetch_bytes=properties.number(
                "max.partition.fetch.bytes", fetch.max_partition_fetch_bytes
            ),
            isolation_level=isolation,
            check_crcs=properties.flag("check.crcs", fetch.check_crcs),
            client_rack=properties.text("client.rack", fetch.client_rack),
        ),
    )


def _group_config(group_id: str, properties: ClientProperties) -> GroupConfig:
    defaults = GroupConfig(group_id)
    return GroupConfig(
        group_id,
        group_instance_id=properties.text("group.instance.id", "") or None,
        session_timeout_ms=properties.number("session.timeout.ms", defaults.session_timeout_ms),
        heartbeat_interval_ms=properties.number(
            "heartbeat.interval.ms", defaults.heartbeat_interval_ms
        ),
        max_poll_interval_ms=properties.number(
            "max.poll.interval.ms", defaults.max_poll_interval_ms
        ),
    )


class _Topics:
    """The topics that are read: one that is deleted meanwhile has no end to wait for."""

    def __init__(self, admin: Admin, topics: Mapping[str, TopicMetadata]) -> None:
        self._admin = admin
        self._ids = {name: topic.topic_id for name, topic in topics.items()}

    async def ensure_there(self) -> None:
        """Raise `KafkaError` if one was deleted, also if another one has its name by now."""
        there = await self._admin.list_topics(include_internal=True)
        for name, topic_id in self._ids.items():
            if name not in there or there[name].topic_id != topic_id:
                raise KafkaError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    f"The topic {name} was deleted while it was read.",
                )


class _Reader:
    """Reads and prints records until an end."""

    def __init__(
        self,
        write: Callable[[ConsumerRecord], bytes],
        count: int | None,
        ends: Mapping[TopicPartition, int] | None,
        topics: _Topics,
    ) -> None:
        self._write = write
        self._remaining = count
        self._ends = ends
        self._topics = topics
        self._quiet_polls = 0

    async def read(self, consumer: Consumer, *, is_member: bool) -> None:
        """Print records until the number or the ends are reached; for ever if there are none."""
        while self._remaining != 0 and not await self._is_at_end(consumer, is_member=is_member):
            records = await consumer.poll(_POLL_MS)
            wished = [record for record in records if self._is_before_end(record)]
            wished = wished[: self._remaining]
            _rewind(consumer, set(records) - set(wished) if len(wished) < len(records) else ())
            if not wished:
                await self._ensure_an_end()
                continue
            self._quiet_polls = 0
            if self._remaining is not None:
                self._remaining -= len(wished)
            output = sys.stdout.buffer
            output.write(b"".join([self._write(record) for record in wished]))
            output.flush()

    async def _ensure_an_end(self) -> None:
        """Look now and then whether what should come can come. Raises `KafkaError`."""
        self._quiet_polls += 1
        if self._ends is not None and not self._quiet_polls % _QUIET_POLLS:
            await self._topics.ensure_there()

    def _is_before_end(self, record: ConsumerRecord) -> bool:
        return self._ends is None or record.offset < self._ends.get(_partition_of(record), 0)

    async def _is_at_end(self, consumer: Consumer, *, is_member: bool) -> bool:
        """Whether each partition is read up to its end; those that are done are paused."""
        if self._ends is None or (is_member and consumer.generation_id is None):
            return False
        is_done = True
        for partition in consumer.assignment:
            try:
                if await consumer.position(partition) >= self._ends.get(partition, 0):
                    consumer.pause([partition])
                else:
                    is_done = False
            except KafkaError as error:
                # A rebalance gave the partition to another member meanwhile.
                if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise
                is_done = False
        return is_done


def _rewind(consumer: Consumer, records: Collection[ConsumerRecord]) -> None:
    """Return to before these records: a group is to commit what was printed, not what came."""
    offsets: dict[TopicPartition, int] = {}
    for record in records:
        partition = _partition_of(record)
        offsets[partition] = min(offsets.get(partition, record.offset), record.offset)
    for partition, offset in offsets.items():
        if partition in consumer.assignment:
            consumer.seek(partition, offset)


def _partition_of(record: ConsumerRecord) -> TopicPartition:
    return TopicPartition(record.topic, record.partition)
