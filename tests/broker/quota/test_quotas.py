"""Quotas: which one counts, how usage is measured, how a client is held back."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tierlog.broker.quota.quotas import SAMPLES, ClientQuotas, Meter
from tierlog.clients.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    OpData,
)
from tierlog.clients.record.batch import Record
from tierlog.clients.record.builder import build_batch
from tierlog.replication.metadata.cluster_image import QuotaEntity
from tierlog.tests import wire

from ...broker_process import BrokerThread, RawClient

RATE = "producer_byte_rate"
USER, CLIENT, BOTH = ("user", "u"), ("client-id", "c"), None
ANY_USER, ANY_CLIENT = ("user", None), ("client-id", None)

# The strongest first, and who shares its meter.
PRECEDENCE: list[tuple[QuotaEntity, tuple[str, str]]] = [
    ((CLIENT, USER), ("u", "c")),
    ((ANY_CLIENT, USER), ("u", "c")),
    ((USER,), ("u", "")),
    ((CLIENT, ANY_USER), ("u", "c")),
    ((ANY_CLIENT, ANY_USER), ("u", "c")),
    ((ANY_USER,), ("u", "")),
    ((CLIENT,), ("", "c")),
    ((ANY_CLIENT,), ("", "c")),
]


@pytest.mark.parametrize("strongest", range(len(PRECEDENCE)))
def test_the_quota_of_the_closest_description_counts(strongest: int) -> None:
    quotas = ClientQuotas()
    quotas.update(
        {entity: {RATE: float(n)} for n, (entity, _) in enumerate(PRECEDENCE) if n >= strongest}
    )
    found = quotas.quota(RATE, "u", "c")
    assert found is not None
    assert found == (float(strongest), (RATE, *PRECEDENCE[strongest][1]))
    assert quotas.quota("consumer_byte_rate", "u", "c") is None


def test_who_has_no_client_id_is_subject_to_quotas_of_users_alone() -> None:
    quotas = ClientQuotas()
    quotas.update({(ANY_CLIENT,): {RATE: 1.0}, (ANY_CLIENT, ANY_USER): {RATE: 2.0}})
    assert quotas.quota(RATE, "u", "") is None
    quotas.update({(ANY_CLIENT, USER): {RATE: 1.0}, (ANY_USER,): {RATE: 2.0}})
    assert quotas.quota(RATE, "u", "") == (2.0, (RATE, "u", ""))


def test_other_users_and_clients_are_not_subject_to_it() -> None:
    quotas = ClientQuotas()
    quotas.update({(USER,): {RATE: 1.0}, (CLIENT, ("user", "v")): {RATE: 2.0}})
    assert quotas.quota(RATE, "v", "other") is None
    assert quotas.quota(RATE, "w", "c") is None


def test_a_start_from_idle_may_use_a_whole_window_at_once_and_then_waits() -> None:
    meter = Meter()
    meter.record(1000.0, 100.0)
    assert meter.excess_s(100.0, 100.0) == 0
    meter.record(500.0, 100.0)
    assert meter.excess_s(100.0, 100.0) == 5.0


@given(st.lists(st.tuples(st.floats(0, 3), st.floats(1, 1000)), min_size=1, max_size=40))
def test_a_client_that_waits_as_long_as_its_throttle_time_is_at_most_a_window_ahead(
    uses: Sequence[tuple[float, float]],
) -> None:
    meter, now, used = Meter(), 0.0, 0.0
    largest = max(amount for _, amount in uses)
    for pause, amount in uses:
        now += pause
        meter.record(amount, now)
        used += amount
        now += meter.excess_s(100.0, now)
    # A window may be used ahead each time that the one before has passed out of sight.
    assert used <= 100.0 * (now + SAMPLES * (1 + now / (SAMPLES - 2))) + largest


@given(st.lists(st.floats(0, 1e6), max_size=20))
def test_what_is_older_than_the_window_counts_no_more(uses: Sequence[float]) -> None:
    meter = Meter()
    for amount in uses:
        meter.record(amount, 5.0)
    meter.record(1.0, 5.0 + SAMPLES)
    assert meter.excess_s(1.0, 5.0 + SAMPLES) == 0


def test_of_too_many_meters_the_longest_unused_is_forgotten() -> None:
    quotas = ClientQuotas()
    quotas.update({(ANY_CLIENT,): {RATE: 1.0}})
    for number in range(10_100):
        quota = quotas.quota(RATE, "u", str(number))
        assert quota is not None
        quotas.meter(quota).record(100.0, 0.0)
    first, last = quotas.quota(RATE, "u", "0"), quotas.quota(RATE, "u", "10099")
    assert first is not None
    assert last is not None
    assert quotas.meter(first).excess_s(1.0, 0.0) == 0
    assert quotas.meter(last).excess_s(1.0, 0.0) == 90


def limit(client: RawClient, key: str, value: float | None) -> None:
    op = OpData(key=key, value=value or 0.0, remove=value is None)
    entity = [EntityData(entity_type="user", entity_name=None)]
    request = AlterClientQuotasRequest(entries=[EntryData(entity=entity, ops=[op])])
    answer = client.ask(request, 1, AlterClientQuotasResponse)
    assert answer.entries[0].error_code == 0


def produce(client: RawClient, size: int) -> int:
    batch = build_batch([Record(0, 0, None, bytes(size), ())])
    data = wire.PartitionProduceData(index=0, records=memoryview(batch))
    topic = wire.TopicProduceData(name="t", partition_data=[data])
    request = wire.ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[topic])
    answer = client.ask(request, 9, wire.ProduceResponse)
    assert answer.responses[0].partition_responses[0].error_code == 0
    return answer.throttle_time_ms


def fetch(client: RawClient) -> wire.FetchResponse:
    partition = wire.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topic = wire.FetchTopic(topic="t", partitions=[partition])
    request = wire.FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, topics=[topic])
    return client.ask(request, 11, wire.FetchResponse)


def test_clients_above_their_quota_get_a_throttle_time_and_are_not_read_meanwhile(
    tmp_path: Path,
) -> None:
    with BrokerThread(tmp_path) as broker, RawClient(broker.port) as client:
        topic = wire.CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        client.receive(client.send(wire.CreateTopicsRequest(topics=[topic], timeout_ms=5_000), 7))
        assert produce(client, 60_000) == 0
        limit(client, RATE, 10_000.0)
        assert produce(client, 60_000) == 0
        with RawClient(broker.port) as other:
            throttle_ms = produce(other, 50_000)
            assert 0 < throttle_ms < 2_000
            clock = asyncio.new_event_loop()
            begun = clock.time()
            other.ask(wire.MetadataRequest(topics=[]), 5, wire.MetadataResponse)
            assert clock.time() - begun > throttle_ms / 1000 - 0.1
            clock.close()
        limit(client, RATE, None)
        assert produce(client, 900_000) == 0

        limit(client, "consumer_byte_rate", 10_000.0)
        answers = [fetch(client)]
        while not answers[-1].throttle_time_ms and len(answers) < 3:
            answers.append(fetch(client))
        assert answers[-1].throttle_time_ms > 0
        assert not answers[-1].responses
        assert answers[0].responses
        # What was not sent counts nothing, so nobody waits longer for having asked.
        with RawClient(broker.port) as other:
            again = fetch(other)
            assert not again.responses
            assert 0 < again.throttle_time_ms <= answers[-1].throttle_time_ms


def test_a_name_that_is_asked_for_is_still_served_under_a_request_quota(tmp_path: Path) -> None:
    with BrokerThread(tmp_path) as broker, RawClient(broker.port) as client:
        limit(client, "request_percentage", 0.000001)
        waits = [
            client.ask(
                wire.MetadataRequest(topics=[wire.MetadataRequestTopic(name="x")]),
                5,
                wire.MetadataResponse,
            ).throttle_time_ms
            for _ in range(2)
        ]
        assert max(waits) == 1_000
        limit(client, "request_percentage", None)
        answer = client.ask(wire.MetadataRequest(topics=[]), 5, wire.MetadataResponse)
        assert answer.throttle_time_ms == 0


def test_a_producer_waits_for_the_quota_that_it_exceeds_most(tmp_path: Path) -> None:
    with BrokerThread(tmp_path) as broker, RawClient(broker.port) as client:
        topic = wire.CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        client.receive(client.send(wire.CreateTopicsRequest(topics=[topic], timeout_ms=5_000), 7))
        limit(client, RATE, 1e9)
        limit(client, "request_percentage", 0.000001)
        assert max(produce(client, 10) for _ in range(2)) == 1_000


def test_what_is_answered_later_holds_its_client_back_too(tmp_path: Path) -> None:
    def create(client: RawClient, name: str, partitions: int) -> tuple[int, int]:
        topic = wire.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        request = wire.CreateTopicsRequest(topics=[topic], timeout_ms=5_000)
        answer = client.ask(request, 7, wire.CreateTopicsResponse)
        return answer.topics[0].error_code, answer.throttle_time_ms

    with BrokerThread(tmp_path) as broker, RawClient(broker.port) as client:
        limit(client, "controller_mutation_rate", 10.0)
        assert create(client, "a", 120) == (0, 0)
        code, throttle_ms = create(client, "b", 1)
        assert code == 89
        assert 0 < throttle_ms <= 1_000
        assert create(client, "b", 1) == (0, 0)


def test_a_quota_holds_for_connections_that_were_there_before_it(tmp_path: Path) -> None:
    with BrokerThread(tmp_path) as broker, RawClient(broker.port) as client:
        topic = wire.CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        client.receive(client.send(wire.CreateTopicsRequest(topics=[topic], timeout_ms=5_000), 7))
        with RawClient(broker.port) as producer:
            assert [produce(producer, 1_000) for _ in range(4)] == [0] * 4
            limit(client, RATE, 10_000.0)
            assert sum(produce(producer, 60_000) for _ in range(3)) > 0
            limit(client, RATE, None)
            assert produce(producer, 60_000) == 0
