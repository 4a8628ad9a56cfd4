"""A record that is there twice is held against its client where that began a new epoch."""

from confluent_kafka import KafkaError, Message, Producer

from tierlog.bench.harness.checker.acknowledged import (
    Twice,
    Violation,
    Wrong,
    parse_answers,
    violations,
)
from tierlog.bench.harness.cluster_runs.batch_producers import blame_clients
from tierlog.bench.harness.cluster_runs.durability import read_back
from tierlog.testing import Broker

_TRIES = 20


def test_librdkafka_writes_a_batch_again_in_a_new_epoch() -> None:
    """Each answer is one that Kafka gives: a leader dies and takes an answer along, the next has
    too few replicas in sync for a moment.

    It takes three batches in flight; a busy machine may send them one by one, so that there are
    several tries.
    """
    with Broker() as broker:
        wrong: list[Violation] = []
        topic = ""
        for attempt in range(_TRIES):
            topic = f"orders-{attempt}"
            wrong = violations(
                parse_answers(_produce_through_a_failover(broker, topic)),
                read_back(broker.bootstrap_servers, topic, 1),
            )
            if wrong:
                break
        assert [each.wrong for each in wrong] == [Wrong.DOUBLED] * 2
        blamed = blame_clients(broker.bootstrap_servers, topic, wrong)
        assert [each.wrong for each in blamed] == [Wrong.DOUBLED_BY_CLIENT] * 2
        assert "wrote it in its epoch 0" in blamed[0].text
        assert "in its epoch 1." in blamed[0].text


def _produce_through_a_failover(broker: Broker, topic: str) -> list[str]:
    """Produce nine records, and return the producer's answers, a line each."""
    broker.create_topic(topic)
    producer = Producer({**broker.config(), "enable.idempotence": True, "batch.num.messages": 2})
    answers: list[str] = []

    def answered(error: KafkaError | None, record: Message) -> None:
        number = int(record.value() or b"")
        says = f"f 0 {number} {error}" if error else f"a 0 {number} {record.offset()} 0"
        answers.append(says)

    producer.produce(topic, b"0")
    assert producer.flush(60) == 0
    lost = broker.faults.drop("Produce", when="after", times=1)
    refused = broker.faults.fail("Produce", "NOT_ENOUGH_REPLICAS", times=2)
    with broker.faults.delay("Produce", 0.2):
        for number in range(1, 9):
            producer.produce(topic, str(number).encode(), on_delivery=answered)
        assert producer.flush(60) == 0
    assert (lost.count, refused.count) == (1, 2)
    return answers


def test_a_batch_that_is_there_twice_in_one_epoch_is_the_brokers_fault() -> None:
    with Broker() as broker:
        broker.create_topic("orders")
        producer = Producer({**broker.config(), "enable.idempotence": True})
        for _ in range(2):
            producer.produce("orders", b"0")
            assert producer.flush(60) == 0
        twice = Violation(Wrong.DOUBLED, "Twice.", Twice(0, 0, 1))
        (blamed,) = blame_clients(broker.bootstrap_servers, "orders", [twice])
        assert blamed.wrong is Wrong.DOUBLED


def test_nothing_is_read_where_nothing_is_there_twice() -> None:
    lost = Violation(Wrong.LOST, "Record 1 is lost.")
    assert blame_clients("127.0.0.1:1", "orders", [lost]) == [lost]
