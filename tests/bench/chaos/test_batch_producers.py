"""A record that is there twice is held against its client where that began a new epoch."""

from confluent_kafka import KafkaError, Message, Producer

from tierlog.bench.chaos.acknowledged import Twice, Violation, Wrong, parse_answers, violations
from tierlog.bench.chaos.batch_producers import blame_clients
from tierlog.bench.chaos.durability import read_back
from tierlog.testing import Broker


def test_librdkafka_writes_a_batch_again_in_a_new_epoch() -> None:
    """Each answer is one that Kafka gives: a leader dies and takes an answer along, the next has
    too few replicas in sync for a moment."""
    with Broker() as broker:
        broker.create_topic("orders")
        producer = Producer(
            {**broker.config(), "enable.idempotence": True, "batch.num.messages": 2}
        )
        answers: list[str] = []

        def answered(error: KafkaError | None, record: Message) -> None:
            number = int(record.value() or b"")
            answers.append(
                f"f 0 {number} {error}" if error else f"a 0 {number} {record.offset()} 0"
            )

        producer.produce("orders", b"0")
        assert producer.flush(60) == 0
        lost = broker.faults.drop("Produce", when="after", times=1)
        refused = broker.faults.fail("Produce", "NOT_ENOUGH_REPLICAS", times=2)
        for number in range(1, 9):
            producer.produce("orders", str(number).encode(), on_delivery=answered)
        assert producer.flush(60) == 0
        assert (lost.count, refused.count) == (1, 2)
        bootstrap = broker.bootstrap_servers
        wrong = violations(parse_answers(answers), read_back(bootstrap, "orders", 1))
        assert [each.wrong for each in wrong] == [Wrong.DOUBLED] * 2
        blamed = blame_clients(bootstrap, "orders", wrong)
        assert [each.wrong for each in blamed] == [Wrong.DOUBLED_BY_CLIENT] * 2
        assert "wrote it in its epoch 0" in blamed[0].text
        assert "in its epoch 1." in blamed[0].text


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
