"""Markers on real sockets: to two brokers that answer what a test's script says."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import asynccontextmanager

from tierlog.clients.errors import ErrorCode
from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.protocol.api import ApiKey
from tierlog.clients.protocol.schema import Message
from tierlog.clients.runtime.environment import SystemEnvironment
from tierlog.clients.runtime.supervisor import Supervisor
from tierlog.clients.topic_partition import TopicPartition
from tierlog.coordinator.result_or_future import ResultOrFuture
from tierlog.coordinator.transaction.broker_peers import BrokerPeers
from tierlog.coordinator.transaction.marker_channel import MarkerChannel
from tierlog.coordinator.transaction.transaction_markers import Marker, MarkerErrors
from tierlog.replication.metadata.cluster_image import (
    BrokerImage,
    ClusterImage,
    Endpoint,
    PartitionImage,
    TopicImage,
)
from tierlog.tests import wire

from ...broker.cluster.scripted_controller import Answer, ScriptedController, never

E = ErrorCode
OWN, OTHER = 1, 2
MARKER = Marker(7, 1, 3, is_commit=True, version=2)
HERE, THERE = TopicPartition("t", 0), TopicPartition("t", 1)


class LocalPartitions:
    """This broker's own partitions: they accept every marker."""

    def __init__(self) -> None:
        self.written: list[TopicPartition] = []

    def write(
        self, marker: Marker, partitions: Collection[TopicPartition]
    ) -> ResultOrFuture[MarkerErrors]:
        self.written += partitions
        return dict.fromkeys(partitions, E.NONE)


def answering(*errors: ErrorCode) -> Callable[[Message], Message]:
    """Answer each request with the next error; the last one for ever."""
    remaining = list(errors)

    def answer(message: Message) -> Message:
        assert isinstance(message, wire.WriteTxnMarkersRequest)
        error = remaining.pop(0) if len(remaining) > 1 else remaining[0]
        return wire.WriteTxnMarkersResponse(
            markers=[
                wire.WritableTxnMarkerResult(
                    producer_id=marker.producer_id,
                    topics=[
                        wire.WritableTxnMarkerTopicResult(
                            name=topic.name,
                            partitions=[
                                wire.WritableTxnMarkerPartitionResult(
                                    partition_index=number, error_code=error
                                )
                                for number in topic.partition_indexes
                            ],
                        )
                        for topic in marker.topics
                    ],
                )
                for marker in message.markers
            ]
        )

    return answer


class Channel:
    """A channel of broker 1 in a cluster of two, and the image that it sees."""

    def __init__(self, other: ScriptedController) -> None:
        self.other = other
        self.local = LocalPartitions()
        self.image = self.image_of({HERE: OWN, THERE: OTHER})
        environment = SystemEnvironment()
        self.peers = BrokerPeers(
            lambda: self.image,
            environment,
            client_id="markers",
            listener="CLIENTS",
            request_timeout_ms=60_000,
        )
        supervisor = Supervisor(environment.random)
        self.channel = MarkerChannel(
            OWN, self.local, self.peers, self.image, environment, supervisor
        )

    def image_of(
        self, leaders: dict[TopicPartition, int], *, is_fenced: bool = False
    ) -> ClusterImage:
        partitions = {
            each.partition: PartitionImage((leader,), (leader,), leader, 0, 0)
            for each, leader in leaders.items()
        }
        topic_id = Uuid(b"t" * 16)
        host, port = self.other.address
        endpoints = {"CLIENTS": Endpoint("CLIENTS", host, port, 0)}
        broker = BrokerImage(OTHER, 1, topic_id, endpoints, None, is_fenced)
        topics = {"t": TopicImage("t", topic_id, partitions)} if partitions else {}
        return ClusterImage("cluster", offset=1, brokers={OTHER: broker}, topics_by_name=topics)

    def publish(self, image: ClusterImage) -> None:
        self.image = image
        self.peers.publish(image)
        self.channel.publish(image)

    def write(self, *partitions: TopicPartition) -> asyncio.Future[MarkerErrors]:
        outcome = self.channel.write(MARKER, partitions)
        assert isinstance(outcome, asyncio.Future)
        return outcome


@asynccontextmanager
async def channel_to(script: Answer) -> AsyncGenerator[Channel, None]:
    other = ScriptedController({ApiKey.WRITE_TXN_MARKERS: script})
    await other.start()
    channel = Channel(other)
    try:
        yield channel
    finally:
        await channel.channel.stop()
        await channel.peers.close()
        await other.stop()


async def test_own_partitions_are_written_at_once() -> None:
    async with channel_to(answering(E.NONE)) as it:
        assert it.channel.write(MARKER, [HERE]) == {HERE: E.NONE}
        assert it.other.requests == []


async def test_both_brokers_get_their_markers() -> None:
    async with channel_to(answering(E.NONE)) as it:
        assert await it.write(HERE, THERE) == {HERE: E.NONE, THERE: E.NONE}
        assert it.local.written == [HERE]
        (request,) = it.other.requests
        assert isinstance(request, wire.WriteTxnMarkersRequest)
        (marker,) = request.markers
        assert (marker.producer_id, marker.producer_epoch) == (7, 1)
        assert (marker.coordinator_epoch, marker.transaction_result) == (3, True)
        assert [(each.name, each.partition_indexes) for each in marker.topics] == [("t", [1])]


async def test_a_marker_is_repeated_until_it_is_written() -> None:
    errors = (E.UNKNOWN_TOPIC_OR_PARTITION, E.NOT_LEADER_OR_FOLLOWER, E.REQUEST_TIMED_OUT, E.NONE)
    async with channel_to(answering(*errors)) as it:
        assert await it.write(THERE) == {THERE: E.NONE}
        assert len(it.other.requests) == len(errors)


async def test_a_broker_that_is_away_gets_its_markers_when_it_is_back() -> None:
    async with channel_to(answering(E.NONE)) as it:
        it.publish(it.image_of({HERE: OWN, THERE: OTHER}, is_fenced=True))
        outcome = it.write(THERE)
        await asyncio.sleep(0)
        assert not outcome.done()
        it.publish(it.image_of({HERE: OWN, THERE: OTHER}))
        assert await outcome == {THERE: E.NONE}


async def test_a_deaf_broker_is_left_when_another_leads() -> None:
    async with channel_to(never) as it:
        outcome = it.write(THERE)
        await it.other.until_requests(1)
        # Fenced: the request is given up, and this broker leads the partition now.
        it.publish(it.image_of({HERE: OWN, THERE: OWN}, is_fenced=True))
        assert await outcome == {THERE: E.NONE}
        assert it.local.written == [THERE]


async def test_a_deleted_partition_needs_no_marker() -> None:
    async with channel_to(answering(E.UNKNOWN_TOPIC_OR_PARTITION)) as it:
        outcome = it.write(THERE)
        await it.other.until_requests(2)
        it.publish(it.image_of({}))
        assert await outcome == {THERE: E.UNKNOWN_TOPIC_OR_PARTITION}


async def test_a_coordinator_that_has_moved_sends_no_more() -> None:
    async with channel_to(answering(E.NOT_LEADER_OR_FOLLOWER)) as it:
        outcome = it.write(THERE)
        await it.other.until_requests(1)
        outcome.cancel()
        it.channel.publish(it.image)
        other = it.write(HERE, THERE)
        await it.other.until_requests(2)
        assert not other.done()
