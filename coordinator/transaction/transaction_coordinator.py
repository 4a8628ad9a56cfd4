"""The transaction coordinator: transactional ids over `__transaction_state`.

A thin shell that carries out the decisions of the shards, one per partition of the topic
(`transaction_shard.py`): it appends states to the log, sends markers through `TransactionMarkers`,
and runs two sweeps, for timed-out transactions and for unused ids. An answer that depends on a
write is sent after it.

Markers are retried until every partition has one, for as long as this broker coordinates the id. A
deleted partition needs none.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from ...clients.errors import ErrorCode
from ...clients.runtime.environment import Environment
from ...clients.runtime.supervisor import Supervisor
from ...clients.topic_partition import TopicPartition
from ...replication.metadata.cluster_image import ClusterDelta, ClusterImage
from ...replication.topic_names import TRANSACTION_STATE_TOPIC
from ..led_shards import SHARD_ERRORS, LedShards, ShardLog, ShardState
from ..offsets_log import Appended, OffsetsLog, append_error_to_client
from ..offsets_topic import partition_for
from ..result_or_future import ResultOrFuture
from ..shard_writer import ShardWriter
from .transaction_config import TransactionConfig
from .transaction_markers import Marker, MarkerErrors, TransactionMarkers
from .transaction_metadata import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, Transaction
from .transaction_records import TransactionRecord, transaction_record, transaction_tombstone
from .transaction_shard import (
    Addition,
    Ending,
    Initialization,
    SendMarkers,
    TakeProducerId,
    TransactionShard,
    Transition,
)
from .transaction_state import TransactionState

T = TypeVar("T")

_log = logging.getLogger(__name__)

FEATURE = "transaction.version"

_TOMBSTONES_PER_BATCH = 1_000
_MARKER_RETRY_S = 0.1
_UNMARKED_MAX = 10_000
"""Transactions that wait for their markers; beyond that, EndTxn gets CONCURRENT_TRANSACTIONS."""

_GONE = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
_FINAL = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})
"""A newer coordinator or producer has ended the transaction: the marker is not needed."""


class ProducerIdentity(NamedTuple):
    """The producer id and epoch to use from now on, or an error."""

    error: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


class TransactionCoordinator:
    """Coordinates the transactional ids of the partitions that this broker leads."""

    def __init__(
        self,
        config: TransactionConfig,
        environment: Environment,
        log: OffsetsLog,
        markers: TransactionMarkers,
        supervisor: Supervisor | None = None,
        *,
        take_producer_id: TakeProducerId,
    ) -> None:
        """`take_producer_id` is for transactions that time out; requests bring their own."""
        self.config = config
        self._supervisor = supervisor or Supervisor(environment.random)
        self.partition_count = config.num_partitions
        self.transaction_version = 0
        self._take_producer_id = take_producer_id
        self._environment = environment
        self._markers = markers
        source = ShardLog(log, TRANSACTION_STATE_TOPIC, "transactions", config.load_buffer_size)
        self._shards = LedShards(source, self._new_shard, self._resume_transactions, self._let_go)
        self._writer = ShardWriter(log, self._shards)
        self._retries: set[asyncio.TimerHandle] = set()
        # The markers that are being written, by their shards.
        self._unmarked: dict[asyncio.Future[MarkerErrors], TransactionShard] = {}
        self._sweeps: dict[str, asyncio.TimerHandle] = {}

    # Lifecycle.

    def start(self) -> None:
        """Start the timeout and expiry sweeps. Call it inside the running loop."""
        self._sweep("abort", self.config.abort_interval_ms, self._abort_timed_out)
        self._sweep("expire", self.config.expiration_interval_ms, self._delete_expired)

    def _sweep(self, name: str, interval_ms: int, look: Callable[[], None]) -> None:
        def run() -> None:
            look()
            self._sweep(name, interval_ms, look)

        loop = asyncio.get_running_loop()
        self._sweeps[name] = loop.call_later(interval_ms / 1000, run)

    def stop(self) -> None:
        """Cancel every timer; decided transactions are in the log and resume on the next start."""
        for handle in (*self._sweeps.values(), *self._retries):
            handle.cancel()
        self._retries.clear()
        self._writer.close()
        self._shards.close()

    def publish(self, image: ClusterImage, delta: ClusterDelta) -> None:
        """Update the partition count and `transaction.version` from the cluster image."""
        self.transaction_version = image.features.get(FEATURE, 0)
        for shard in self._shards.all():
            shard.transaction_version = self.transaction_version
        topic = image.topics_by_name.get(TRANSACTION_STATE_TOPIC)
        if topic is not None:
            # The topic may have been created with a different partition count than configured now.
            self.partition_count = len(topic.partitions)

    def on_elected(self, partition: int, leader_epoch: int) -> None:
        """Load a partition that this broker now leads, then resume its transactions."""
        self._shards.on_elected(partition, leader_epoch)

    def on_resigned(self, partition: int) -> None:
        """Drop a partition that this broker no longer leads."""
        self._shards.on_resigned(partition)

    def _let_go(self, shard: TransactionShard) -> None:
        """Send no more markers for the shard: its new leader sends them.

        Requests are answered by the outcomes of their appends.
        """
        for future in [each for each, its in self._unmarked.items() if its is shard]:
            future.cancel()

    def _new_shard(self, partition: int, leader_epoch: int) -> TransactionShard:
        shard = TransactionShard(partition, leader_epoch)
        shard.transaction_version = self.transaction_version
        return shard

    def _resume_transactions(self, shard: TransactionShard) -> None:
        """Send the markers of decided transactions, once the log has been read."""
        loop = asyncio.get_running_loop()
        for send in shard.resume(self._now_ms()):
            # This broker may not have become leader of the other partitions yet.
            loop.call_soon(self._send_markers, shard, send.transaction)

    # Requests. Each fails with NOT_COORDINATOR if this broker does not coordinate the id, with
    # COORDINATOR_LOAD_IN_PROGRESS while it is loading, and with INVALID_REQUEST for an empty id.

    def initialize(
        self, request: Initialization, take: TakeProducerId
    ) -> ResultOrFuture[ProducerIdentity] | None:
        """Give the producer its next epoch. None if a producer id is needed first."""
        if not 0 < request.timeout_ms <= self.config.transaction_max_timeout_ms:
            # As in Kafka, the timeout is checked after the id and before the coordinator lookup.
            wrong = ErrorCode.INVALID_TRANSACTION_TIMEOUT
            empty = ErrorCode.INVALID_REQUEST
            return ProducerIdentity(wrong if request.transactional_id else empty)
        shard = self._shard_of(request.transactional_id)
        if isinstance(shard, ErrorCode):
            return ProducerIdentity(shard)
        transition = shard.initialize(request, take, self._now_ms())
        if transition is None:
            return None
        return self._carry_out(shard, transition, _identity)

    def add_partitions(self, request: Addition) -> ResultOrFuture[ErrorCode]:
        """Add partitions. NONE once that is in the log: the producer may then write to them."""
        shard = self._shard_of(request.transactional_id)
        if isinstance(shard, ErrorCode):
            return shard
        transition = shard.add_partitions(request, self._now_ms())
        return self._carry_out(shard, transition, lambda error, _: error)

    def verify_partitions(self, request: Addition) -> MarkerErrors:
        """NONE for each partition that is part of the transaction."""
        shard = self._shard_of(request.transactional_id)
        if isinstance(shard, ErrorCode):
            return dict.fromkeys(request.partitions, shard)
        return shard.verify_partitions(request)

    def end(self, request: Ending, take: TakeProducerId) -> ResultOrFuture[ProducerIdentity] | None:
        """Commit or abort: the error is NONE once that is in the log.

        Returns None if a producer id is needed first.
        """
        shard = self._shard_of(request.transactional_id)
        if isinstance(shard, ErrorCode):
            return ProducerIdentity(shard)
        if len(self._unmarked) >= _UNMARKED_MAX:
            return ProducerIdentity(ErrorCode.CONCURRENT_TRANSACTIONS)
        transition = shard.end(request, take, self._now_ms())
        if transition is None:
            return None
        current = shard.get(request.transactional_id)
        return self._carry_out(shard, transition, partial(_after_end, current))

    def describe(self, transactional_id: str) -> Transaction | ErrorCode:
        """The state of the id in the log, or TRANSACTIONAL_ID_NOT_FOUND."""
        shard = self._shard_of(transactional_id)
        if isinstance(shard, ErrorCode):
            return shard
        transaction = shard.get(transactional_id)
        return ErrorCode.TRANSACTIONAL_ID_NOT_FOUND if transaction is None else transaction

    def transactions(self) -> list[Transaction] | ErrorCode:
        """All coordinated ids; COORDINATOR_LOAD_IN_PROGRESS while a partition is loading."""
        if any(shard.state is ShardState.LOADING for shard in self._shards.all()):
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return [transaction for shard in self._shards.all() for transaction in shard.transactions]

    def partition_of(self, transactional_id: str) -> int:
        """The partition of `__transaction_state` that an id belongs to."""
        return partition_for(transactional_id, self.partition_count)

    # Decisions of the shards.

    def _carry_out(
        self,
        shard: TransactionShard,
        transition: Transition,
        answer: Callable[[ErrorCode, Transaction | None], T],
    ) -> ResultOrFuture[T]:
        """Write the target state, if any, and answer once it is in the log."""
        target = transition.target
        if target is None:
            return answer(transition.error, None)
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def written(error: ErrorCode) -> None:
            if not future.done():
                future.set_result(answer(error or transition.error, target))

        self._write(shard, target, written)
        return future.result() if future.done() else future

    def _write(
        self,
        shard: TransactionShard,
        target: Transaction,
        then: Callable[[ErrorCode], None] | None = None,
    ) -> None:
        def written(error: ErrorCode) -> None:
            sends: Sequence[SendMarkers] = ()
            if self._shards.is_led(shard):
                sends = shard.written(target, error, self._now_ms())
            # Answer once the decision is in the log, without waiting for the markers.
            if then is not None:
                then(error)
            for send in sends:
                self._send_markers(shard, send.transaction)

        self._append(shard, [transaction_record(target, self.transaction_version)], written)

    def _append(
        self,
        shard: TransactionShard,
        records: Sequence[TransactionRecord],
        written: Callable[[ErrorCode], None],
    ) -> None:
        def on_appended(outcome: Appended) -> None:
            written(append_error_to_client(outcome.error))

        self._writer.append(shard, records, self._now_ms(), on_appended)

    def _send_markers(self, shard: TransactionShard, decided: Transaction) -> None:
        """Send the marker to every partition that does not have it yet."""
        if not self._shards.is_led(shard):
            return
        marker = Marker(
            decided.producer_id,
            decided.producer_epoch,
            shard.leader_epoch,
            decided.state is TransactionState.PREPARE_COMMIT,
            decided.client_version,
        )
        remaining = shard.get(decided.transactional_id)
        assert remaining is not None, "An id with a decided transaction is kept."
        outcome = self._markers.write(marker, remaining.partitions)
        if not isinstance(outcome, asyncio.Future):
            self._on_marked(shard, decided, outcome)
            return
        self._unmarked[outcome] = shard

        def done(written: asyncio.Future[MarkerErrors]) -> None:
            self._unmarked.pop(written, None)
            if not written.cancelled():
                self._on_marked(shard, decided, written.result())

        outcome.add_done_callback(done)

    def _on_marked(
        self, shard: TransactionShard, decided: Transaction, errors: MarkerErrors
    ) -> None:
        if not self._shards.is_led(shard):
            return
        done = [partition for partition, error in errors.items() if _is_settled(partition, error)]
        target = shard.markers_written(decided.transactional_id, done, self._now_ms())
        if target is None:
            self._later(partial(self._send_markers, shard, decided))
        else:
            self._complete(shard, target)

    def _complete(self, shard: TransactionShard, target: Transaction) -> None:
        def written(error: ErrorCode) -> None:
            if error and self._shards.is_led(shard):
                self._later(partial(self._complete, shard, target))

        self._write(shard, target, written)

    def _later(self, act: Callable[[], None]) -> None:
        def run() -> None:
            self._retries.discard(handle)
            with self._supervisor.attempt("transaction markers"):
                act()

        handle = asyncio.get_running_loop().call_later(_MARKER_RETRY_S, run)
        self._retries.add(handle)

    # Timeouts and expiry.

    def _abort_timed_out(self) -> None:
        for shard in self._shards.active():
            if len(self._unmarked) >= _UNMARKED_MAX:
                return
            name = f"{TRANSACTION_STATE_TOPIC}-{shard.partition}"
            with self._supervisor.attempt("transaction timeouts", name):
                self._abort_timed_out_of(shard)

    def _abort_timed_out_of(self, shard: TransactionShard) -> None:
        for target in shard.timed_out(self._now_ms(), self._take_producer_id):
            _log.info(
                "Aborting the transaction of %.300r: open for more than %d ms.",
                target.transactional_id,
                target.timeout_ms,
            )
            self._write(shard, target)

    def _delete_expired(self) -> None:
        for shard in self._shards.active():
            name = f"{TRANSACTION_STATE_TOPIC}-{shard.partition}"
            with self._supervisor.attempt("transactional id expiry", name):
                self._delete_expired_of(shard)

    def _delete_expired_of(self, shard: TransactionShard) -> None:
        unused_ms = self.config.transactional_id_expiration_ms
        expired = shard.expired(unused_ms, self._now_ms())
        for start in range(0, len(expired), _TOMBSTONES_PER_BATCH):
            some = expired[start : start + _TOMBSTONES_PER_BATCH]
            tombstones = [transaction_tombstone(each) for each in some]
            self._append(shard, tombstones, partial(self._forget, shard, some))

    def _forget(
        self, shard: TransactionShard, transactional_ids: Collection[str], error: ErrorCode
    ) -> None:
        if self._shards.is_led(shard):
            shard.forget(transactional_ids, error)

    # Lookups.

    def _shard_of(self, transactional_id: str) -> TransactionShard | ErrorCode:
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        shard = self._shards.get(self.partition_of(transactional_id))
        if shard is None:
            return ErrorCode.NOT_COORDINATOR
        return SHARD_ERRORS[shard.state] or shard

    def _now_ms(self) -> int:
        return self._environment.wall_clock_ms()


def _identity(error: ErrorCode, target: Transaction | None) -> ProducerIdentity:
    if error or target is None:
        return ProducerIdentity(error)
    return ProducerIdentity(error, target.producer_id, target.producer_epoch)


def _after_end(
    current: Transaction | None, error: ErrorCode, target: Transaction | None
) -> ProducerIdentity:
    """The producer id and epoch of the next transaction."""
    if error:
        return ProducerIdentity(error)
    following = current if target is None else target.completed(target.last_update_ms)
    assert following is not None, "An id with an ended transaction is kept."
    return ProducerIdentity(error, following.producer_id, following.producer_epoch)


def _is_settled(partition: TopicPartition, error: ErrorCode) -> bool:
    """Whether a partition no longer needs a marker."""
    if error in _FINAL:
        _log.warning(
            "The transaction marker for %s was rejected with %s: a newer coordinator or "
            "producer has ended the transaction there.",
            partition,
            error.name,
        )
    return not error or error is _GONE or error in _FINAL
