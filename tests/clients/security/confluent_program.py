"""confluent-kafka as a program that works off orders: librdkafka's errors by name and sentence."""

import time
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from .orders import Order
from .python_program import obey

Settings = dict[str, str | int | float | bool]


class SeenError(Exception):
    """An error of librdkafka, as its name and its sentence."""


def sentence_of(error: KafkaError) -> str:
    """The error as a user sees it."""
    return f"{error.name()}: {error.str()}"


class Session:
    """The settings of one order, and the errors that its client reports by itself."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.errors: list[KafkaError] = []

    def settings(self, **more: str | int | bool) -> Settings:
        order = self.order
        given = {
            "bootstrap.servers": order.address,
            "security.protocol": order.protocol,
            "sasl.mechanism": order.mechanism,
            "sasl.username": order.user,
            "sasl.password": order.password,
            "ssl.ca.location": order.ca,
            "ssl.certificate.location": order.identity,
            "ssl.key.location": order.identity,
        }
        stated: Settings = {name: value for name, value in given.items() if value}
        stated |= {name.replace("_", "."): value for name, value in more.items()}
        quiet: dict[str, Any] = {"error_cb": self.on_error, "log_level": 0}
        if order.token:

            def token(_config: str) -> tuple[str, float]:
                return Path(order.token).read_text(), time.time() + 3600

            quiet["oauth_cb"] = token
        return {**stated, **quiet}

    def on_error(self, error: KafkaError) -> None:
        # It follows every other one, and says less.
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            self.errors.append(error)

    def check(self) -> None:
        """Raise the first error that was reported."""
        if self.errors:
            raise SeenError(sentence_of(self.errors[0]))

    def produce(self, values: list[str]) -> None:
        producer = Producer(self.settings(message_timeout_ms=self.order.patience_s * 1000))
        self._send(producer, values)

    def _send(self, producer: Producer, values: list[str]) -> None:
        for value in values:
            producer.produce(self.order.topic, value.encode(), on_delivery=self._delivered)
        while len(producer):
            producer.poll(0.05)
            self.check()

    def _delivered(self, error: KafkaError | None, _: object) -> None:
        if error is not None:
            self.on_error(error)

    def transact(self, aborted: list[str], committed: list[str]) -> None:
        producer = Producer(self.settings(transactional_id=self.order.transactional_id))
        # It is in a poll that it gets its token.
        producer.poll(0)
        try:
            producer.init_transactions(self.order.patience_s)
            for values, end in (
                (aborted, producer.abort_transaction),
                (committed, producer.commit_transaction),
            ):
                producer.begin_transaction()
                self._send(producer, values)
                end(self.order.patience_s)
        except KafkaException as error:
            raise SeenError(sentence_of(error.args[0])) from error

    def consume(self, count: int) -> list[str]:
        consumer = Consumer(self.settings(group_id=self.order.group, auto_offset_reset="earliest"))
        values: list[str] = []
        consumer.subscribe([self.order.topic])
        deadline = time.monotonic() + self.order.patience_s
        try:
            while len(values) < count and time.monotonic() < deadline:
                for message in consumer.consume(count, 0.1):
                    error = message.error()
                    if error is not None:
                        raise SeenError(sentence_of(error))
                    read = message.value()
                    assert isinstance(read, bytes)
                    values.append(read.decode())
                self.check()
        finally:
            consumer.close()
        return values


def do(order: Order) -> list[str]:
    """What the order says."""
    session = Session(order)
    numbers = range(order.records)
    if order.what in ("work", "produce"):
        session.produce([f"plain {each}" for each in numbers] or ["one"])
    if order.what in ("work", "transact"):
        session.transact(["aborted"], [f"committed {each}" for each in numbers])
    if order.what in ("work", "consume"):
        return session.consume(2 * order.records or 1)
    return []


if __name__ == "__main__":
    obey(do)
