"""Readers of a tier meet the faults that a test has set."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tierlog.clients.errors import ErrorCode
from tierlog.clients.topic_partition import TopicPartition as Partition
from tierlog.testing import Broker
from tierlog.testing.faults.faulty_answers import OWN_CLIENTS
from tierlog.testing.faults.tier_faults import TierFaults
from tierlog.testing.faults.tier_rules import TierAct, TierOperation, TierRule, TierRules
from tierlog.tests import wire
from tierlog.tests.broker_process import RawClient
from tierlog.tiering.metadata.metadata_topic import CLIENT_ID
from tierlog.tiering.remote_storage import Failure

PATIENCE_S = 60


@pytest.fixture(scope="module")
def shared() -> Iterator[Broker]:
    with Broker({"remote.fetch.max.wait.ms": "50"}, tier="memory") as broker:
        yield broker


@pytest.fixture
def broker(shared: Broker) -> Iterator[Broker]:
    yield shared
    shared.faults.clear()


@pytest.fixture
def topic(broker: Broker, request: pytest.FixtureRequest) -> str:
    """A topic with two records."""
    name: str = request.node.name
    broker.create_topic(name)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for value in (b"first", b"second"):
        producer.produce(name, value)
    assert producer.flush(PATIENCE_S) == 0
    return name


def fetched(broker: Broker, topic: str) -> ErrorCode:
    """The error that a consumer of offset 0 gets; NONE when it gets records.

    A read that takes longer than remote.fetch.max.wait.ms is answered with neither.
    """
    partition = wire.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000_000)
    topics = [wire.FetchTopic(topic=topic, partitions=[partition])]
    request = wire.FetchRequest(max_bytes=1_000_000, topics=topics, session_epoch=-1)
    with RawClient(broker.port, PATIENCE_S) as client:
        while True:
            answer = client.ask(request, 12, wire.FetchResponse)
            (result,) = answer.responses[0].partitions
            if result.error_code or result.records:
                return ErrorCode(result.error_code)


@pytest.mark.slow
def test_in_an_outage_a_consumer_sees_only_what_it_retries_and_goes_on(
    broker: Broker, topic: str
) -> None:
    broker.offload(topic)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": topic})
    with broker.faults.tier.outage() as fault:
        assert fetched(broker, topic).is_retriable
        consumer.assign([TopicPartition(topic, 0, 0)])
        assert consumer.poll(0.1) is None
        fault.wait(2)
    values: list[bytes | None] = []
    while len(values) < 2:
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        assert message.error() is None
        values.append(message.value())
    consumer.close()
    assert values == [b"first", b"second"]


@pytest.mark.slow
def test_a_segment_that_is_missing_is_missing_for_its_offsets_only(
    broker: Broker, topic: str
) -> None:
    broker.offload(topic)
    with broker.faults.tier.missing(topic, 0, 9):
        assert fetched(broker, topic) is ErrorCode.NONE
    with broker.faults.tier.missing(f"{topic}-other", 0, 1):
        assert fetched(broker, topic) is ErrorCode.NONE


@pytest.mark.slow
def test_the_offsets_of_a_missing_segment_cannot_be_read(broker: Broker, topic: str) -> None:
    broker.offload(topic)
    with broker.faults.tier.missing(topic, 0, 1) as fault:
        assert fetched(broker, topic) is not ErrorCode.NONE
    assert fault.count
    assert fetched(broker, topic) is ErrorCode.NONE


@pytest.mark.slow
def test_a_copy_that_fails_is_made_again(broker: Broker, topic: str) -> None:
    with broker.faults.tier.fail("copy", "throttled", times=2) as fault:
        broker.offload(topic)
    assert fault.count == 2
    assert fetched(broker, topic) is ErrorCode.NONE
    operations = [each for each in broker.faults.tier.operations if each.partition is not None]
    acts = [each.act for each in operations if each.partition == Partition(topic, 0)]
    assert acts.count(TierAct.COPY) == 3
    assert TierAct.READ in acts


@pytest.mark.slow
def test_what_is_copied_is_read_from_the_tier_only_when_it_has_expired_here(
    broker: Broker, topic: str
) -> None:
    broker.copy_to_tier(topic)
    with broker.faults.tier.outage():
        assert fetched(broker, topic) is ErrorCode.NONE
        broker.expire_local(topic)
        assert fetched(broker, topic).is_retriable
    assert fetched(broker, topic) is ErrorCode.NONE


@pytest.mark.slow
def test_a_slow_tier_is_waited_for(broker: Broker, topic: str) -> None:
    broker.offload(topic)
    with broker.faults.tier.slow(0.02) as fault:
        assert fetched(broker, topic) is ErrorCode.NONE
    assert fault.count


@pytest.mark.slow
def test_what_keeps_the_metadata_of_the_tier_meets_no_faults(broker: Broker, topic: str) -> None:
    assert CLIENT_ID in OWN_CLIENTS
    with broker.faults.fail("Produce", "NOT_LEADER_OR_FOLLOWER") as fault:
        broker.offload(topic)
    assert fault.count == 0
    assert fetched(broker, topic) is ErrorCode.NONE


def test_delays_add_up_and_the_first_failure_counts() -> None:
    rules = TierRules()
    everything = frozenset(TierAct)
    second = TierRule(everything, Failure.DENIED)
    for rule in (
        TierRule(everything, seconds=1),
        TierRule(everything, Failure.UNREACHABLE, left=1),
        second,
        TierRule(everything, seconds=2),
    ):
        rules.add(rule)
    operation = TierOperation(TierAct.READ)
    assert rules.decide(operation) == (3, Failure.UNREACHABLE)
    assert second.met == 0
    assert rules.decide(operation) == (3, Failure.DENIED)


def test_what_makes_no_sense_is_reported_at_once() -> None:
    faults = TierFaults()
    with pytest.raises(ValueError, match="no 'write' in a tier: it has copy, read"):
        faults.fail("write")
    with pytest.raises(ValueError, match="No failure is 'gone': they are not found"):
        faults.fail("copy", "gone")
    with pytest.raises(ValueError, match="There is no tier that could fail"):
        faults.outage()
