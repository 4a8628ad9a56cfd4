"""A late marker must not end the next transaction of its producer (KIP-890, KIP-1228)."""

from pathlib import Path

from tierlog.clients.errors import ErrorCode
from tierlog.clients.protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tierlog.clients.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from tierlog.clients.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from tierlog.clients.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from tierlog.clients.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tierlog.clients.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tierlog.clients.record.batch import Record
from tierlog.clients.record.builder import build_batch

from ...broker_process import BrokerThread, RawClient
from ...waiting import wait_until

FIRST_OPENING_TRANSACTIONS = 12
TRANSACTION_VERSION_WITH_EPOCHS = 2


def marker_error(client: RawClient, producer_id: int, epoch: int) -> int:
    """The answer to a marker that aborts what the producer has open in that epoch."""
    marker = WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
        coordinator_epoch=0,
        transaction_version=TRANSACTION_VERSION_WITH_EPOCHS,
    )
    answer = client.ask(WriteTxnMarkersRequest(markers=[marker]), 2, WriteTxnMarkersResponse)
    return answer.markers[0].topics[0].partitions[0].error_code


def open_since(client: RawClient) -> list[int]:
    """Where the open transactions of the partition begin; -1 for a producer without one."""
    topics = [TopicRequest(name="t", partition_indexes=[0])]
    answer = client.ask(DescribeProducersRequest(topics=topics), 0, DescribeProducersResponse)
    producers = answer.topics[0].partitions[0].active_producers
    return [each.current_txn_start_offset for each in producers]


def test_a_late_marker_leaves_the_transaction_that_is_open_alone(tmp_path: Path) -> None:
    properties = {"transaction.state.log.num.partitions": "1"}
    with BrokerThread(tmp_path, properties) as broker, RawClient(broker.port) as client:
        topics = [CreatableTopic(name="t", num_partitions=1, replication_factor=1)]
        client.ask(CreateTopicsRequest(topics=topics, timeout_ms=9_000), 7, CreateTopicsResponse)
        begin = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000)
        find = FindCoordinatorRequest(key_type=1, coordinator_keys=["x"])
        client.ask(find, 4, FindCoordinatorResponse)
        started: list[InitProducerIdResponse] = []

        def has_started() -> bool:
            started.append(client.ask(begin, 5, InitProducerIdResponse))
            return not started[-1].error_code

        wait_until(has_started, 30, "the coordinator of the transactional id")
        producer_id, epoch = started[-1].producer_id, started[-1].producer_epoch
        batch = build_batch(
            [Record(0, 1_700_000_000_000, b"key", b"value", ())],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=0,
            is_transactional=True,
        )
        data = PartitionProduceData(index=0, records=bytes(batch))
        produce = ProduceRequest(
            transactional_id="x",
            acks=-1,
            timeout_ms=9_000,
            topic_data=[TopicProduceData(name="t", partition_data=[data])],
        )
        produced = client.ask(produce, FIRST_OPENING_TRANSACTIONS, ProduceResponse)
        assert produced.responses[0].partition_responses[0].error_code == 0
        assert open_since(client) == [0]

        # The transaction before ended in this epoch; the coordinator has raised it since.
        late = marker_error(client, producer_id, epoch)
        assert late == ErrorCode.INVALID_PRODUCER_EPOCH
        assert open_since(client) == [0]

        assert marker_error(client, producer_id, epoch + 1) == 0
        assert open_since(client) == [-1]


def test_a_batch_older_than_its_partition_knows_is_refused_without_asking_anybody(
    tmp_path: Path,
) -> None:
    """The coordinator knows the transactional id no more, or by the next producer id already."""
    producer_id, epoch = 4_711, 6
    with BrokerThread(tmp_path) as broker, RawClient(broker.port) as client:
        topics = [CreatableTopic(name="t", num_partitions=1, replication_factor=1)]
        client.ask(CreateTopicsRequest(topics=topics, timeout_ms=9_000), 7, CreateTopicsResponse)
        wait_until(lambda: not marker_error(client, producer_id, epoch + 1), 30, "the partition")
        batch = build_batch(
            [Record(0, 1_700_000_000_000, b"key", b"value", ())],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=0,
            is_transactional=True,
        )
        data = PartitionProduceData(index=0, records=bytes(batch))
        topic = TopicProduceData(name="t", partition_data=[data])
        produce = ProduceRequest(
            transactional_id="x", acks=-1, timeout_ms=9_000, topic_data=[topic]
        )
        for version in (FIRST_OPENING_TRANSACTIONS - 1, FIRST_OPENING_TRANSACTIONS):
            answer = client.ask(produce, version, ProduceResponse)
            (result,) = answer.responses[0].partition_responses
            assert result.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
            assert "is 6, which is smaller than the last seen epoch 7" in (
                result.error_message or ""
            )
