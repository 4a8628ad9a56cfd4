"""Offsets of thousands of partitions, committed at once: prepared in slices, in one batch."""

import asyncio
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.coordinator.group import prepared_commit
from tierlog.coordinator.group_records import CommittedOffset, GroupRecord, OffsetKey, offset_record
from tierlog.tests import wire

from ..broker_process import BrokerThread, RawClient

TOPIC = "topic"
MANY = 10_000
Commit = Callable[[RawClient, int], set[int]]


def prepare(client: RawClient) -> None:
    """Make the topic, and those in which groups and transactions are kept."""
    topic = wire.CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
    client.ask(wire.CreateTopicsRequest(topics=[topic]), 7, wire.CreateTopicsResponse)
    for kind in (0, 1):
        request = wire.FindCoordinatorRequest(key="group", key_type=kind)
        assert client.ask(request, 2, wire.FindCoordinatorResponse).error_code == ErrorCode.NONE


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Generator[BrokerThread]:
    properties = {"transaction.state.log.num.partitions": "1"}
    with (
        BrokerThread(tmp_path_factory.mktemp("data"), properties) as broker,
        RawClient(broker.port) as client,
    ):
        prepare(client)
        yield broker


def committed(client: RawClient, count: int) -> set[int]:
    """The errors of a commit of that many partitions."""
    partitions = [wire.OffsetCommitRequestPartition(committed_offset=each) for each in range(count)]
    topic = wire.OffsetCommitRequestTopic(name=TOPIC, partitions=partitions)
    request = wire.OffsetCommitRequest(group_id="group", topics=[topic])
    answer = client.ask(request, 9, wire.OffsetCommitResponse)
    assert len(answer.topics[0].partitions) == count
    return {each.error_code for each in answer.topics[0].partitions}


def committed_in_a_transaction(client: RawClient, count: int) -> set[int]:
    """The same of a transaction."""
    begin = wire.InitProducerIdRequest(transactional_id="group", transaction_timeout_ms=60_000)
    producer = client.ask(begin, 4, wire.InitProducerIdResponse)
    while producer.error_code == ErrorCode.CONCURRENT_TRANSACTIONS:
        # The one before is being aborted.
        producer = client.ask(begin, 4, wire.InitProducerIdResponse)
    assert producer.error_code == ErrorCode.NONE
    partitions = [
        wire.TxnOffsetCommitRequestPartition(committed_offset=each) for each in range(count)
    ]
    request = wire.TxnOffsetCommitRequest(
        transactional_id="group",
        group_id="group",
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        topics=[wire.TxnOffsetCommitRequestTopic(name=TOPIC, partitions=partitions)],
    )
    answer = client.ask(request, 5, wire.TxnOffsetCommitResponse)
    assert len(answer.topics[0].partitions) == count
    return {each.error_code for each in answer.topics[0].partitions}


async def most_in_a_turn(made: list[OffsetKey]) -> int:
    """Look in every turn of the loop how many records were made, until all are."""
    most = before = 0
    while before < MANY:
        await asyncio.sleep(0)
        most, before = max(most, len(made) - before), len(made)
    return most


@pytest.mark.parametrize("commit", [committed, committed_in_a_transaction])
def test_others_have_their_turn_while_a_commit_is_prepared(
    broker: BrokerThread, monkeypatch: pytest.MonkeyPatch, commit: Commit
) -> None:
    made: list[OffsetKey] = []

    def counted(key: OffsetKey, offset: CommittedOffset) -> GroupRecord:
        made.append(key)
        return offset_record(key, offset)

    monkeypatch.setattr(prepared_commit, "offset_record", counted)
    watching = broker.begin(most_in_a_turn(made))
    with RawClient(broker.port) as client:
        assert commit(client, MANY) == {ErrorCode.NONE}
    assert watching.result(60) <= 300


@pytest.mark.parametrize("commit", [committed, committed_in_a_transaction])
def test_more_than_a_batch_may_hold_is_refused_as_a_whole(tmp_path: Path, commit: Commit) -> None:
    """Kafka answers so, too: the group's partition takes the records as one batch or not at all."""
    small = {
        "transaction.state.log.num.partitions": "1",
        "offsets.topic.num.partitions": "1",
        "message.max.bytes": "100000",
    }
    with BrokerThread(tmp_path, small) as broker, RawClient(broker.port) as client:
        prepare(client)
        assert commit(client, 1_000) == {ErrorCode.NONE}
        assert commit(client, 5_000) == {ErrorCode.UNKNOWN_SERVER_ERROR}
        assert commit(client, 1_000) == {ErrorCode.NONE}
