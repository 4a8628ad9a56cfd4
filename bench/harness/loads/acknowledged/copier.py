"""Copies one topic to another exactly once, with librdkafka, until it is killed.

    python -m tierlog.bench.harness.loads.acknowledged.copier BOOTSTRAP SOURCE TARGET NAME RECORDS

Each round reads at most so many records, writes them to the same partitions, and commits the
positions in one transaction. NAME is the group's and the transactional id. A transaction that must
be aborted is begun again from the committed positions; a fatal error ends the process, and its
caller starts another. It prints a line for each commit and each abort. `java/Copier.java` does the
same with Kafka's own clients.
"""

import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

SESSION_MS = 10_000
TRANSACTION_MS = 60_000
_CALL_S = 60.0
_HUNG_S = 20.0
_POLL_S = 0.2
_RETRY_S = 0.1


class AbortError(Exception):
    """The transaction must be aborted."""


class HungError(Exception):
    """A call of the client has not returned, and the client is of no more use."""


def error_of(error: KafkaException) -> KafkaError:
    """The error that librdkafka has raised."""
    return cast("KafkaError", error.args[0])


def persist(call: Callable[[], object]) -> None:
    """Call until it succeeds or its error is no longer retriable.

    Raises AbortError if the transaction must be aborted, KafkaException for everything else.
    """
    deadline = time.monotonic() + _CALL_S
    while True:
        try:
            call()
            return
        except KafkaException as raised:
            error = error_of(raised)
            if error.txn_requires_abort():
                raise AbortError(error.str()) from raised
            if error.fatal() or not error.retriable() or time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_S)


def send_offsets(producer: Producer, positions: list[TopicPartition], member: object) -> None:
    """Add positions to the transaction; a call that never returns is an error, too.

    librdkafka 2.16 forgets a broker that is missing in Metadata, and with it the request that waits
    for this broker as the coordinator of a group: then `send_offsets_to_transaction` outlives its
    own timeout. Raises AbortError, KafkaException or HungError.
    """
    outcome: queue.SimpleQueue[Exception | None] = queue.SimpleQueue()

    def call() -> None:
        try:
            persist(lambda: producer.send_offsets_to_transaction(positions, member, _CALL_S))
        except (AbortError, KafkaException) as error:
            outcome.put(error)
        else:
            outcome.put(None)

    threading.Thread(target=call, daemon=True).start()
    try:
        raised = outcome.get(timeout=_HUNG_S)
    except queue.Empty:
        raise HungError(f"send_offsets_to_transaction took more than {_HUNG_S:g} s") from None
    if raised is not None:
        raise raised


def rewind(consumer: Consumer, places: Sequence[TopicPartition]) -> None:
    """Go back to the committed positions, or to the begin."""
    for place in consumer.committed(list(places), timeout=_CALL_S):
        consumer.seek(TopicPartition(place.topic, place.partition, max(0, place.offset)))


class _Copier:
    def __init__(self, bootstrap: str, source: str, target: str, name: str, records: int) -> None:
        self._target = target
        self._records = records
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": name,
                "session.timeout.ms": SESSION_MS,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "log_level": 2,
            }
        )
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": name,
                "transaction.timeout.ms": TRANSACTION_MS,
                "log_level": 2,
            }
        )
        self._consumer.subscribe([source])

    def run(self) -> None:
        """Copy for ever. Raises KafkaException for what is fatal."""
        persist(lambda: self._producer.init_transactions(_CALL_S))
        while True:
            messages = self._polled()
            if not messages:
                continue
            try:
                self._copy(messages)
                print("committed", len(messages), flush=True)
            except AbortError as error:
                print("aborted", error, flush=True)
                persist(lambda: self._producer.abort_transaction(_CALL_S))
                rewind(self._consumer, self._consumer.assignment())

    def _polled(self) -> list[Message]:
        polled = self._consumer.consume(self._records, _POLL_S)
        for each in polled:
            error = each.error()
            if error is not None and (error.fatal() or error.name() == "_FATAL"):
                raise KafkaException(error)
        return [each for each in polled if each.error() is None]

    def _copy(self, messages: Sequence[Message]) -> None:
        self._producer.begin_transaction()
        for message in messages:
            partition = cast("int", message.partition())
            self._producer.produce(self._target, message.value(), partition=partition)
        consumer, producer = self._consumer, self._producer
        positions = [each for each in consumer.position(consumer.assignment()) if each.offset >= 0]
        member = consumer.consumer_group_metadata()
        send_offsets(producer, positions, member)
        persist(lambda: producer.commit_transaction(_CALL_S))


def main(arguments: Sequence[str] | None = None) -> int:
    stated = sys.argv[1:] if arguments is None else arguments
    bootstrap, source, target, name, records = stated
    try:
        _Copier(bootstrap, source, target, name, int(records)).run()
    except HungError as error:
        print(error, file=sys.stderr, flush=True)
        # A client that hangs does not close either.
        os._exit(1)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
