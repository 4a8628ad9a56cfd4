"""Idempotent and transactional producers as fetches and answers see them."""

import asyncio

from tierlog.clients.errors import ErrorCode
from tierlog.clients.protocol.messages.fetch import AbortedTransaction
from tierlog.clients.record.control import ControlRecordType
from tierlog.clients.topic_partition import TopicPartition
from tierlog.replication.leader.offset_lookup import OffsetQuery
from tierlog.replication.partition.append_data import AppendEntry, AppendRequest
from tierlog.replication.partition.fetch_data import FetchParams
from tierlog.storage.log.fetch_data import FetchIsolation
from tierlog.storage.producer.producer_entry import AppendOrigin
from tierlog.tests.replication.broker_node import BrokerNode, broker_node
from tierlog.tests.replication.node import create
from tierlog.tests.simulation.disk import SimulatedDisk
from tierlog.tests.simulation.files import SimulatedFiles
from tierlog.tests.simulation.loop import SimulatedLoop
from tierlog.tests.storage.log_home import idempotent, marker

T0 = TopicPartition("t", 0)
COMMITTED = FetchIsolation.TXN_COMMITTED


def append(
    node: BrokerNode, batch: memoryview, origin: AppendOrigin = AppendOrigin.CLIENT
) -> AppendEntry:
    outcome = node.replicas.append_records(AppendRequest([AppendEntry(T0, batch)], origin=origin))
    assert isinstance(outcome, list)
    return outcome[0]


async def test_a_retried_batch_is_answered_with_its_first_offsets_and_written_once(
    loop: SimulatedLoop,
) -> None:
    async with broker_node(loop, SimulatedFiles(SimulatedDisk())) as node:
        await create(node.controller, "t")
        first = append(node, idempotent(0, 3))
        append(node, idempotent(3, 2))
        again = append(node, idempotent(0, 3))
        assert (first.error, first.base_offset, first.last_offset) == (ErrorCode.NONE, 0, 2)
        assert (again.error, again.base_offset, again.last_offset) == (ErrorCode.NONE, 0, 2)
        assert node.replicas.partition(T0).log.log_end_offset == 5
        gap = append(node, idempotent(9))
        assert gap.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert gap.error_message


async def test_a_read_committed_fetch_wakes_when_the_transaction_ends(loop: SimulatedLoop) -> None:
    async with broker_node(loop, SimulatedFiles(SimulatedDisk())) as node:
        await create(node.controller, "t")
        params = FetchParams(max_wait_ms=60_000, isolation=COMMITTED)
        outcome = node.replicas.leader_fetch.fetch(params, [node.asked("t", 0)])
        assert isinstance(outcome, asyncio.Future)
        append(node, idempotent(0, 2, txn=True))
        await asyncio.sleep(1)
        assert not outcome.done()
        uncommitted = node.fetch_now(node.asked("t", 0))[0]
        assert (uncommitted.high_watermark, uncommitted.last_stable_offset) == (2, 0)
        assert uncommitted.records
        append(node, marker(ControlRecordType.ABORT), AppendOrigin.COORDINATOR)
        (result,) = await outcome
        assert result.last_stable_offset == 3
        assert result.aborted_transactions == [AbortedTransaction(producer_id=7)]


async def test_the_latest_offset_under_read_committed_is_the_last_stable_one(
    loop: SimulatedLoop,
) -> None:
    async with broker_node(loop, SimulatedFiles(SimulatedDisk())) as node:
        await create(node.controller, "t")
        append(node, idempotent(0, 2, txn=True))
        for isolation, latest in ((FetchIsolation.HIGH_WATERMARK, 2), (COMMITTED, 0)):
            found = node.replicas.list_offsets([OffsetQuery(T0, -1)], isolation)
            assert isinstance(found, list)
            assert found[0].offset == latest
