"""`tierlog produce`: sends the lines of stdin to a topic."""

import argparse
import asyncio

from ...clients.errors import KafkaError
from ...clients.producer.accumulator import RecordMetadata
from ...clients.producer.producer import Producer
from ...clients.producer.sender import ProducerConfig
from ...clients.record.compression import CompressionType
from ...clients.text_table import counted
from .address import UsageError
from .client_session import Session, print_error, print_note, run_command
from .connection_arguments import EXIT_CODES, add_connection
from .record_format import parse_delimiter
from .record_json import BadLineError, NewRecord, record_of
from .sendable import refuse_unsendable_word
from .stdin_pieces import stdin_pieces

_LINE_BYTES_MAX = 64 * 1024 * 1024
_UNACKNOWLEDGED_MAX = 10_000
"""How many records may wait for their acknowledgement before the next line is read."""
_LINGER_MS = 5
_LEAVES_WITHIN_MS = 1_000
"""How long an interrupted command waits for what is under way."""
_ACKS = {"all": -1, "-1": -1, "1": 1, "0": 0}
_COMPRESSIONS = {each.name.lower(): each for each in CompressionType}

_EXAMPLES = f"""\
examples:
  echo hello | tierlog produce orders
  printf 'k1:v1\\nk2:v2\\n' | tierlog produce orders -K:
  tierlog produce orders -k one-key -H source=shell < lines.txt
  tierlog consume orders -e --json | tierlog produce copy --json

With --json each line is an object as `tierlog consume --json` prints it: key, payload, headers and
ts count, topic, partition and offset do not; other fields are refused. At a terminal, Ctrl-D ends
the input.

{EXIT_CODES}"""


def add_produce_command(parser: argparse.ArgumentParser) -> None:
    """Add the arguments to the parser of `tierlog produce`."""
    parser.description = "Send each line of stdin as a record, until the end of the input."
    parser.epilog = _EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument(
        *("-K", "--key-delimiter"),
        metavar="TEXT",
        help="the separator of key and value; a line without it is a value without key",
    )
    parser.add_argument("-k", "--key", metavar="KEY", help="the key of every record")
    parser.add_argument(
        *("-H", "--header"),
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a header of every record; can be repeated",
    )
    parser.add_argument(
        "-p", "--partition", metavar="N", type=int, help="the partition (default: by the key)"
    )
    parser.add_argument(
        "-D", "--delimiter", metavar="TEXT", default="\\n", help="what ends a record (default: \\n)"
    )
    parser.add_argument(
        "-Z", "--null", action="store_true", help="send an empty value or key as null"
    )
    parser.add_argument(
        *("-z", "--compression"),
        metavar="CODEC",
        choices=sorted(_COMPRESSIONS),
        help=f"how batches are compressed: {', '.join(sorted(_COMPRESSIONS))} (default: none)",
    )
    add_connection(parser, as_json="read each line as a JSON object")


def run_produce_command(parsed: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    return run_command(_produce, parsed)


class _Lines:
    """Cuts the input into records."""

    def __init__(self, parsed: argparse.Namespace) -> None:
        """Raises UsageError."""
        if parsed.json and (parsed.key_delimiter or parsed.key or parsed.header or parsed.null):
            raise UsageError("With --json the lines state key and headers: leave -K -k -H -Z out.")
        self._as_json: bool = parsed.json
        self._delimiter = parse_delimiter(parsed.delimiter)
        self._key_delimiter = (
            None if parsed.key_delimiter is None else parse_delimiter(parsed.key_delimiter)
        )
        self._key = None if parsed.key is None else parsed.key.encode("utf-8", "surrogateescape")
        self._headers = tuple(_header(word) for word in parsed.header)
        self._has_null: bool = parsed.null
        self._pending = bytearray()

    def feed(self, piece: bytes) -> list[bytes]:
        """The lines that end in this piece of the input. Raises UsageError for an endless one."""
        self._pending += piece
        if self._delimiter not in piece and len(self._delimiter) == 1:
            lines: list[bytes] = []
        else:
            *lines, rest = bytes(self._pending).split(self._delimiter)
            self._pending = bytearray(rest)
        if len(self._pending) > _LINE_BYTES_MAX:
            raise UsageError(f"A line is longer than {_LINE_BYTES_MAX} bytes.")
        return lines

    def end(self) -> list[bytes]:
        """The last line, if the input does not end with a delimiter."""
        return [bytes(self._pending)] if self._pending else []

    def record(self, line: bytes) -> NewRecord | None:
        """The record of a line; None for an empty line of JSON. Raises BadLineError."""
        if self._as_json:
            return record_of(line) if line.strip() else None
        key, value = self._key, line
        if self._key_delimiter is not None and self._key_delimiter in line:
            key, _, value = line.partition(self._key_delimiter)
        if not self._has_null:
            return NewRecord(key, value, self._headers, None)
        return NewRecord(key or None, value or None, self._headers, None)


def _header(word: str) -> tuple[str, bytes | None]:
    name, equals, value = word.partition("=")
    if not name:
        raise UsageError(f"The header {word!r} has no name: write NAME=VALUE.")
    refuse_unsendable_word(name)
    return name, value.encode("utf-8", "surrogateescape") if equals else None


async def _produce(parsed: argparse.Namespace, session: Session) -> None:
    lines = _Lines(parsed)
    async with _producer(parsed, session) as producer:
        sending = _Sending(producer, parsed.topic, parsed.partition)
        try:
            await _send_lines(lines, sending)
        except asyncio.CancelledError:
            await producer.stop(_LEAVES_WITHIN_MS)
            await sending.report_unacknowledged()
            raise
    print_note(f"{counted(sending.count, 'record')} sent to {parsed.topic}")


async def _send_lines(lines: _Lines, sending: "_Sending") -> None:
    """Send the lines of stdin. Raises UsageError for a line that is no record."""
    number = 0
    async for piece in stdin_pieces():
        for line in lines.feed(piece) if piece else lines.end():
            number += 1
            try:
                record = lines.record(line)
            except BadLineError as error:
                await sending.finish()
                raise UsageError(f"Line {number} of the input is not a record: {error}.") from None
            if record is not None:
                await sending.send(record)
    await sending.finish()


class _Sending:
    """Sends records in order, many at a time; the first that fails ends it with its error."""

    def __init__(self, producer: Producer, topic: str, partition: int | None) -> None:
        self._producer = producer
        self._topic = topic
        self._partition = partition
        self._waiting: set[asyncio.Future[RecordMetadata]] = set()
        self._failure: KafkaError | None = None
        self._sent = 0
        self.count = 0
        """How many records are acknowledged."""

    async def send(self, record: NewRecord) -> None:
        """Send a record, once there is room for it. Raises `KafkaError` of this or another one."""
        while len(self._waiting) >= _UNACKNOWLEDGED_MAX:
            await asyncio.wait(self._waiting, return_when=asyncio.FIRST_COMPLETED)
        self._raise_failure()
        try:
            future = self._send_now(record)
        except KafkaError as error:
            if not self._waiting or not error.is_retriable:
                raise
            # The buffer is full: it is empty once those before are acknowledged.
            await self.finish()
            future = self._send_now(record)
        self._sent += 1
        self._waiting.add(future)
        future.add_done_callback(self._on_done)

    def _send_now(self, record: NewRecord) -> asyncio.Future[RecordMetadata]:
        return self._producer.send_nowait(
            self._topic,
            record.value,
            record.key,
            self._partition,
            record.headers,
            record.timestamp_ms,
        )

    async def finish(self) -> None:
        """Wait until every record is acknowledged. Raises the first `KafkaError`."""
        await self._producer.flush()
        while self._waiting:
            await asyncio.wait(self._waiting)
            # The callbacks of those that are done run in the next turn of the loop.
            await asyncio.sleep(0)
        self._raise_failure()

    async def report_unacknowledged(self) -> None:
        """Say how many records were not acknowledged, after the producer has stopped."""
        # The callbacks of those that are done run in the next turn of the loop.
        await asyncio.sleep(0)
        if count := self._sent - self.count:
            records = counted(count, "record", "was", "were")
            print_error(f"{records} not acknowledged before the interruption")

    def _on_done(self, future: asyncio.Future[RecordMetadata]) -> None:
        self._waiting.discard(future)
        if future.cancelled():
            return
        error = future.exception()
        if error is None:
            self.count += 1
        elif self._failure is None and isinstance(error, KafkaError):
            self._failure = error

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure


def _producer(parsed: argparse.Namespace, session: Session) -> Producer:
    properties = session.properties
    defaults = ProducerConfig()
    codec = properties.one_of(
        "compression.type", _COMPRESSIONS, default=_COMPRESSIONS[parsed.compression or "none"]
    )
    acks = properties.one_of("acks", _ACKS, default=-1)
    return Producer(
        session.bootstrap,
        network=session.network("tierlog-producer"),
        acks=acks,
        linger_ms=properties.number("linger.ms", _LINGER_MS),
        batch_size=properties.number("batch.size", 256 * 1024),
        compression=codec,
        enable_idempotence=properties.flag("enable.idempotence", acks == -1),
        buffer_memory=properties.number("buffer.memory", defaults.buffer_memory),
        max_request_size=properties.number("max.request.size", defaults.max_request_size),
        max_block_ms=properties.number("max.block.ms", 30_000),
        delivery_timeout_ms=properties.number("delivery.timeout.ms", defaults.delivery_timeout_ms),
        retry_backoff_ms=properties.number("retry.backoff.ms", defaults.retry_backoff_ms),
    )
