"""A transactional copier: from one partition into two, each record once, the offset along with it.

What goes wrong makes it come for a new epoch, read the committed offset, and go on from there. The
records of each transaction go into both partitions of the target, so that they must end alike.
"""

import asyncio
from random import Random

from tierlog.clients.consumer.completed_fetch import ConsumerRecord
from tierlog.clients.consumer.consumer import Consumer
from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.network.coordinator_lookup import GroupCoordinatorClient
from tierlog.clients.network.metadata import Metadata
from tierlog.clients.network.network import Address, NetworkClient, NetworkConfig
from tierlog.clients.record.builder import RecordBatchBuilder
from tierlog.clients.topic_partition import TopicPartition
from tierlog.tests import wire
from tierlog.tests.simulation.cluster_clients import Promises
from tierlog.tests.simulation.cluster_member import BOOTSTRAP
from tierlog.tests.simulation.environment import SimulatedEnvironment
from tierlog.tests.simulation.loop import SimulatedLoop

ID = "copier"
SOURCE = TopicPartition("orders", 0)
TARGET = "copies"
BATCH_MAX = 8
TIMEOUT_MS = 2500


class _Coordinator(GroupCoordinatorClient):
    """The coordinator of a transactional id."""

    async def _find(self) -> int:
        answer = await self._network.request_any(
            wire.FindCoordinatorRequest(key=ID, key_type=1),
            wire.FindCoordinatorResponse,
            version_max=3,
        )
        self.raise_for(answer.error_code, "no coordinator")
        self._network.add_node(answer.node_id, Address(answer.host, answer.port))
        return answer.node_id


class Copier:
    """See the module."""

    def __init__(self, loop: SimulatedLoop, promises: Promises, *, is_old: bool) -> None:
        """`is_old`: it adds partitions to its transactions itself (before KIP-890)."""
        self.is_over = False
        self.is_old = is_old
        self.committed = 0
        """The source's offset as of the last transaction that has certainly ended well."""
        self.chance = Random(f"{loop.seed}/{ID}")
        self._promises = promises
        self._counts = promises.counts
        self._environment = SimulatedEnvironment(loop, ID)
        config = NetworkConfig(client_id=ID, request_timeout_ms=TIMEOUT_MS)
        self._network = NetworkClient(BOOTSTRAP, self._environment, config)
        self._metadata = Metadata(self._network, self._environment)
        self._transactions = _Coordinator(ID, self._network, self._environment)
        self._group = GroupCoordinatorClient(ID, self._network, self._environment)
        self._id, self._epoch = -1, -1
        self._sequences = [0, 0]

    async def run(self) -> None:
        """Copy until `is_over`, then end on a whole transaction."""
        options = {"environment": self._environment, "request_timeout_ms": TIMEOUT_MS}
        try:
            async with Consumer(BOOTSTRAP, **options) as reader:  # type: ignore[arg-type]  # a dict
                reader.assign([SOURCE])
                while not self.is_over:
                    try:
                        await self._begin(reader)
                        while not self.is_over:
                            await self._copy(reader)
                    except KafkaError as error:
                        self._counts[f"copier {error.code.name}"] += 1
                        self._metadata.mark_stale()
                        await asyncio.sleep(self.chance.uniform(0, 0.3))
            await self._end_well()
        finally:
            await self._network.close()

    async def _end_well(self) -> None:
        """Leave no transaction open, and say how far it has come."""
        while True:
            try:
                self._promises.copied = await self._begin(None)
            except KafkaError as error:
                self._counts[f"copier {error.code.name}"] += 1
                self._metadata.mark_stale()
                await asyncio.sleep(self.chance.uniform(0, 0.3))
            else:
                return

    async def _begin(self, reader: Consumer | None) -> int:
        """Come for an epoch, which ends what another has left open, and find where to go on."""
        answer = await self._transactions.ask(
            wire.InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=60_000),
            wire.InitProducerIdResponse,
        )
        self._transactions.raise_for(answer.error_code, "no producer id")
        self._id, self._epoch = answer.producer_id, answer.producer_epoch
        self._sequences = [0, 0]
        offset = await self.committed_offset()
        assert offset >= self.committed, (
            f"offset {self.committed} was committed, and now it is {offset}"
        )
        if reader is not None:
            reader.seek(SOURCE, offset)
        return offset

    async def _check_committed(self, end: int) -> None:
        """A stable offset is never older than a transaction that has ended (KIP-447)."""
        offset = await self.committed_offset()
        assert offset >= end, f"{end} was committed by a transaction, and {offset} is stable"

    async def committed_offset(self) -> int:
        """The stable offset of the group."""
        while True:
            request = wire.OffsetFetchRequest(
                group_id=ID,
                topics=[wire.OffsetFetchRequestTopic(name=SOURCE.topic, partition_indexes=[0])],
                require_stable=True,
            )
            answer = await self._group.ask(request, wire.OffsetFetchResponse, version_max=7)
            self._group.raise_for(answer.error_code, "no offsets")
            ((partition,),) = [topic.partitions for topic in answer.topics]
            if partition.error_code != ErrorCode.UNSTABLE_OFFSET_COMMIT:
                self._group.raise_for(partition.error_code, "no offset")
                return max(partition.committed_offset, 0)
            await asyncio.sleep(0.1)

    async def _copy(self, reader: Consumer) -> None:
        records = (await reader.poll(timeout_ms=500))[:BATCH_MAX]
        if not records:
            return
        if self.is_old:
            await self._add()
        writes = (self._write(index, records) for index in (0, 1))
        await asyncio.gather(*writes)
        end = records[-1].offset + 1
        await self._commit_offset(end)
        is_good = self.chance.random() < 0.8
        await self._end(is_good=is_good)
        if is_good:
            self.committed = end
            if self.chance.random() < 0.5:
                await self._check_committed(end)
            self._counts["transactions committed"] += 1
        else:
            self._counts["transactions aborted"] += 1
        reader.seek(SOURCE, end if is_good else records[0].offset)

    async def _add(self) -> None:
        topics = [wire.AddPartitionsToTxnTopic(name=TARGET, partitions=[0, 1])]
        request = wire.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=ID,
            v3_and_below_producer_id=self._id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=topics,
        )
        while True:
            answer = await self._transactions.ask(
                request, wire.AddPartitionsToTxnResponse, version_max=3
            )
            errors = {
                each.partition_error_code
                for topic in answer.results_by_topic_v3_and_below
                for each in topic.results_by_partition
            }
            # The markers of the last transaction are on their way.
            if ErrorCode.CONCURRENT_TRANSACTIONS not in errors:
                break
            await asyncio.sleep(0.05)
        for error in errors:
            self._transactions.raise_for(error, "not added")

    async def _write(self, index: int, records: list[ConsumerRecord]) -> None:
        builder = RecordBatchBuilder(
            producer_id=self._id,
            producer_epoch=self._epoch,
            base_sequence=self._sequences[index],
            is_transactional=True,
        )
        for record in records:
            builder.append(self._environment.wall_clock_ms(), None, record.value)
        batch = bytes(builder.build())
        failures = 0
        while True:
            try:
                await self._send(index, batch)
            except KafkaError as error:
                failures += 1
                if not error.is_retriable or failures > 8:
                    raise
                self._metadata.mark_stale()
                await asyncio.sleep(self.chance.uniform(0, 0.3))
            else:
                break
        self._sequences[index] += len(records)

    async def _send(self, index: int, batch: bytes) -> None:
        await self._metadata.ensure([TARGET])
        leader = self._metadata.leader(TopicPartition(TARGET, index))
        if leader is None:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, "no leader")
        data = wire.PartitionProduceData(index=index, records=memoryview(bytearray(batch)))
        topic = wire.TopicProduceData(
            name=TARGET, topic_id=self._metadata.topic_id(TARGET), partition_data=[data]
        )
        request = wire.ProduceRequest(
            transactional_id=ID, acks=-1, timeout_ms=TIMEOUT_MS, topic_data=[topic]
        )
        answer = await self._network.request(
            leader.leader_id, request, wire.ProduceResponse, version_max=11 if self.is_old else 13
        )
        ((partition,),) = [each.partition_responses for each in answer.responses]
        if partition.error_code:
            raise KafkaError(ErrorCode(partition.error_code), "not written")

    async def _commit_offset(self, offset: int) -> None:
        if self.is_old:
            added = await self._transactions.ask(
                wire.AddOffsetsToTxnRequest(
                    transactional_id=ID,
                    producer_id=self._id,
                    producer_epoch=self._epoch,
                    group_id=ID,
                ),
                wire.AddOffsetsToTxnResponse,
            )
            self._transactions.raise_for(added.error_code, "offsets not added")
        partition = wire.TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata=""
        )
        request = wire.TxnOffsetCommitRequest(
            transactional_id=ID,
            group_id=ID,
            producer_id=self._id,
            producer_epoch=self._epoch,
            topics=[wire.TxnOffsetCommitRequestTopic(name=SOURCE.topic, partitions=[partition])],
        )
        answer = await self._group.ask(
            request, wire.TxnOffsetCommitResponse, version_max=4 if self.is_old else 5
        )
        ((result,),) = [topic.partitions for topic in answer.topics]
        self._group.raise_for(result.error_code, "offset not committed")

    async def _end(self, *, is_good: bool) -> None:
        request = wire.EndTxnRequest(
            transactional_id=ID, producer_id=self._id, producer_epoch=self._epoch, committed=is_good
        )
        answer = await self._transactions.ask(
            request, wire.EndTxnResponse, version_max=4 if self.is_old else 5
        )
        self._transactions.raise_for(answer.error_code, "not ended")
        if not self.is_old:
            self._id, self._epoch = answer.producer_id, answer.producer_epoch
            self._sequences = [0, 0]
