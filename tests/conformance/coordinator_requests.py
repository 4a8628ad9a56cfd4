"""The requests that come to a transactional id."""

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from tierlog.clients.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from tierlog.clients.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from tierlog.clients.protocol.messages.end_txn import EndTxnRequest
from tierlog.clients.protocol.messages.init_producer_id import InitProducerIdRequest
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
from tierlog.clients.record.batch import Record
from tierlog.clients.record.builder import build_batch

KNOWN, HELD = "known", "held"
"""A topic whose markers are written at once, and one whose markers wait for its broker."""
LONG_MS, SHORT_MS = 600_000, 1
"""Transaction timeouts."""
_FIRST_BATCHED = 4
_NOW_MS = 1_700_000_000_000

Identity: TypeAlias = tuple[int, int]
"""A producer id and an epoch."""


def adding(
    transactional_id: str, identity: Identity, version: int, topic: str, *, verify: bool = False
) -> Message:
    producer_id, epoch = identity
    topics = [AddPartitionsToTxnTopic(name=topic, partitions=[0])]
    if version < _FIRST_BATCHED:
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=topics,
        )
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=epoch,
        verify_only=verify,
        topics=topics,
    )
    return AddPartitionsToTxnRequest(transactions=[transaction])


def ending(transactional_id: str, identity: Identity, commit: bool) -> Message:
    return EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=identity[0],
        producer_epoch=identity[1],
        committed=commit,
    )


def initializing(transactional_id: str, identity: Identity) -> Message:
    return InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=LONG_MS,
        producer_id=identity[0],
        producer_epoch=identity[1],
    )


def _adding_offsets(transactional_id: str, identity: Identity) -> Message:
    return AddOffsetsToTxnRequest(
        transactional_id=transactional_id,
        producer_id=identity[0],
        producer_epoch=identity[1],
        group_id=f"group of {transactional_id}",
    )


def _committing_offsets(transactional_id: str, identity: Identity) -> Message:
    partition = TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=3, committed_metadata=""
    )
    return TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=f"group of {transactional_id}",
        producer_id=identity[0],
        producer_epoch=identity[1],
        topics=[TxnOffsetCommitRequestTopic(name=KNOWN, partitions=[partition])],
    )


def _producing(transactional_id: str, identity: Identity) -> Message:
    records = build_batch(
        [Record(0, _NOW_MS, b"k", b"v", ())],
        producer_id=identity[0],
        producer_epoch=identity[1],
        base_sequence=0,
        is_transactional=True,
    )
    data = PartitionProduceData(index=0, records=memoryview(records))
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=10_000,
        topic_data=[TopicProduceData(name=KNOWN, partition_data=[data])],
    )


def _marking(_: str, identity: Identity) -> Message:
    marker = WritableTxnMarker(
        producer_id=identity[0],
        producer_epoch=identity[1],
        transaction_result=True,
        topics=[WritableTxnMarkerTopic(name=KNOWN, partition_indexes=[0])],
        coordinator_epoch=1_000,
        transaction_version=2,
    )
    return WriteTxnMarkersRequest(markers=[marker])


Make: TypeAlias = Callable[[str, Identity], Message]


def _adding_in(version: int, *, verify: bool = False) -> Make:
    def make(transactional_id: str, identity: Identity) -> Message:
        return adding(transactional_id, identity, version, KNOWN, verify=verify)

    return make


def _ending_with(*, commit: bool) -> Make:
    def make(transactional_id: str, identity: Identity) -> Message:
        return ending(transactional_id, identity, commit)

    return make


class Request(NamedTuple):
    """A request about a transactional id, as a producer of an identity makes it."""

    make: Make
    version: int
    is_anonymous: bool = False


REQUESTS: Mapping[str, Request] = {
    "InitProducerId 5": Request(initializing, 5, is_anonymous=True),
    "InitProducerId 5 of a producer": Request(initializing, 5),
    "AddPartitionsToTxn 3": Request(_adding_in(3), 3),
    "AddPartitionsToTxn 5": Request(_adding_in(5), 5),
    "AddPartitionsToTxn 5, verify": Request(_adding_in(5, verify=True), 5),
    "AddOffsetsToTxn 4": Request(_adding_offsets, 4),
    "TxnOffsetCommit 4": Request(_committing_offsets, 4),
    "TxnOffsetCommit 5": Request(_committing_offsets, 5),
    "Produce 11": Request(_producing, 11),
    "Produce 12": Request(_producing, 12),
    "EndTxn 4, commit": Request(_ending_with(commit=True), 4),
    "EndTxn 4, abort": Request(_ending_with(commit=False), 4),
    "EndTxn 5, commit": Request(_ending_with(commit=True), 5),
    "EndTxn 5, abort": Request(_ending_with(commit=False), 5),
    "WriteTxnMarkers 2": Request(_marking, 2),
}
