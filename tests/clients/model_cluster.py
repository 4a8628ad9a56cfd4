"""A cluster that only a client can love: brokers on the simulated network which keep their logs in
memory, and which a test can make lie, stall, move leaders and hang up.

It is a model, not a broker: it checks what it is sent (sequence numbers, leaders, CRCs) so that a
story can ask afterwards whether the client behaved.
"""

import asyncio
import hashlib
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from tierlog.clients.errors import ErrorCode
from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.protocol.api import SERVED, request_class
from tierlog.clients.protocol.codec import decode, encode_bytes
from tierlog.clients.protocol.connection import FrameReader, frame
from tierlog.clients.protocol.header import RequestHeader, decode_request_header, response_header
from tierlog.clients.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from tierlog.clients.protocol.schema import Message
from tierlog.clients.record.batch import Record, RecordBatch, batches
from tierlog.tests import wire
from tierlog.tests.simulation.network import SimulatedNetwork, on_host

PORT = 9092
FRAME_BYTES_MAX = 64 << 20


class HangUpError(Exception):
    """Raised by a test's control: the broker closes the connection instead of answering."""


class SilenceError(Exception):
    """Raised by a test's control: the broker never answers."""


Control = Callable[["ModelBroker", Message], Message | None]
"""Asked before each request is handled; what it returns is the answer."""


@dataclass
class ModelPartition:
    """One log, its leader, and what each producer's next sequence number must be."""

    leader: int
    epoch: int = 0
    log_start_offset: int = 0
    unreadable: frozenset[int] = frozenset()
    """Offsets at which the leader finds its own log damaged."""
    stored: list[RecordBatch] = field(default_factory=list[RecordBatch])
    # By producer id and sequence of the first record: the offset it was given.
    sequences: dict[tuple[int, int], int] = field(default_factory=dict[tuple[int, int], int])

    @property
    def end_offset(self) -> int:
        return self.stored[-1].next_offset if self.stored else self.log_start_offset

    def records(self) -> list[Record]:
        return [record for batch in self.stored for record in batch.records()]

    def append(self, data: bytes) -> tuple[ErrorCode, int]:
        """The error, or the offset of the first record."""
        (batch,) = batches(bytearray(data))
        batch.ensure_valid()
        if batch.has_producer_id:
            known = self.sequences.get((batch.producer_id, batch.base_sequence))
            if known is not None:
                return ErrorCode.NONE, known
            mine = [stored for stored in self.stored if stored.producer_id == batch.producer_id]
            # As with Kafka, a producer that is not known may begin anywhere.
            if mine and batch.base_sequence != mine[-1].last_sequence + 1:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        offset = self.end_offset
        batch.assign(offset, self.epoch)
        self.stored.append(RecordBatch(batch.view))
        self.sequences[batch.producer_id, batch.base_sequence] = offset
        return ErrorCode.NONE, offset


class ModelCluster:
    """Topics, and the brokers that serve them; broker 0 is the first to listen."""

    def __init__(self, network: SimulatedNetwork, broker_count: int = 1) -> None:
        self.network = network
        self.topics: dict[str, list[ModelPartition]] = {}
        self.brokers = [ModelBroker(self, node_id) for node_id in range(broker_count)]
        self.control: Control = lambda _broker, _request: None
        self.answer_delay_s: Callable[[ModelBroker, Message], float] = lambda _broker, _request: 0
        self.requests: list[Message] = []
        self._creations: Counter[str] = Counter()
        self.next_producer_id = 1000

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{broker.host}:{PORT}" for broker in self.brokers)

    async def start(self) -> None:
        for broker in self.brokers:
            await broker.start()

    def create_topic(self, name: str, partition_count: int) -> list[ModelPartition]:
        """Leaders go round the brokers. A topic of that name is another one from now on."""
        self._creations[name] += 1
        self.topics[name] = [
            ModelPartition(leader=number % len(self.brokers)) for number in range(partition_count)
        ]
        return self.topics[name]

    def topic_id(self, name: str) -> Uuid:
        named = f"{name} {self._creations[name]}".encode()
        return Uuid(hashlib.blake2b(named, digest_size=16).digest())

    def find(self, name: str, topic_id: Uuid, number: int) -> ModelPartition | None:
        """The partition by its topic's name, or by its id."""
        for known, partitions in self.topics.items():
            if known == name or self.topic_id(known) == topic_id:
                return partitions[number] if number < len(partitions) else None
        return None

    def count(self, kind: type[Message]) -> int:
        """How many requests of a kind came in."""
        return sum(isinstance(request, kind) for request in self.requests)


class ModelBroker:
    """One node; what it does depends on what it leads."""

    def __init__(self, cluster: ModelCluster, node_id: int) -> None:
        self.cluster = cluster
        self.node_id = node_id
        self.host = f"broker{node_id}"

        self.connections: list[_Connection] = []
        self._server: asyncio.AbstractServer | None = None

    async def start(self) -> None:
        with on_host(self.host):
            self._server = await asyncio.get_running_loop().create_server(
                lambda: _Connection(self), "0.0.0.0", PORT
            )

    def crash(self) -> None:
        """Hang up on everyone and listen no more."""
        assert self._server is not None
        self._server.close()
        for connection in self.connections:
            connection.transport.abort()

    def answer(self, request: Message) -> Message:
        self.cluster.requests.append(request)
        controlled = self.cluster.control(self, request)
        if controlled is not None:
            return controlled
        match request:
            case wire.ApiVersionsRequest():
                return wire.ApiVersionsResponse(
                    api_keys=[
                        wire.ApiVersion(
                            api_key=api.key,
                            min_version=api.lowest_version,
                            max_version=api.highest_version,
                        )
                        for api in SERVED.values()
                    ]
                )
            case wire.MetadataRequest():
                return self._metadata(request)
            case wire.InitProducerIdRequest():
                self.cluster.next_producer_id += 1
                return wire.InitProducerIdResponse(producer_id=self.cluster.next_producer_id)
            case wire.ProduceRequest():
                return self._produce(request)
            case wire.ListOffsetsRequest():
                return self._list_offsets(request)
            case FetchRequest():
                return self._fetch(request)
            case _:
                raise HangUpError

    def _metadata(self, request: wire.MetadataRequest) -> wire.MetadataResponse:
        cluster = self.cluster
        names = [topic.name or "" for topic in request.topics or ()]
        if request.topics is None:
            names = list(cluster.topics)
        return wire.MetadataResponse(
            brokers=[
                wire.MetadataResponseBroker(node_id=broker.node_id, host=broker.host, port=PORT)
                for broker in cluster.brokers
            ],
            cluster_id="model",
            controller_id=0,
            topics=[self._topic_metadata(name) for name in names],
        )

    def _topic_metadata(self, name: str) -> wire.MetadataResponseTopic:
        partitions = self.cluster.topics.get(name)
        if partitions is None:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return wire.MetadataResponseTopic(error_code=code, name=name)
        return wire.MetadataResponseTopic(
            name=name,
            topic_id=self.cluster.topic_id(name),
            partitions=[
                wire.MetadataResponsePartition(
                    partition_index=number, leader_id=partition.leader, leader_epoch=partition.epoch
                )
                for number, partition in enumerate(partitions)
            ],
        )

    def _refusal(self, partition: ModelPartition | None) -> ErrorCode:
        if partition is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        is_leader = partition.leader == self.node_id
        return ErrorCode.NONE if is_leader else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def _produce(self, request: wire.ProduceRequest) -> wire.ProduceResponse:
        responses: list[wire.TopicProduceResponse] = []
        for topic in request.topic_data:
            answers: list[wire.PartitionProduceResponse] = []
            for data in topic.partition_data:
                partition = self.cluster.find(topic.name, topic.topic_id, data.index)
                code, offset = self._refusal(partition), -1
                if partition is not None and code is ErrorCode.NONE:
                    assert isinstance(data.records, memoryview)
                    code, offset = partition.append(bytes(data.records))
                answers.append(
                    wire.PartitionProduceResponse(
                        index=data.index, error_code=code, base_offset=offset
                    )
                )
            responses.append(
                wire.TopicProduceResponse(
                    name=topic.name, topic_id=topic.topic_id, partition_responses=answers
                )
            )
        return wire.ProduceResponse(responses=responses)

    def _list_offsets(self, request: wire.ListOffsetsRequest) -> wire.ListOffsetsResponse:
        topics: list[wire.ListOffsetsTopicResponse] = []
        for topic in request.topics:
            answers: list[wire.ListOffsetsPartitionResponse] = []
            for asked in topic.partitions:
                partition = self.cluster.topics[topic.name][asked.partition_index]
                offset = (
                    partition.end_offset if asked.timestamp == -1 else partition.log_start_offset
                )
                answers.append(
                    wire.ListOffsetsPartitionResponse(
                        partition_index=asked.partition_index,
                        error_code=self._refusal(partition),
                        offset=offset,
                    )
                )
            topics.append(wire.ListOffsetsTopicResponse(name=topic.name, partitions=answers))
        return wire.ListOffsetsResponse(topics=topics)

    def _fetch(self, request: FetchRequest) -> FetchResponse:
        return FetchResponse(
            responses=[
                FetchableTopicResponse(
                    topic=topic.topic,
                    topic_id=topic.topic_id,
                    partitions=[
                        self._fetch_partition(
                            self.cluster.find(topic.topic, topic.topic_id, asked.partition), asked
                        )
                        for asked in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def _fetch_partition(
        self, partition: ModelPartition | None, asked: FetchPartition
    ) -> PartitionData:
        code = self._refusal(partition)
        data = b""
        end = -1
        if partition is not None and code is ErrorCode.NONE:
            end = partition.end_offset
            if not partition.log_start_offset <= asked.fetch_offset <= end:
                code = ErrorCode.OFFSET_OUT_OF_RANGE
            elif asked.fetch_offset in partition.unreadable:
                code = ErrorCode.CORRUPT_MESSAGE
            for batch in partition.stored:
                if batch.next_offset <= asked.fetch_offset:
                    continue
                if data and len(data) + len(batch.view) > asked.partition_max_bytes:
                    break
                data += batch.view
        return PartitionData(
            partition_index=asked.partition, error_code=code, high_watermark=end, records=data
        )


class _Connection(asyncio.Protocol):
    """One client's connection to one broker."""

    transport: asyncio.Transport

    def __init__(self, broker: ModelBroker) -> None:
        self._broker = broker
        self._frames = FrameReader(FRAME_BYTES_MAX)
        self._waiting: deque[bytes] = deque()
        self._is_busy = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._broker.connections.append(self)

    def data_received(self, data: bytes) -> None:
        for request in self._frames.feed(memoryview(data)):
            self._waiting.append(bytes(request))
        self._handle_next()

    def _handle_next(self) -> None:
        """One request at a time: the next is looked at when this one is answered."""
        while self._waiting and not self._is_busy:
            request = memoryview(self._waiting.popleft())
            header, position = decode_request_header(request)
            cls = request_class(header.api_key)
            message, _ = decode(cls, header.api_version, request, position)
            try:
                answer = self._broker.answer(message)
            except HangUpError:
                self.transport.abort()
                return
            except SilenceError:
                continue
            # An empty fetch waits, as with a real broker; anything else only if the test says so.
            delay_s = self._broker.cluster.answer_delay_s(self._broker, message)
            if isinstance(message, FetchRequest) and _is_empty(answer):
                delay_s = message.max_wait_ms / 1000
            if delay_s:
                self._is_busy = True
                asyncio.get_running_loop().call_later(delay_s, self._send, header, answer)
            else:
                self._send(header, answer)

    def _send(self, header: RequestHeader, answer: Message) -> None:
        key, version, correlation_id, _ = header
        body = encode_bytes(answer, version)
        for chunk in frame([response_header(key, version, correlation_id), body]):
            assert isinstance(chunk, bytes)
            self.transport.write(chunk)
        if self._is_busy:
            self._is_busy = False
            self._handle_next()


def _is_empty(answer: Message) -> bool:
    return isinstance(answer, FetchResponse) and not any(
        data.records or data.error_code for topic in answer.responses for data in topic.partitions
    )
