"""The services of the compose files run here as processes, and do what docs/docker.md says.

Clients are librdkafka's, on the host's side of the published ports.
"""

import json
import threading
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tierlog.bench.harness.processes.live_files import live_paths
from tierlog.tests.docker.compose_file import ONE_BROKER, services
from tierlog.tests.docker.compose_processes import UP_WITHIN_S, Composed, Container
from tierlog.tests.docker.image_file import image
from tierlog.tests.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.requires("go", "wget"), pytest.mark.timeout(600)]

_WITHIN_S = 120.0
_PARTITIONS = 3
_SEGMENT_BYTES = 1 << 20


@pytest.fixture
def composed(tmp_path: Path) -> Iterator[Composed]:
    with Composed(services(), image(), tmp_path) as running:
        yield running


def _create(composed: Composed, name: str, **config: str) -> None:
    topic = NewTopic(name, num_partitions=_PARTITIONS, config=config)
    admin = AdminClient({"bootstrap.servers": ",".join(composed.bootstrap)})
    # The client publishes this without all of its types.
    created = admin.create_topics([topic], request_timeout=_WITHIN_S)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    created[name].result(_WITHIN_S)


def _produce(
    bootstrap: str, topic: str, values: Sequence[bytes], partitions: int = _PARTITIONS
) -> None:
    """The values, spread over the partitions; all are acknowledged when this returns."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    failures: list[object] = []
    for number, value in enumerate(values):
        producer.produce(
            topic,
            value,
            partition=number % partitions,
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
    assert producer.flush(_WITHIN_S) == 0
    assert failures == []


def _consume(bootstrap: str, topic: str, count: int, group: str | None = None) -> list[bytes]:
    """The values of a topic from its beginning, at least `count`; as a group if one is named."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group or "none",
            "enable.auto.commit": group is not None,
            "auto.offset.reset": "earliest",
        }
    )
    values: list[bytes] = []

    def has_all() -> bool:
        """All that there is now has been read, and it is enough."""
        while (message := consumer.poll(0.5)) is not None:
            assert message.error() is None, message.error()
            values.append(message.value() or b"")
        return len(values) >= count

    try:
        if group is None:
            consumer.assign([TopicPartition(topic, each, 0) for each in range(_PARTITIONS)])
        else:
            consumer.subscribe([topic])
        wait_until(has_all, _WITHIN_S, lambda: f"{len(values)} of {count} records were read")
    finally:
        consumer.close()
    return values


def test_all_services_are_healthy_and_any_broker_serves_the_host(composed: Composed) -> None:
    assert len(composed.brokers) == 3
    assert "is new" in composed["create-bucket"].output
    assert (composed.volume("objects") / "tierlog").is_dir()
    _create(composed, "greetings")
    expected: list[bytes] = []
    for at, bootstrap in enumerate(composed.bootstrap):
        more = [b"%d %d" % (at, number) for number in range(100)]
        _produce(bootstrap, "greetings", more)
        expected += more
    for bootstrap, group in zip(composed.bootstrap, ("first", None, None), strict=True):
        assert sorted(_consume(bootstrap, "greetings", len(expected), group)) == sorted(expected)
    code, said = composed["broker1"].execute(["tierlog-in-sync", "--wait", "60"])
    assert (code, said.splitlines()[-1]) == (0, "All replicas of all partitions are in sync.")
    assert _formatted(composed["broker1"]) == 1
    assert composed["broker3"].stop() == 0
    code, said = composed["broker3"].execute(["tierlog-ready"])
    assert code == 1
    assert "does not answer" in said


class _Writer:
    """Produces numbers until it is stopped; what is acknowledged must not be lost."""

    def __init__(self, composed: Composed, topic: str) -> None:
        self.acknowledged: list[bytes] = []
        self.failures: list[object] = []
        self._topic = topic
        self._producer = Producer(
            {
                "bootstrap.servers": ",".join(composed.bootstrap),
                "enable.idempotence": True,
                "linger.ms": 20,
            }
        )
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        number = 0
        while not self._end.wait(0.01):
            value = b"%08d" % number + bytes(2000)
            self._producer.produce(self._topic, value, on_delivery=self._delivered)
            self._producer.poll(0)
            number += 1

    def _delivered(self, error: object, message: Message) -> None:
        if error is None:
            self.acknowledged.append((message.value() or b"")[:8])
        else:
            self.failures.append(error)

    def wait_for_more(self) -> None:
        """Wait until something is acknowledged that is not yet."""
        before = len(self.acknowledged)
        wait_until(lambda: len(self.acknowledged) > before, _WITHIN_S, "producers go on")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(_WITHIN_S)
        assert self._producer.flush(_WITHIN_S) == 0
        del self._producer  # closes its connections


def _formatted(container: Container) -> int:
    return container.output.count("Formatting")


def _replace(container: Container) -> None:
    """The step of docs/docker.md for one broker: in sync, down, up, healthy, in sync."""
    wait = ["tierlog-in-sync", "--wait", str(UP_WITHIN_S)]
    code, said = container.execute(wait, UP_WITHIN_S * 2)
    assert code == 0, said
    assert container.stop() == 0, container.log_tail()
    container.start()
    container.wait_until_healthy()
    code, said = container.execute(wait, UP_WITHIN_S * 2)
    assert code == 0, said


@pytest.mark.long
def test_a_rolling_upgrade_loses_nothing_and_segments_are_in_the_bucket(composed: Composed) -> None:
    tiered = {"remote.storage.enable": "true", "segment.bytes": str(_SEGMENT_BYTES)}
    _create(composed, "history", **tiered)
    _produce(composed.bootstrap[0], "history", [bytes(1000)] * 2500 * _PARTITIONS)
    _create(composed, "orders")
    with _Writer(composed, "orders") as writer:
        for broker in composed.brokers:
            _replace(broker)
            writer.wait_for_more()
    assert writer.failures == []
    values = _consume(composed.bootstrap[0], "orders", len(writer.acknowledged), "after")
    assert sorted(value[:8] for value in values) == sorted(writer.acknowledged)
    assert [_formatted(each) for each in composed.brokers] == [1, 1, 1]
    tier = composed.volume("objects") / "tierlog" / "cluster"
    wait_until(
        lambda: _copied(tier, "history") == set(range(_PARTITIONS)),
        _WITHIN_S,
        lambda: f"segments of {_copied(tier, 'history')} are in the bucket",
    )


def _copied(tier: Path, topic: str) -> set[int]:
    """The partitions of a topic of which the bucket has a whole segment."""
    folders = {each.parent.name for each in live_paths(tier, "**/*.manifest")}
    return {int(name.split("-")[1]) for name in folders if name.startswith(f"{topic}-")}


@pytest.mark.long
def test_one_broker_tiers_its_topics_and_shows_its_page(tmp_path: Path) -> None:
    command = ("tierlog", "topic", "create", "history", "-c", f"segment.bytes={_SEGMENT_BYTES}")
    with Composed(services(file=ONE_BROKER), image(), tmp_path) as composed:
        (bootstrap,) = composed.bootstrap
        assert composed["broker"].execute([*command, "-b", "broker:29092"])[0] == 0
        _produce(bootstrap, "history", [bytes(1000)] * 2500, 1)
        tier = composed.volume("objects") / "tierlog" / "one"
        wait_until(
            lambda: _copied(tier, "history") == {0},
            _WITHIN_S,
            lambda: composed["broker"].log_tail(),
        )
        assert len(_consume(bootstrap, "history", 2500, "all")) == 2500
        code, said = composed["broker"].execute(
            ["tierlog", "topic", "storage", "history", "-b", "broker:29092"]
        )
        assert code == 0, said
        page = f"http://{bootstrap.replace(':9092', ':9093')}/api/v1/topics"
        with urllib.request.urlopen(page, timeout=_WITHIN_S) as answer:
            assert "history" in json.dumps(json.load(answer))
        assert composed["broker"].stop() == 0
