"""Producers in Python, idempotent, at a steady rate until their standard input ends.

    python -m …acknowledged.steady_producers NAME BOOTSTRAP TOPIC PARTITIONS RATE BYTES

NAME is librdkafka or aiokafka. The values of each partition are its numbers 0, 1, 2, … and filler.
One line for each answer: `a PARTITION NUMBER OFFSET NANOSECONDS` or `f PARTITION NUMBER ERROR`.
Those in other languages (`java/`, `go/`) take the same arguments and print the same lines.
"""

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from confluent_kafka import Message, Producer

from ..untyped_clients import Acknowledgement, aiokafka

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

LIBRDKAFKA = "librdkafka"
AIOKAFKA = "aiokafka"

_DELIVERY_MS = 900_000
_REQUEST_MS = 10_000
_POLL_S = 0.01
_QUEUED_MAX = 50_000


@dataclass(frozen=True, slots=True)
class Stated:
    """What a producer is called with."""

    bootstrap: str
    topic: str
    partitions: int
    rate: int
    record_bytes: int

    def value(self, number: int) -> bytes:
        """The value of that number in any partition."""
        return f"{number} ".encode().ljust(self.record_bytes, b".")


def _acknowledged(partition: int, number: int, offset: int) -> None:
    print(f"a {partition} {number} {offset} {time.time_ns()}")


def _failed(partition: int, number: int, error: object) -> None:
    print(f"f {partition} {number} {' '.join(str(error).split())}")


def _end_of_input() -> threading.Event:
    ends = threading.Event()

    def read() -> None:
        sys.stdin.read()
        ends.set()

    threading.Thread(target=read, daemon=True).start()
    return ends


class _Pace:
    """How many records are due, without catching up after a second in which none could be sent."""

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._began = time.monotonic()

    def ahead_s(self, sent: int) -> float:
        """The seconds until the next record is due."""
        ahead = self._began + sent / self._rate - time.monotonic()
        if ahead < -1:
            self._began -= ahead
        return ahead


def produce_with_librdkafka(stated: Stated) -> None:
    """Produce with librdkafka."""
    ends, pace, sent = _end_of_input(), _Pace(stated.rate), 0
    producer = Producer(
        {
            "bootstrap.servers": stated.bootstrap,
            "acks": "all",
            "enable.idempotence": True,
            "message.timeout.ms": _DELIVERY_MS,
            "request.timeout.ms": _REQUEST_MS,
            "queue.buffering.max.messages": _QUEUED_MAX,
            "log_level": 2,
        }
    )

    def report(number: int) -> Callable[["KafkaError | None", Message], None]:
        def answered(error: "KafkaError | None", message: Message) -> None:
            partition = message.partition() or 0
            if error is None:
                offset = message.offset()
                # It does not know the offset of a batch that it had sent twice.
                _acknowledged(partition, number, -1 if offset is None else offset)
            else:
                _failed(partition, number, error)

        return answered

    while not ends.is_set():
        if pace.ahead_s(sent) > 0 or len(producer) >= _QUEUED_MAX:
            producer.poll(_POLL_S)
            sys.stdout.flush()
            continue
        number, partition = divmod(sent, stated.partitions)
        value = stated.value(number)
        producer.produce(stated.topic, value, partition=partition, on_delivery=report(number))
        producer.poll(0)
        sent += 1
    producer.flush(_DELIVERY_MS / 1000)
    sys.stdout.flush()


async def produce_with_aiokafka(stated: Stated) -> None:
    """Produce with aiokafka."""
    ends, pace, sent = _end_of_input(), _Pace(stated.rate), 0
    producer = aiokafka().AIOKafkaProducer(
        bootstrap_servers=stated.bootstrap,
        acks="all",
        enable_idempotence=True,
        # It is also the time after which a record that waits for its turn fails.
        request_timeout_ms=120_000,
    )
    await producer.start()

    def report(partition: int, number: int) -> "Callable[[asyncio.Future[Acknowledgement]], None]":
        def answered(answer: "asyncio.Future[Acknowledgement]") -> None:
            error = answer.exception()
            if error is None:
                _acknowledged(partition, number, answer.result().offset)
            else:
                _failed(partition, number, repr(error))

        return answered

    while not ends.is_set():
        ahead = pace.ahead_s(sent)
        if ahead > 0:
            await asyncio.sleep(ahead)
            sys.stdout.flush()
            continue
        number, partition = divmod(sent, stated.partitions)
        answer = await producer.send(stated.topic, stated.value(number), partition=partition)
        answer.add_done_callback(report(partition, number))
        sent += 1
    await producer.flush()
    await producer.stop()
    sys.stdout.flush()


PRODUCERS: dict[str, Callable[[Stated], None]] = {
    LIBRDKAFKA: produce_with_librdkafka,
    AIOKAFKA: lambda stated: asyncio.run(produce_with_aiokafka(stated)),
}


def main(arguments: Sequence[str] | None = None) -> int:
    name, bootstrap, topic, *numbers = sys.argv[1:] if arguments is None else arguments
    PRODUCERS[name](Stated(bootstrap, topic, *(int(number) for number in numbers)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
