"""Writes transaction markers to the partitions of a transaction.

A marker is a control batch with the producer's id and epoch; it ends the producer's transaction in
that log. The coordinator uses `TransactionMarkers`, which hides which broker leads a partition.
`LocalMarkers` appends to the partitions that this broker leads, with acks=all.
"""

import asyncio
from collections.abc import Callable, Collection
from typing import NamedTuple, Protocol, TypeAlias

from ...clients.errors import ErrorCode, KafkaError
from ...clients.record.builder import build_control_batch
from ...clients.record.control import ControlRecordType, EndTransactionMarker
from ...clients.topic_partition import TopicPartition
from ...replication.leader.replica_manager import ReplicaManager
from ...replication.partition.append_data import AppendEntry, AppendRequest
from ...replication.topic_names import GROUP_METADATA_TOPIC
from ...storage.producer.producer_entry import AppendOrigin
from ..result_or_future import ResultOrFuture
from .transaction_metadata import EPOCH_BUMP_VERSION

MarkerErrors: TypeAlias = dict[TopicPartition, ErrorCode]
"""The outcome of a marker write, by partition."""


class Marker(NamedTuple):
    """A transaction marker. From `version` 2 on, the epoch is that of the next transaction."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_commit: bool
    version: int = 0


class TransactionMarkers(Protocol):
    """Writes markers to partitions, whichever broker leads them."""

    def write(
        self, marker: Marker, partitions: Collection[TopicPartition]
    ) -> ResultOrFuture[MarkerErrors]:
        """One outcome per partition, once the in-sync replicas have the marker. Never raises.

        Cancel the future to send no more of the markers.
        """
        ...


class OffsetMarkers(Protocol):
    """The part of the group coordinator that transactions with offsets need."""

    def marker_error(self, partition: int) -> ErrorCode:
        """The reason why this partition of `__consumer_offsets` cannot accept a marker now."""
        ...

    def transaction_ended(self, partition: int, producer_id: int, is_commit: bool) -> None:
        """Apply or drop the transaction's pending offsets once the marker is in the log."""
        ...


class LocalMarkers:
    """Markers for the partitions that this broker leads."""

    def __init__(
        self,
        replicas: ReplicaManager,
        offsets: Callable[[], OffsetMarkers],
        now_ms: Callable[[], int],
        timeout_ms: int,
    ) -> None:
        self._replicas = replicas
        self._offsets = offsets
        self._now_ms = now_ms
        self._timeout_ms = timeout_ms

    def write(
        self, marker: Marker, partitions: Collection[TopicPartition]
    ) -> ResultOrFuture[MarkerErrors]:
        """See TransactionMarkers."""
        errors = {partition: self._objection(marker, partition) for partition in partitions}
        entries = [
            AppendEntry(partition, memoryview(self._batch(marker)))
            for partition, error in errors.items()
            if not error
        ]
        request = AppendRequest(
            entries, timeout_ms=self._timeout_ms, origin=AppendOrigin.COORDINATOR
        )
        outcome = self._replicas.append_records(request)
        if not isinstance(outcome, asyncio.Future):
            return self._on_written(marker, errors, outcome)
        later: asyncio.Future[MarkerErrors] = asyncio.get_running_loop().create_future()

        def done(results: asyncio.Future[list[AppendEntry]]) -> None:
            if not later.done() and not results.cancelled():
                later.set_result(self._on_written(marker, errors, results.result()))

        outcome.add_done_callback(done)
        return later

    def _on_written(
        self, marker: Marker, errors: MarkerErrors, results: list[AppendEntry]
    ) -> MarkerErrors:
        for result in results:
            topic, partition = result.topic_partition
            errors[result.topic_partition] = result.error
            if topic == GROUP_METADATA_TOPIC and not result.error:
                offsets = self._offsets()
                offsets.transaction_ended(partition, marker.producer_id, marker.is_commit)
        return errors

    def _objection(self, marker: Marker, partition: TopicPartition) -> ErrorCode:
        """The reason not to append the marker, from checks that the log does not make itself."""
        try:
            log = self._replicas.partition(partition).leader_log()
        except KafkaError as error:
            return error.code
        if partition.topic == GROUP_METADATA_TOPIC:
            error_code = self._offsets().marker_error(partition.partition)
            if error_code:
                return error_code
        producer = log.producers.get(marker.producer_id)
        if (
            marker.version >= EPOCH_BUMP_VERSION
            and producer is not None
            and producer.producer_epoch == marker.producer_epoch
            and producer.current_txn_first_offset is not None
        ):
            # A late marker of the previous transaction (KIP-1228).
            return ErrorCode.INVALID_PRODUCER_EPOCH
        return ErrorCode.NONE

    def _batch(self, marker: Marker) -> bytearray:
        kind = ControlRecordType.COMMIT if marker.is_commit else ControlRecordType.ABORT
        return build_control_batch(
            EndTransactionMarker(kind, marker.coordinator_epoch),
            self._now_ms(),
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
        )
