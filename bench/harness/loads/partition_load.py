"""Produces to and fetches from all partitions of many topics.

Each request has many partitions with one batch each, as from a busy client. Every response is
checked: if a partition returns an error, or its batch is not returned, the measurement fails.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

from ....clients.kafka_uuid import Uuid
from ....clients.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from ....clients.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ....clients.protocol.schema import Chunk
from ....clients.record.batch import Record
from ....clients.record.builder import build_batch
from ..requests.wire import (
    Prepared,
    Wire,
    WireError,
    create_topic,
    decoded,
    prepare,
    refuse,
    topic_id,
    until_served,
)

PRODUCE_VERSION = 9
FETCH_VERSION = 13
_PRODUCE_TIMEOUT_MS = 60_000
_MAX_BYTES = 512 << 20
PARTITIONS_A_TOPIC = 500
"""Kafka does not allow 10,000 partitions and their topic in one CreateTopics request."""


class SpreadTopic(NamedTuple):
    """A topic and its number of partitions."""

    name: str
    topic_id: Uuid
    partitions: int


def topic_sizes(partitions: int) -> dict[str, int]:
    """The names and sizes of topics with this total number of partitions."""
    return {
        f"spread-{first // PARTITIONS_A_TOPIC}": min(PARTITIONS_A_TOPIC, partitions - first)
        for first in range(0, partitions, PARTITIONS_A_TOPIC)
    }


def create_topics(wire: Wire, partitions: int, configs: Mapping[str, str]) -> list[SpreadTopic]:
    """Create topics with this total number of partitions, and wait until all can be read.

    Raises WireError.
    """
    sizes = topic_sizes(partitions)
    for name, size in sizes.items():
        create_topic(wire, name, size, configs)
    topics = [SpreadTopic(name, topic_id(wire, name), size) for name, size in sizes.items()]
    for topic in topics:
        _wait_until_led(wire, topic)
    return topics


def _wait_until_led(wire: Wire, topic: SpreadTopic) -> None:
    request = fetch_request([topic], 0)

    def ask() -> tuple[int, None]:
        wire.send(request)
        answer = decoded(wire.receive(), request.header, FetchResponse)
        codes = [
            partition.error_code
            for topic_response in answer.responses
            for partition in topic_response.partitions
        ]
        return next((code for code in codes if code), answer.error_code), None

    until_served(ask, f"Fetch of {topic.name}")


def one_batch(records: int, record_bytes: int, timestamp_ms: int) -> bytes:
    """A batch of equal records."""
    value = bytes(record_bytes)
    return bytes(build_batch([Record(at, timestamp_ms, None, value) for at in range(records)]))


def produce_requests(topics: Sequence[SpreadTopic], batch: bytes) -> list[Prepared]:
    """Requests that produce the batch to each partition with acks=all, one per topic."""
    return [
        prepare(
            ProduceRequest(
                acks=-1,
                timeout_ms=_PRODUCE_TIMEOUT_MS,
                topic_data=[
                    TopicProduceData(
                        name=topic.name,
                        partition_data=[
                            PartitionProduceData(index=partition, records=batch)
                            for partition in range(topic.partitions)
                        ],
                    )
                ],
            ),
            PRODUCE_VERSION,
        )
        for topic in topics
    ]


def produce_everywhere(wire: Wire, requests: Sequence[Prepared]) -> None:
    """Send the requests in turn; raises WireError if a partition returns an error."""
    for request in requests:
        wire.send(request)
        answer = decoded(wire.receive(), request.header, ProduceResponse)
        for topic in answer.responses:
            for partition in topic.partition_responses:
                refuse(f"Produce to partition {partition.index}", partition.error_code)


def fetch_request(
    topics: Sequence[SpreadTopic], offset: int, session: tuple[int, int] = (0, -1)
) -> Prepared:
    """A fetch request for every partition from `offset` on, which does not wait for data.

    `session` is the id and epoch of the fetch session (KIP-227); by default there is none.
    """
    session_id, session_epoch = session
    return prepare(
        FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=_MAX_BYTES,
            session_id=session_id,
            session_epoch=session_epoch,
            topics=[
                FetchTopic(
                    topic_id=topic.topic_id,
                    partitions=[
                        FetchPartition(
                            partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20
                        )
                        for partition in range(topic.partitions)
                    ],
                )
                for topic in topics
            ],
        ),
        FETCH_VERSION,
    )


class Session:
    """A fetch session over all partitions; its polls do not list them again."""

    def __init__(self, session_id: int) -> None:
        self._id = session_id
        self._epoch = 0

    def next_poll(self) -> Prepared:
        """The next request of the session; send each only once."""
        self._epoch += 1
        return fetch_request((), 0, (self._id, self._epoch))


def open_session(wire: Wire, topics: Sequence[SpreadTopic], offset: int) -> Session:
    """Open a session that reads every partition from `offset`. Raises WireError if refused."""
    request = fetch_request(topics, offset, (0, 0))
    wire.send(request)
    answer = decoded(wire.receive(), request.header, FetchResponse)
    refuse("Fetch", answer.error_code)
    if answer.session_id == 0:
        raise WireError("The broker opened no fetch session.")
    return Session(answer.session_id)


def size_in_bytes(records: Chunk | None) -> int:
    """The bytes of a partition's records in a response."""
    return 0 if records is None else len(memoryview(cast("bytes", records)))


def fetch_everything(wire: Wire, topics: Sequence[SpreadTopic], batch_bytes: int) -> int:
    """Fetch all partitions in one request; returns the bytes of records in the response.

    Raises WireError unless every partition returns at least `batch_bytes`.
    """
    request = fetch_request(topics, 0)
    wire.send(request)
    answer = decoded(wire.receive(), request.header, FetchResponse)
    refuse("Fetch", answer.error_code)
    given = 0
    seen = 0
    for topic_response in answer.responses:
        for partition in topic_response.partitions:
            refuse(f"Fetch of partition {partition.partition_index}", partition.error_code)
            size = size_in_bytes(partition.records)
            if size < batch_bytes:
                raise WireError(
                    f"Partition {partition.partition_index} gave {size} bytes of at least "
                    f"{batch_bytes}."
                )
            given += size
            seen += 1
    expected = sum(topic.partitions for topic in topics)
    if seen != expected:
        raise WireError(f"{seen} of {expected} partitions were in the response.")
    return given
