"""Real clients meet the faults that a test has set, and do what they do against Kafka."""

import asyncio
import time
from collections.abc import Callable, Iterator

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import CommitFailedError
from confluent_kafka import KafkaError, KafkaException, Message, Producer, ThrottleEvent

from tierlog.clients.errors import ErrorCode
from tierlog.testing import Broker
from tierlog.testing.faults.request_faults import RequestFaults
from tierlog.tests import wire
from tierlog.tests.broker_process import RawClient

pytestmark = pytest.mark.slow

PATIENCE_S = 60


@pytest.fixture(scope="module")
def shared() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def broker(shared: Broker) -> Iterator[Broker]:
    yield shared
    shared.faults.clear()


@pytest.fixture
def topic(broker: Broker, request: pytest.FixtureRequest) -> str:
    name: str = request.node.name
    return broker.create_topic(name.replace("[", "-").rstrip("]"))


def producer(broker: Broker, **more: object) -> Producer:
    """One that sends again at once."""
    stated = {"bootstrap.servers": broker.bootstrap_servers, "retry.backoff.ms": 1}
    return Producer({**stated, "retry.backoff.max.ms": 10, "log_level": 0, **more})


def produce(broker: Broker, topic: str, value: bytes, **more: object) -> None:
    """Produce a record; returns once it is acknowledged."""
    with_it = producer(broker, **more)
    with_it.produce(topic, value)
    assert with_it.flush(PATIENCE_S) == 0


def into(errors: list[str]) -> Callable[[KafkaError | None, Message], None]:
    """What notes the error of a record that is not delivered."""
    return lambda error, _: errors.append("" if error is None else error.name())


def values(broker: Broker, topic: str) -> list[bytes | None]:
    return [record.value for record in broker.records(topic)]


def met(faults: RequestFaults, api: str) -> list[tuple[str, ...]]:
    return [each.faults for each in faults.requests if each.api == api][-3:]


def test_an_idempotent_producer_delivers_once_what_failed_twice(broker: Broker, topic: str) -> None:
    with broker.faults.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=2) as fault:
        produce(broker, topic, b"once", **{"enable.idempotence": True})
    assert fault.count == 2
    assert met(broker.faults, "Produce") == [("fail",), ("fail",), ()]
    assert values(broker, topic) == [b"once"]


def test_an_error_that_is_final_reaches_the_application(broker: Broker, topic: str) -> None:
    errors: list[str] = []
    broker.faults.fail("Produce", "TOPIC_AUTHORIZATION_FAILED", topic=topic)
    client = producer(broker)
    client.produce(topic, b"refused", on_delivery=into(errors))
    assert client.flush(PATIENCE_S) == 0
    assert errors == ["TOPIC_AUTHORIZATION_FAILED"]
    other = broker.create_topic(f"{topic}-other")
    produce(broker, other, b"stays")
    assert (values(broker, topic), values(broker, other)) == ([], [b"stays"])


@pytest.mark.parametrize("is_idempotent", [True, False], ids=["idempotent", "not"])
def test_an_answer_that_is_lost_makes_duplicates_only_without_idempotence(
    broker: Broker, topic: str, is_idempotent: bool
) -> None:
    with broker.faults.drop("Produce", when="after") as fault:
        produce(broker, topic, b"sent", **{"enable.idempotence": is_idempotent})
    assert fault.count == 1
    assert values(broker, topic) == ([b"sent"] if is_idempotent else [b"sent", b"sent"])


def test_a_request_that_is_lost_is_written_once_in_any_case(broker: Broker, topic: str) -> None:
    with broker.faults.drop("Produce", when="before", times=2) as fault:
        produce(broker, topic, b"sent", **{"enable.idempotence": False})
    assert fault.count == 2
    assert values(broker, topic) == [b"sent"]


def test_a_broker_that_says_nothing_handles_the_request_when_it_goes_on(
    broker: Broker, topic: str
) -> None:
    client = producer(broker)
    with broker.faults.silence("Produce") as fault:
        client.produce(topic, b"late")
        client.poll(0)
        fault.wait()
        assert values(broker, topic) == []
    assert client.flush(PATIENCE_S) == 0
    assert values(broker, topic) == [b"late"]


def test_a_client_that_gives_up_is_not_served_afterwards(broker: Broker, topic: str) -> None:
    errors: list[str] = []
    client = producer(broker, **{"message.timeout.ms": 200, "socket.timeout.ms": 100})
    with broker.faults.silence("Produce"):
        client.produce(topic, b"lost", on_delivery=into(errors))
        assert client.flush(PATIENCE_S) == 0
    assert errors == ["_MSG_TIMED_OUT"]


def test_a_delay_comes_before_the_request_is_handled(broker: Broker) -> None:
    began = time.monotonic()
    with RawClient(broker.port) as client, broker.faults.delay("ListGroups", 0.05, times=1):
        answer = client.ask(wire.ListGroupsRequest(), 4, wire.ListGroupsResponse)
        assert answer.error_code == 0
    assert time.monotonic() - began >= 0.05


def test_faults_of_one_api_come_together(broker: Broker) -> None:
    broker.faults.delay("ListGroups", 0.01)
    broker.faults.fail("ListGroups", "COORDINATOR_LOAD_IN_PROGRESS", times=1)
    broker.faults.throttle("ListGroups", 0.005)
    with RawClient(broker.port) as client:
        failed = client.ask(wire.ListGroupsRequest(), 4, wire.ListGroupsResponse)
        assert failed.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert failed.throttle_time_ms == 5
        assert client.ask(wire.ListGroupsRequest(), 4, wire.ListGroupsResponse).error_code == 0
        broker.faults.clear()
        assert (
            client.ask(wire.ListGroupsRequest(), 4, wire.ListGroupsResponse).throttle_time_ms == 0
        )
    assert met(broker.faults, "ListGroups") == [
        ("delay", "fail", "throttle"),
        ("delay", "throttle"),
        (),
    ]


def test_a_client_hears_that_it_is_throttled(broker: Broker, topic: str) -> None:
    events: list[ThrottleEvent] = []
    client = producer(broker, throttle_cb=events.append)
    with broker.faults.throttle("Produce", 0.02, times=1):
        client.produce(topic, b"slowly")
        assert client.flush(PATIENCE_S) == 0
    client.poll(0)
    assert [event.throttle_time for event in events] == [0.02]
    assert values(broker, topic) == [b"slowly"]


def fetch(topic: str, session_id: int = 0, session_epoch: int = -1) -> wire.FetchRequest:
    partitions = [wire.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=100_000)]
    topics = [wire.FetchTopic(topic=topic, partitions=partitions)] if session_epoch <= 0 else []
    return wire.FetchRequest(
        max_bytes=100_000, topics=topics, session_id=session_id, session_epoch=session_epoch
    )


def test_records_come_whole_with_a_throttle_time(broker: Broker, topic: str) -> None:
    produce(broker, topic, b"x" * 50_000)
    with RawClient(broker.port) as client:
        usual = client.ask(fetch(topic), 12, wire.FetchResponse)
        broker.faults.throttle("Fetch", 0.001)
        throttled = client.ask(fetch(topic), 12, wire.FetchResponse)
    assert (usual.throttle_time_ms, throttled.throttle_time_ms) == (0, 1)
    assert usual.responses == throttled.responses


def test_a_session_need_not_name_the_topic_that_fails(broker: Broker, topic: str) -> None:
    with RawClient(broker.port) as client:
        first = client.ask(fetch(topic, session_epoch=0), 12, wire.FetchResponse)
        other = client.ask(fetch("elsewhere", session_epoch=0), 12, wire.FetchResponse)
        broker.faults.fail("Fetch", "NOT_LEADER_OR_FOLLOWER", topic=topic)
        failed = client.ask(fetch(topic, first.session_id, 1), 12, wire.FetchResponse)
        assert failed.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert client.ask(fetch("x", other.session_id, 1), 12, wire.FetchResponse).error_code == 0
        whole = client.ask(fetch(topic), 12, wire.FetchResponse)
        assert whole.error_code == 0
        (partition,) = whole.responses[0].partitions
        assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_metadata_that_fails_still_has_the_brokers(broker: Broker, topic: str) -> None:
    request = wire.MetadataRequest(topics=[wire.MetadataRequestTopic(name=topic)])
    with RawClient(broker.port) as client, broker.faults.fail("Metadata", 5, times=1):
        answer = client.ask(request, 9, wire.MetadataResponse)
        assert len(answer.brokers) == 1
        (described,) = answer.topics
        assert (described.error_code, described.name) == (ErrorCode.LEADER_NOT_AVAILABLE, topic)
        assert client.ask(request, 9, wire.MetadataResponse).topics[0].error_code == 0


def test_a_produce_that_expects_no_answer_fails_by_its_connection(
    broker: Broker, topic: str
) -> None:
    client = producer(broker, acks=0)
    with broker.faults.fail("Produce", "MESSAGE_TOO_LARGE", times=1) as fault:
        client.produce(topic, b"gone")
        client.flush(PATIENCE_S)
        fault.wait()
    client.produce(topic, b"stays")
    assert client.flush(PATIENCE_S) == 0
    assert fault.count == 1


async def start_over(broker: Broker, topic: str) -> None:
    """Produce while the topic has no leader, and commit again after a commit that is refused."""
    servers = broker.bootstrap_servers
    async with AIOKafkaProducer(bootstrap_servers=servers, retry_backoff_ms=1) as client:
        with broker.faults.fail("Metadata", "LEADER_NOT_AVAILABLE", times=2):
            await client.send_and_wait(topic, b"first")  # pyright: ignore[reportUnknownMemberType] # published without all types
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=servers,
        group_id=topic,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        retry_backoff_ms=1,
    )
    async with consumer:
        assert (await consumer.getone()).value == b"first"  # pyright: ignore[reportUnknownMemberType] # published without all types
        with broker.faults.fail("OffsetCommit", "ILLEGAL_GENERATION", times=1):
            with pytest.raises(CommitFailedError):
                await consumer.commit()  # pyright: ignore[reportUnknownMemberType] # published without all types
        await consumer.seek_to_beginning()  # pyright: ignore[reportUnknownMemberType] # published without all types
        assert (await consumer.getone()).value == b"first"  # pyright: ignore[reportUnknownMemberType] # published without all types
        await consumer.commit()  # pyright: ignore[reportUnknownMemberType] # published without all types
        assert await consumer.committed(TopicPartition(topic, 0)) == 1  # pyright: ignore[reportUnknownMemberType] # published without all types


@pytest.mark.long
def test_aiokafka_starts_over_when_its_group_has_lost_it(broker: Broker, topic: str) -> None:
    asyncio.run(start_over(broker, topic))


def test_the_broker_is_the_same_behind_its_faults_when_it_starts_again(
    broker: Broker, topic: str
) -> None:
    fault = broker.faults.fail("Produce", "NOT_LEADER_OR_FOLLOWER", topic=topic, times=1)
    broker.restart()
    produce(broker, topic, b"again")
    assert fault.count == 1
    assert values(broker, topic) == [b"again"]


@pytest.mark.parametrize(
    ("name", "error", "mention"),
    [
        ("Prodcue", "NOT_LEADER_OR_FOLLOWER", "no API 'Prodcue'; did you mean 'Produce'"),
        ("Produce", "NOT_LEADER", "no error 'NOT_LEADER'; did you mean '"),
        ("Produce", 0, "NONE is not an error"),
        ("Produce", 4711, "There is no error 4711"),
    ],
)
def test_a_wrong_name_is_reported_at_once(name: str, error: str | int, mention: str) -> None:
    with pytest.raises(ValueError, match=mention):
        RequestFaults().fail(name, error)


def test_what_makes_no_sense_is_reported_at_once() -> None:
    faults = RequestFaults()
    with pytest.raises(ValueError, match="Heartbeat requests name no topic"):
        faults.silence("Heartbeat", topic="orders")
    with pytest.raises(ValueError, match="-1 s is not between 0 and 3600 s"):
        faults.delay("Produce", -1)
    with pytest.raises(ValueError, match="at least once, not 0 times"):
        faults.drop("Produce", times=0)
    with pytest.raises(ValueError, match='"before" or "after", not \'never\''):
        faults.drop("Produce", when="never")  # type: ignore[arg-type]  # a user's mistake


def test_waiting_for_what_does_not_come_ends_with_a_sentence() -> None:
    fault = RequestFaults().delay("Produce", 2)
    with pytest.raises(TimeoutError, match="met 0 times, not 1: Produce is delayed by 2 s"):
        fault.wait(timeout_s=0.01)


def test_a_consumer_sees_an_authorization_error(broker: Broker, topic: str) -> None:
    client = producer(broker)
    with broker.faults.fail("Metadata", "TOPIC_AUTHORIZATION_FAILED"):
        described = client.list_topics(topic, timeout=PATIENCE_S).topics[topic]
        assert described.error is not None
        assert described.error.name() == "TOPIC_AUTHORIZATION_FAILED"
    with broker.faults.drop("ApiVersions", times=None), pytest.raises(KafkaException):
        producer(broker).list_topics(topic, timeout=0.3)
