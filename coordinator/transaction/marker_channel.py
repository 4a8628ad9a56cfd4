"""Sends transaction markers to the partitions of every broker.

Markers for partitions that this broker leads are written at once; those for others, and those that
could not be written here, go through the queues of `marker_queues.py`: one WriteTxnMarkers in
flight to each broker, with the markers of many transactions. What was not written is sent again
after a back-off, or with the next image, to the leader of then.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from itertools import count

from ...clients.errors import ErrorCode, KafkaError
from ...clients.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ...clients.runtime.backoff import Backoff
from ...clients.runtime.environment import Environment
from ...clients.runtime.supervisor import Supervisor
from ...clients.runtime.task_owner import TaskOwner
from ...clients.topic_partition import TopicPartition
from ...replication.metadata.cluster_image import ClusterDelta, ClusterImage
from ..result_or_future import ResultOrFuture
from .broker_peers import BrokerPeers
from .marker_queues import (
    NO_LEADER,
    SETTLING,
    MarkerQueues,
    Parcel,
    Settled,
)
from .transaction_markers import (
    Marker,
    MarkerErrors,
    TransactionMarkers,
)

_BACKOFF = Backoff(20, 1_000)
_BROKERS_MAX = 10_000
_LOOP = "transaction markers to brokers"

_Errors = Mapping[tuple[int, TopicPartition], ErrorCode]


class MarkerChannel:
    """`TransactionMarkers` of a broker among several."""

    def __init__(
        self,
        broker_id: int,
        local: TransactionMarkers,
        peers: BrokerPeers,
        image: ClusterImage,
        environment: Environment,
        supervisor: Supervisor,
    ) -> None:
        """`local` writes to the partitions that this broker leads."""
        self._broker_id = broker_id
        self._local = local
        self._peers = peers
        self._image = image
        self._environment = environment
        self._supervisor = supervisor
        self._queues = MarkerQueues(self._leader_of)
        self._numbers = count()
        self._futures: dict[int, asyncio.Future[MarkerErrors]] = {}
        self._tasks = TaskOwner(_BROKERS_MAX)
        self._retry: asyncio.TimerHandle | None = None
        self._failures = 0
        self._is_stopped = False

    def write(
        self, marker: Marker, partitions: Collection[TopicPartition]
    ) -> ResultOrFuture[MarkerErrors]:
        """See TransactionMarkers."""
        if all(self._leader_of(partition) == self._broker_id for partition in partitions):
            # The coordinator itself repeats what fails here.
            return self._local.write(marker, partitions)
        number = next(self._numbers)
        future: asyncio.Future[MarkerErrors] = asyncio.get_running_loop().create_future()
        self._futures[number] = future
        future.add_done_callback(partial(self._drop, number))
        self._settle(self._queues.add(number, marker, partitions))
        self._pump()
        return future

    def _drop(self, number: int, future: asyncio.Future[MarkerErrors]) -> None:
        """Send no more of these markers if their coordinator has cancelled the future."""
        self._futures.pop(number, None)
        if future.cancelled():
            self._queues.drop(number)

    def publish(self, image: ClusterImage, _: ClusterDelta | None = None) -> None:
        """Send what waits for a leader, if the image has one now."""
        self._image = image
        if self._queues.has_apart:
            self._requeue()

    async def stop(self) -> None:
        """Send no more; the coordinators' logs have what is not sent."""
        self._is_stopped = True
        if self._retry is not None:
            self._retry.cancel()
        await self._tasks.stop()
        for future in list(self._futures.values()):
            future.cancel()

    def _leader_of(self, partition: TopicPartition) -> int | None:
        state = self._image.partition(partition.topic, partition.partition)
        if state is None:
            return None
        is_own = state.leader == self._broker_id
        return state.leader if is_own or self._peers.is_reachable(state.leader) else NO_LEADER

    def _pump(self) -> None:
        """Send to every broker that has markers waiting and no request in flight."""
        if self._is_stopped:
            return
        for broker_id in self._queues.ready():
            parcels = self._queues.take(broker_id)
            name = f"transaction markers to broker {broker_id}"
            self._tasks.start(self._deliver(broker_id, parcels), name)
        if self._queues.has_apart and self._retry is None:
            self._failures += 1
            delay = _BACKOFF.delay_seconds(self._failures, self._environment.random)
            self._retry = asyncio.get_running_loop().call_later(delay, self._requeue)

    def _requeue(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        self._settle(self._queues.requeue())
        self._pump()

    async def _deliver(self, broker_id: int, parcels: Sequence[Parcel]) -> None:
        errors: _Errors = {}
        with self._supervisor.attempt(_LOOP, broker_id):
            if broker_id == self._broker_id:
                errors = await self._deliver_here(parcels)
            else:
                errors = await self._deliver_there(broker_id, parcels)
        if any(error in SETTLING for error in errors.values()):
            self._failures = 0
        self._settle(self._queues.answered(broker_id, errors))
        self._pump()

    async def _deliver_here(self, parcels: Sequence[Parcel]) -> _Errors:
        errors: dict[tuple[int, TopicPartition], ErrorCode] = {}
        outcomes = [self._local.write(each.marker, each.partitions) for each in parcels]
        for parcel, outcome in zip(parcels, outcomes, strict=True):
            written = await outcome if isinstance(outcome, asyncio.Future) else outcome
            errors |= {(parcel.number, partition): error for partition, error in written.items()}
        return errors

    async def _deliver_there(self, broker_id: int, parcels: Sequence[Parcel]) -> _Errors:
        request = WriteTxnMarkersRequest(markers=[_marker(parcel) for parcel in parcels])
        try:
            response = await self._peers.request(broker_id, request, WriteTxnMarkersResponse)
        except KafkaError:
            return {}
        errors: dict[tuple[int, TopicPartition], ErrorCode] = {}
        # A producer has one transaction at a time. Kafka's results are in no order.
        numbers = {parcel.marker.producer_id: parcel.number for parcel in parcels}
        for result in response.markers:
            number = numbers.get(result.producer_id, -1)
            for topic in result.topics:
                for partition in topic.partitions:
                    item = (number, TopicPartition(topic.name, partition.partition_index))
                    errors[item] = ErrorCode(partition.error_code)
        return errors

    def _settle(self, settled: Sequence[Settled]) -> None:
        for number, errors in settled:
            future = self._futures.pop(number)
            if not future.done():
                future.set_result(errors)


def _marker(parcel: Parcel) -> WritableTxnMarker:
    marker = parcel.marker
    topics: dict[str, WritableTxnMarkerTopic] = {}
    for topic, partition in parcel.partitions:
        named = topics.setdefault(topic, WritableTxnMarkerTopic(name=topic))
        named.partition_indexes.append(partition)
    return WritableTxnMarker(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        transaction_result=marker.is_commit,
        topics=list(topics.values()),
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=marker.version,
    )
