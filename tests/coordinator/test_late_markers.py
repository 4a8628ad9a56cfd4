"""A late marker must not end the next transaction of its producer (KIP-890, KIP-1228)."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any, TypeAlias

import pytest

from tierlog.broker.request import transaction_membership
from tierlog.clients.errors import ErrorCode
from tierlog.clients.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from tierlog.clients.record.batch import Record
from tierlog.clients.record.builder import build_batch
from tierlog.tests import wire

from ..broker_process import BrokerThread, RawClient
from ..waiting import wait_until

Loose: TypeAlias = Any
"""What a wrapped function gets or gives, which is handed on."""

FIRST_OPENING_TRANSACTIONS = 12
TRANSACTION_VERSION_WITH_EPOCHS = 2


def marker_error(client: RawClient, producer_id: int, epoch: int) -> int:
    """The answer to a marker that aborts what the producer has open in that epoch."""
    marker = wire.WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=False,
        topics=[wire.WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
        coordinator_epoch=0,
        transaction_version=TRANSACTION_VERSION_WITH_EPOCHS,
    )
    answer = client.ask(
        wire.WriteTxnMarkersRequest(markers=[marker]), 2, wire.WriteTxnMarkersResponse
    )
    return answer.markers[0].topics[0].partitions[0].error_code


def open_since(client: RawClient) -> list[int]:
    """Where the open transactions of the partition begin; -1 for a producer without one."""
    topics = [TopicRequest(name="t", partition_indexes=[0])]
    answer = client.ask(DescribeProducersRequest(topics=topics), 0, DescribeProducersResponse)
    producers = answer.topics[0].partitions[0].active_producers
    return [each.current_txn_start_offset for each in producers]


def begun(client: RawClient) -> tuple[int, int]:
    """A topic, and the id and epoch of a producer that may write to it."""
    topics = [wire.CreatableTopic(name="t", num_partitions=1, replication_factor=1)]
    client.ask(
        wire.CreateTopicsRequest(topics=topics, timeout_ms=9_000), 7, wire.CreateTopicsResponse
    )
    begin = wire.InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000)
    find = wire.FindCoordinatorRequest(key_type=1, coordinator_keys=["x"])
    client.ask(find, 4, wire.FindCoordinatorResponse)
    started: list[wire.InitProducerIdResponse] = []

    def has_started() -> bool:
        started.append(client.ask(begin, 5, wire.InitProducerIdResponse))
        return not started[-1].error_code

    wait_until(has_started, 30, "the coordinator of the transactional id")
    return started[-1].producer_id, started[-1].producer_epoch


def batch_of(producer_id: int, epoch: int) -> wire.ProduceRequest:
    """The first batch of a producer's transaction."""
    batch = build_batch(
        [Record(0, 1_700_000_000_000, b"key", b"value", ())],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=0,
        is_transactional=True,
    )
    data = wire.PartitionProduceData(index=0, records=bytes(batch))
    return wire.ProduceRequest(
        transactional_id="x",
        acks=-1,
        timeout_ms=9_000,
        topic_data=[wire.TopicProduceData(name="t", partition_data=[data])],
    )


def test_a_late_marker_leaves_the_transaction_that_is_open_alone(tmp_path: Path) -> None:
    properties = {"transaction.state.log.num.partitions": "1"}
    with BrokerThread(tmp_path, properties) as broker, RawClient(broker.port) as client:
        producer_id, epoch = begun(client)
        produce = batch_of(producer_id, epoch)
        produced = client.ask(produce, FIRST_OPENING_TRANSACTIONS, wire.ProduceResponse)
        assert produced.responses[0].partition_responses[0].error_code == 0
        assert open_since(client) == [0]

        # The transaction before ended in this epoch; the coordinator has raised it since.
        late = marker_error(client, producer_id, epoch)
        assert late == ErrorCode.INVALID_PRODUCER_EPOCH
        assert open_since(client) == [0]

        assert marker_error(client, producer_id, epoch + 1) == 0
        assert open_since(client) == [-1]


def test_a_batch_whose_question_a_marker_has_overtaken_asks_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The marker is that of the transaction before, which its coordinator has just completed."""
    join = transaction_membership.join_transaction
    asked, marked, answers = Event(), Event(), list[Loose]()

    def late(*arguments: Loose) -> Loose:
        """The answer to the first question comes once the marker is there."""
        if asked.is_set():
            answers.append("second")
            return join(*arguments)
        asked.set()
        loop = asyncio.get_running_loop()
        later: asyncio.Future[Loose] = loop.create_future()

        def look() -> None:
            if not marked.is_set():
                loop.call_later(0.01, look)
                return
            answer = join(*arguments)
            if isinstance(answer, asyncio.Future):
                answer.add_done_callback(lambda done: later.set_result(done.result()))
            else:
                later.set_result(answer)

        look()
        return later

    monkeypatch.setattr(transaction_membership, "join_transaction", late)
    properties = {"transaction.state.log.num.partitions": "1"}
    with BrokerThread(tmp_path, properties) as broker, RawClient(broker.port) as client:
        producer_id, epoch = begun(client)
        with RawClient(broker.port) as coordinator, ThreadPoolExecutor(1) as other:
            produced = other.submit(
                client.ask,
                batch_of(producer_id, epoch),
                FIRST_OPENING_TRANSACTIONS,
                wire.ProduceResponse,
            )
            assert asked.wait(30)
            assert marker_error(coordinator, producer_id, epoch) == 0
            marked.set()
            answer = produced.result(30)
        (result,) = answer.responses[0].partition_responses
        assert (result.error_code, answers) == (0, ["second"])
        assert open_since(client) == [1]


def test_a_batch_older_than_its_partition_knows_is_refused_without_asking_anybody(
    tmp_path: Path,
) -> None:
    """The coordinator knows the transactional id no more, or by the next producer id already."""
    producer_id, epoch = 4_711, 6
    with BrokerThread(tmp_path) as broker, RawClient(broker.port) as client:
        topics = [wire.CreatableTopic(name="t", num_partitions=1, replication_factor=1)]
        client.ask(
            wire.CreateTopicsRequest(topics=topics, timeout_ms=9_000), 7, wire.CreateTopicsResponse
        )
        wait_until(lambda: not marker_error(client, producer_id, epoch + 1), 30, "the partition")
        produce = batch_of(producer_id, epoch)
        for version in (FIRST_OPENING_TRANSACTIONS - 1, FIRST_OPENING_TRANSACTIONS):
            answer = client.ask(produce, version, wire.ProduceResponse)
            (result,) = answer.responses[0].partition_responses
            assert result.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
            assert "is 6, which is smaller than the last seen epoch 7" in (
                result.error_message or ""
            )
