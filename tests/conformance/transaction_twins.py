"""Two clusters asked the same about transactions.

Each side has its own producer ids; epochs, offsets and errors must be the same. Kafka writes its
markers behind its answers, so whoever needs a transaction to be over waits for that (`settle`).
"""

from collections.abc import Callable, Mapping, Sequence

from tierlog.clients.errors import ErrorCode
from tierlog.clients.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from tierlog.clients.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from tierlog.clients.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from tierlog.clients.protocol.messages.end_txn import EndTxnRequest
from tierlog.clients.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
)
from tierlog.clients.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from tierlog.clients.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tierlog.clients.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tierlog.clients.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tierlog.clients.protocol.schema import Message
from tierlog.clients.record.builder import RecordBatchBuilder

from ..waiting import wait_until
from .side_by_side import OUR_OWN, Plain, plain
from .twins import TOPIC, Side, Twins

IDS = frozenset({"producer_id", "log_append_time_ms", "transaction_start_time_ms"})
DECIDED = ("PrepareCommit", "PrepareAbort")


class TransactionTwins(Twins):
    """One producer on each side, and what it has been told of its id and epoch."""

    def __init__(self, kafka_port: int, our_port: int, transactional_id: str) -> None:
        super().__init__(kafka_port, our_port)
        self.transactional_id = transactional_id
        self.producers: dict[int, tuple[int, int]] = {}
        self.clock = 1_700_000_000_000

    def identity(self, side: Side) -> tuple[int, int]:
        """The producer id and epoch of the producer on this side."""
        return self.producers.get(id(side), (-1, -1))

    def both(self, ask: Callable[[Side], Message], version: int) -> Plain:
        """The answer of both, which must be the same but for ids."""
        return self.same(ask, version, ignoring=IDS)

    def init(self, version: int = 5, *, goes_on: bool = False, timeout_ms: int = 60_000) -> Plain:
        """Come for an id; with `goes_on` as the producer that has one."""
        answers: list[InitProducerIdResponse] = []
        for side in self.sides:
            producer_id, epoch = self.identity(side) if goes_on else (-1, -1)
            request = InitProducerIdRequest(
                transactional_id=self.transactional_id,
                transaction_timeout_ms=timeout_ms,
                producer_id=producer_id,
                producer_epoch=epoch,
            )
            answer = side.client.ask(request, version, InitProducerIdResponse)
            answers.append(answer)
            if not answer.error_code:
                self.producers[id(side)] = (answer.producer_id, answer.producer_epoch)
        expected, found = (plain(answer, OUR_OWN | IDS) for answer in answers)
        assert found == expected, (expected, found)
        return expected

    def settle(self) -> str:
        """Wait until no markers are on their way; the state on both sides."""
        states: list[str] = []

        def is_settled() -> bool:
            states[:] = [self.state(side) for side in self.sides]
            return not any(state in DECIDED for state in states)

        wait_until(is_settled, 30, lambda: f"transactions hang in {states}")
        assert states[0] == states[1]
        return states[0]

    def has_aborted(self, side: Side) -> bool:
        return self.state(side) == "CompleteAbort"

    def state(self, side: Side) -> str:
        request = DescribeTransactionsRequest(transactional_ids=[self.transactional_id])
        answer = side.client.ask(request, 0, DescribeTransactionsResponse)
        return answer.transaction_states[0].transaction_state

    def add(
        self, version: int, partitions: Sequence[int] = (0,), *, topic: str = TOPIC, late: int = 0
    ) -> Plain:
        """Add partitions; `late` is how many epochs ago the request was made."""

        def ask(side: Side) -> Message:
            producer_id, epoch = self.identity(side)
            topics = [AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))]
            if version < 4:
                return AddPartitionsToTxnRequest(
                    v3_and_below_transactional_id=self.transactional_id,
                    v3_and_below_producer_id=producer_id,
                    v3_and_below_producer_epoch=epoch - late,
                    v3_and_below_topics=topics,
                )
            transaction = AddPartitionsToTxnTransaction(
                transactional_id=self.transactional_id,
                producer_id=producer_id,
                producer_epoch=epoch - late,
                topics=topics,
            )
            return AddPartitionsToTxnRequest(transactions=[transaction])

        return self.both(ask, version)

    def verify(self, partitions: Sequence[int], version: int = 5) -> Plain:
        def ask(side: Side) -> Message:
            producer_id, epoch = self.identity(side)
            transaction = AddPartitionsToTxnTransaction(
                transactional_id=self.transactional_id,
                producer_id=producer_id,
                producer_epoch=epoch,
                verify_only=True,
                topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=list(partitions))],
            )
            return AddPartitionsToTxnRequest(transactions=[transaction])

        return self.both(ask, version)

    def end(self, version: int, *, commit: bool, late: int = 0) -> Plain:
        """End the transaction of the present epoch, or, `late`, of one before."""
        answers: list[Plain] = []
        for side in self.sides:
            producer_id, epoch = self.identity(side)
            request = EndTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=producer_id,
                producer_epoch=epoch - late,
                committed=commit,
            )
            answer = side.client.receive(side.client.send(request, version))
            answers.append(plain(answer, OUR_OWN | IDS))
        assert answers[1] == answers[0]
        return answers[0]

    def bumped(self) -> None:
        """Both producers go on with the next epoch, as EndTxn 5 has told them."""
        for side in self.sides:
            producer_id, epoch = self.identity(side)
            self.producers[id(side)] = (producer_id, epoch + 1)

    def produce(
        self, version: int, sequence: int, *, late: int = 0, partition: int = 0, txn: bool = True
    ) -> Plain:
        """One batch of two records of the transaction."""

        def ask(side: Side) -> Message:
            producer_id, epoch = self.identity(side)
            builder = RecordBatchBuilder(
                producer_id=producer_id,
                producer_epoch=epoch - late,
                base_sequence=sequence,
                is_transactional=txn,
            )
            for number in range(2):
                builder.append(self.clock, b"k", str(number).encode())
            data = PartitionProduceData(index=partition, records=memoryview(builder.build()))
            topic = TopicProduceData(name=TOPIC, topic_id=side.topic_id, partition_data=[data])
            return ProduceRequest(
                transactional_id=self.transactional_id,
                acks=-1,
                timeout_ms=10_000,
                topic_data=[topic],
            )

        return self.same(ask, version, ignoring=IDS | {"error_message"})

    def add_offsets(self, version: int, group_id: str = "group") -> Plain:
        def ask(side: Side) -> Message:
            producer_id, epoch = self.identity(side)
            return AddOffsetsToTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=producer_id,
                producer_epoch=epoch,
                group_id=group_id,
            )

        return self.both(ask, version)

    def commit_offsets(
        self,
        version: int,
        offset: int = 7,
        *,
        late: int = 0,
        topic: str = TOPIC,
        who: Mapping[str, object] | None = None,
    ) -> Plain:
        def ask(side: Side) -> Message:
            producer_id, epoch = self.identity(side)
            partitions = [
                TxnOffsetCommitRequestPartition(
                    partition_index=partition, committed_offset=offset, committed_metadata="m"
                )
                for partition in (0, 1)
            ]
            request = TxnOffsetCommitRequest(
                transactional_id=self.transactional_id,
                group_id="group",
                producer_id=producer_id,
                producer_epoch=epoch - late,
                topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=partitions)],
            )
            for name, value in (who or {}).items():
                setattr(request, name, value)
            return request

        return self.both(ask, version)

    def fetch(self, partition: int = 0, *, committed: bool = True) -> Plain:
        """All that readers see, and which of it they must skip."""

        def ask(side: Side) -> Message:
            wanted = FetchPartition(partition=partition, partition_max_bytes=1 << 20)
            topic = FetchTopic(topic=TOPIC, topic_id=side.topic_id, partitions=[wanted])
            return FetchRequest(
                max_wait_ms=0, min_bytes=0, isolation_level=int(committed), topics=[topic]
            )

        return self.same(ask, 16, ignoring=IDS | {"records"})

    def write_markers(self, version: int, *, commit: bool, **changes: object) -> Plain:
        def ask(side: Side) -> Message:
            producer_id, epoch = self.identity(side)
            marker = WritableTxnMarker(
                producer_id=producer_id,
                producer_epoch=epoch,
                transaction_result=commit,
                topics=[WritableTxnMarkerTopic(name=TOPIC, partition_indexes=[0, 9])],
                coordinator_epoch=0,
            )
            for name, value in changes.items():
                setattr(marker, name, value)
            return WriteTxnMarkersRequest(markers=[marker])

        return self.both(ask, version)


def error_of(answer: Plain) -> ErrorCode:
    """The first error that is anywhere in an answer."""
    if isinstance(answer, dict):
        own = [
            value
            for name, value in answer.items()
            if name.endswith("error_code") and isinstance(value, int) and value
        ]
        found = [error_of(value) for value in answer.values()]
        return next((each for each in (*map(ErrorCode, own), *found) if each), ErrorCode.NONE)
    if isinstance(answer, list):
        return next((each for each in map(error_of, answer) if each), ErrorCode.NONE)
    return ErrorCode.NONE
