"""Who creates and deletes too many partitions is held back as by Apache Kafka (KIP-599)."""

import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest

from tierlog.clients.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    OpData,
)
from tierlog.clients.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from tierlog.clients.protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tierlog.clients.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from tierlog.clients.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from tierlog.clients.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from tierlog.clients.protocol.schema import Message

from ..broker_process import RawClient
from ..waiting import wait_until
from .side_by_side import SideBySide, both_brokers

pytestmark = pytest.mark.requires("java", "mvn")

REFUSED, DEBT_S = 89, 10
TOLERATED_MS = 700
"""How differently the two brokers round the time since a change."""


class Outcome(NamedTuple):
    """What one broker answered: for how long to wait, and how it went for each topic."""

    throttle_ms: int
    results: list[tuple[str | None, int, str | None]]


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    settings = {"auto.create.topics.enable": "true"}
    with both_brokers(tmp_path_factory.mktemp("both"), settings) as ports:
        yield ports


ENTITIES: list[list[EntityData]] = [
    [EntityData(entity_type="client-id", entity_name="raw")],
    [EntityData(entity_type="user", entity_name=None)],
    [
        EntityData(entity_type="user", entity_name=None),
        EntityData(entity_type="client-id", entity_name=None),
    ],
]
"""Each has a bucket of its own, so that what one test owes is not held against the next."""


def limit(client: RawClient, rate: float | None, entity: list[EntityData]) -> None:
    """Let this be what may be changed in a second, and wait until it counts."""
    op = OpData(key="controller_mutation_rate", value=rate or 0.0, remove=rate is None)
    request = AlterClientQuotasRequest(entries=[EntryData(entity=entity, ops=[op])])
    assert client.ask(request, 1, AlterClientQuotasResponse).entries[0].error_code == 0

    def is_known() -> bool:
        found = client.ask(DescribeClientQuotasRequest(), 1, DescribeClientQuotasResponse).entries
        values = [value.value for entry in found or [] for value in entry.values]
        return values == ([] if rate is None else [rate])

    wait_until(is_known, 60, "the quota is not known")


def creation(partitions: int, *names: str, validate_only: bool = False) -> CreateTopicsRequest:
    topics = [
        CreatableTopic(name=name, num_partitions=partitions, replication_factor=1) for name in names
    ]
    return CreateTopicsRequest(topics=topics, timeout_ms=10_000, validate_only=validate_only)


def deletion(version: int, *names: str) -> DeleteTopicsRequest:
    if version < 6:
        return DeleteTopicsRequest(topic_names=list(names), timeout_ms=10_000)
    topics = [DeleteTopicState(name=name) for name in names]
    return DeleteTopicsRequest(topics=topics, timeout_ms=10_000)


def widening(name: str, count: int) -> CreatePartitionsRequest:
    topic = CreatePartitionsTopic(name=name, count=count, assignments=None)
    return CreatePartitionsRequest(topics=[topic], timeout_ms=10_000)


def outcome(answer: Message) -> Outcome:
    if isinstance(answer, CreateTopicsResponse):
        created = [(each.name, each.error_code, each.error_message) for each in answer.topics]
        return Outcome(answer.throttle_time_ms, [*created])
    if isinstance(answer, CreatePartitionsResponse):
        widened = [(each.name, each.error_code, each.error_message) for each in answer.results]
        return Outcome(answer.throttle_time_ms, [*widened])
    assert isinstance(answer, DeleteTopicsResponse)
    return Outcome(
        answer.throttle_time_ms,
        [(each.name, each.error_code, each.error_message) for each in answer.responses],
    )


class Pair:
    """Both brokers, asked the same; `began` is when the first change was made, in seconds."""

    def __init__(self, ports: tuple[int, int]) -> None:
        self._ports = ports
        self.began = time.monotonic()

    @property
    def passed_ms(self) -> float:
        """Milliseconds since the first change, by which the time to wait may have become less."""
        return (time.monotonic() - self.began) * 1_000

    def alike(self, request: Message, version: int) -> Outcome:
        """Ask both on fresh connections, since those of before may be held back; our answer."""
        with SideBySide(*self._ports) as both:
            kafka, ours = (outcome(answer) for answer in both.ask(request, version))
        assert sorted(ours.results, key=repr) == sorted(kafka.results, key=repr)
        # However slow this machine is: each broker had its requests within that time.
        assert abs(ours.throttle_ms - kafka.throttle_ms) < TOLERATED_MS + self.passed_ms
        assert (ours.throttle_ms > 0) == (kafka.throttle_ms > 0)
        return ours

    def waits_longer_than(self, ms: int, request: Message, version: int) -> Outcome:
        """`alike`, and whoever asks has to wait; `ms` counts from the first change."""
        answer = self.alike(request, version)
        assert answer.throttle_ms > ms - self.passed_ms
        return answer


@contextmanager
def limited(
    ports: tuple[int, int], rate: float, entity: list[EntityData]
) -> Generator[Pair, None, None]:
    with SideBySide(*ports) as both:
        try:
            for client in (both.kafka, both.ours):
                limit(client, rate, entity)
            yield Pair(ports)
        finally:
            for client in (both.kafka, both.ours):
                limit(client, None, entity)


def test_newer_versions_are_refused_above_the_quota_and_older_ones_wait(
    ports: tuple[int, int],
) -> None:
    Pair(ports).alike(creation(3, "before"), 7)
    with limited(ports, 5.0, ENTITIES[0]) as pair:
        assert pair.alike(creation(300, "large"), 7).throttle_ms == 0
        refused = pair.waits_longer_than(40_000, creation(1, "a", "b"), 6)
        assert {code for _, code, _ in refused.results} == {REFUSED}
        pair.alike(creation(1, "a", validate_only=True), 7)
        pair.alike(widening("before", 4), 3)
        pair.alike(deletion(5, "before"), 5)
        pair.alike(deletion(6, "before", "no-such"), 6)
        assert pair.alike(creation(0, "bad"), 7).throttle_ms == 0

        pair.waits_longer_than(40_000, creation(1, "c"), 5)
        pair.waits_longer_than(40_000, widening("before", 4), 2)
        pair.waits_longer_than(40_000, deletion(4, "before"), 4)
        pair.waits_longer_than(40_000, creation(1, "d", validate_only=True), 4)
    assert Pair(ports).alike(creation(300, "many"), 7).throttle_ms == 0


def test_a_topic_is_not_created_in_passing_above_the_quota(ports: tuple[int, int]) -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="in-passing")])
    with limited(ports, 2.0, ENTITIES[1]) as pair:
        pair.alike(creation(200, "much"), 7)
        with SideBySide(*ports) as both:
            for client in (both.kafka, both.ours, both.kafka, both.ours):
                answer = client.ask(request, 9, MetadataResponse)
                assert [topic.error_code for topic in answer.topics] == [3]
                assert answer.throttle_time_ms == 0


def test_the_debt_is_gone_after_the_throttle_time(ports: tuple[int, int]) -> None:
    with limited(ports, 20.0, ENTITIES[2]) as pair:
        pair.alike(creation(220 + 20 * DEBT_S, "debt"), 7)
        with SideBySide(*ports) as both:
            for client in (both.kafka, both.ours):
                refused = client.ask(creation(1, "later"), 7, CreateTopicsResponse)
                assert [topic.error_code for topic in refused.topics] == [REFUSED]
                assert refused.throttle_time_ms <= DEBT_S * 1_000
            # Not read meanwhile, so that this request comes when the debt is gone. (Kafka rounds
            # its time, and sometimes refuses once more.)
            created = both.ours.ask(creation(1, "later"), 7, CreateTopicsResponse)
            assert [topic.error_code for topic in created.topics] == [0]
