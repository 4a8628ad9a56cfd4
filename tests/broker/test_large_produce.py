"""A Produce request of many partitions: appended in parts, between which others have their turn."""

import asyncio
from collections.abc import Generator
from pathlib import Path

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.clients.record.batch import Record, batches
from tierlog.clients.record.builder import BatchFields, build_batch
from tierlog.tests import wire

from ..broker_process import BrokerThread, RawClient
from ..waiting import wait_until

TIME = 1_700_000_000_000
PARTITIONS = 2_000


def batch_of(count: int, value_bytes: int = 0) -> memoryview:
    """Records of changing sizes, which are looked at one by one."""
    made = [Record(0, TIME, b"k", b"v" * (value_bytes + each % 5)) for each in range(count)]
    return memoryview(build_batch(made))


def refused(client: RawClient) -> list[int]:
    answer = client.ask(production([batch_of(1)] * PARTITIONS), 10, wire.ProduceResponse)
    (topic,) = answer.responses
    return [each.index for each in topic.partition_responses if each.error_code]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def broker(directory: Path) -> Generator[BrokerThread]:
    properties = {"transaction.state.log.num.partitions": "1"}
    with BrokerThread(directory, properties) as broker, RawClient(broker.port) as client:
        topic = wire.CreatableTopic(name="t", num_partitions=PARTITIONS, replication_factor=1)
        creation = wire.CreateTopicsRequest(topics=[topic], timeout_ms=60_000)
        assert client.ask(creation, 7, wire.CreateTopicsResponse).topics[0].error_code == 0
        wait_until(lambda: len([*directory.glob("t-*/*.log")]) == PARTITIONS, 60, "all logs")
        # The last one may not be led yet.
        wait_until(lambda: not refused(client), 60, "all leaders")
        yield broker


def production(batches: list[memoryview], acks: int = -1) -> wire.ProduceRequest:
    data = [wire.PartitionProduceData(index=i, records=each) for i, each in enumerate(batches)]
    topic = wire.TopicProduceData(name="t", partition_data=data)
    return wire.ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=[topic])


async def most_appended_in_a_turn(logs: list[Path]) -> int:
    """Look at these logs in every turn of the loop, until each has grown."""
    sizes = [log.stat().st_size for log in logs]
    most = grown = 0
    while grown < len(logs):
        await asyncio.sleep(0)
        now = sum(log.stat().st_size > size for log, size in zip(logs, sizes, strict=True))
        most, grown = max(most, now - grown), now
    return most


def produce(
    broker: BrokerThread, directory: Path, batches: list[memoryview]
) -> tuple[int, list[wire.PartitionProduceResponse]]:
    """The most partitions that were appended to in one turn, and the answer."""
    logs = [directory / f"t-{each}" / f"{0:020}.log" for each in range(len(batches))]
    watching = broker.begin(most_appended_in_a_turn(logs))
    with RawClient(broker.port) as client:
        answer = client.ask(production(batches), 10, wire.ProduceResponse)
    return watching.result(60), answer.responses[0].partition_responses


@pytest.mark.parametrize(
    ("batches", "most"),
    [
        ([batch_of(1)] * PARTITIONS, 300),
        ([batch_of(5_000)] * 40, 4),
        ([batch_of(1, 900_000)] * 40, 10),
    ],
    ids=["many partitions", "many records", "many bytes"],
)
def test_others_have_their_turn_between_parts_of_it(
    broker: BrokerThread, directory: Path, batches: list[memoryview], most: int
) -> None:
    appended, answers = produce(broker, directory, batches)
    assert appended <= most
    assert [each.index for each in answers] == list(range(len(batches)))
    assert {each.error_code for each in answers} == {ErrorCode.NONE}


def test_each_partition_is_answered_for_itself(broker: BrokerThread) -> None:
    batches = [batch_of(1) for _ in range(PARTITIONS)]
    batches[7] = memoryview(bytearray(batches[7]))
    batches[7][-1] ^= 0xFF
    batches += [batch_of(1)] * 5
    with RawClient(broker.port) as client:
        answer = client.ask(production(batches), 10, wire.ProduceResponse)
        codes = [each.error_code for each in answer.responses[0].partition_responses]
        expected = [ErrorCode.NONE] * PARTITIONS + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 5
        expected[7] = ErrorCode.CORRUPT_MESSAGE
        assert codes == expected
        # Nothing is answered without acks, and a failure ends the connection.
        client.send(production(batches[:7] * 100, acks=0), 10)
        answer = client.ask(production(batches[:1]), 10, wire.ProduceResponse)
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
        client.send(production(batches, acks=0), 10)
        assert client.is_closed()


def test_more_partitions_than_one_request_may_name(tmp_path: Path) -> None:
    with BrokerThread(tmp_path, {"tierlog.request.elements.max": "3000"}) as broker:
        with RawClient(broker.port) as client:
            allowed = production([memoryview(b"")] * 2_999)
            answer = client.ask(allowed, 10, wire.ProduceResponse)
            assert len(answer.responses[0].partition_responses) == 2_999
        with RawClient(broker.port) as client:
            client.send(production([memoryview(b"")] * 3_000), 10)
            assert client.is_closed()


def test_a_transaction_takes_all_partitions_of_a_request_with_one_write(
    broker: BrokerThread, directory: Path
) -> None:
    """Appended in parts, and added to the transaction at once, as by Kafka."""
    with RawClient(broker.port) as client:
        producer = begin_transaction(client, "many")
        log = directory / "__transaction_state-0" / f"{0:020}.log"
        before = len([*batches(log.read_bytes())])
        fields = BatchFields(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=0,
            is_transactional=True,
        )
        batch = memoryview(build_batch([Record(0, TIME, b"k", b"v")], **fields))
        request = production([batch] * PARTITIONS)
        request.transactional_id = "many"
        answer = client.ask(request, 12, wire.ProduceResponse)
        (topic,) = answer.responses
        assert {each.error_code for each in topic.partition_responses} == {ErrorCode.NONE}
        assert len([*batches(log.read_bytes())]) == before + 1
        ending = wire.EndTxnRequest(
            transactional_id="many",
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            committed=True,
        )
        assert client.ask(ending, 5, wire.EndTxnResponse).error_code == ErrorCode.NONE
        # Of an epoch that is over.
        answer = client.ask(request, 12, wire.ProduceResponse)
        (topic,) = answer.responses
        codes = {each.error_code for each in topic.partition_responses}
        assert codes == {ErrorCode.INVALID_PRODUCER_EPOCH}


def begin_transaction(client: RawClient, name: str) -> wire.InitProducerIdResponse:
    coordinator = wire.FindCoordinatorRequest(key=name, key_type=1)
    assert client.ask(coordinator, 2, wire.FindCoordinatorResponse).error_code == ErrorCode.NONE
    begin = wire.InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
    producer = client.ask(begin, 4, wire.InitProducerIdResponse)
    assert producer.error_code == ErrorCode.NONE
    return producer
