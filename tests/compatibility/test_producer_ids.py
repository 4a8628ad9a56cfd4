"""Producers of unmodified clients that ask for a producer id."""

from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest

from ..broker_process import BrokerProcess


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess.on(tmp_path) as process:
        yield process


def test_idempotent_producers_produce(broker: BrokerProcess) -> None:
    outcomes: list[object] = []

    def delivered(error: object, _message: object) -> None:
        outcomes.append(error)

    for _ in range(2):
        settings = {"bootstrap.servers": broker.bootstrap, "enable.idempotence": True}
        producer = confluent_kafka.Producer(settings)
        for number in range(100):
            producer.produce("topic", f"{number}", on_delivery=delivered)
        assert producer.flush(30) == 0
    assert outcomes == [None] * 200
