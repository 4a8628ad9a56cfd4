"""A plain connection to any Kafka-compatible broker, to send requests and time their responses.

The scenarios with many partitions and connections measure the broker, and a full client would
disturb that: it requests metadata on its own and decodes every response. Here a request is encoded
before the timing starts, and its response is decoded after it ends, or not at all.
"""

import socket
import time
from collections.abc import Callable, Mapping, Sequence
from struct import Struct
from typing import NamedTuple, Self, TypeVar

from ....clients.errors import ErrorCode
from ....clients.kafka_uuid import Uuid
from ....clients.protocol.codec import decode, encode_bytes
from ....clients.protocol.header import (
    RequestHeader,
    decode_response_header,
    encode_request_header,
)
from ....clients.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ....clients.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from ....clients.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
)
from ....clients.protocol.schema import Message
from ..measurement_error import MeasurementError

M = TypeVar("M", bound=Message)
T = TypeVar("T")

_SIZE = Struct(">i")
_METADATA_VERSION = 12
_CREATE_VERSION = 5
_DELETE_VERSION = 6
_PATIENCE_S = 120.0
_POLL_S = 0.01
_NOT_YET = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_ID,
)


class WireError(MeasurementError):
    """The broker closed the connection, timed out or returned an error."""


class Prepared(NamedTuple):
    """An encoded request, and the header to decode its response."""

    frame: bytes
    header: RequestHeader


def prepare(request: Message, version: int, client_id: str = "tierlog-bench") -> Prepared:
    """Encode a request, which may be sent any number of times."""
    header = RequestHeader(type(request).api_key, version, 7, client_id)
    body = encode_request_header(header) + encode_bytes(request, version)
    return Prepared(_SIZE.pack(len(body)) + body, header)


class Wire:
    """A blocking connection. Use as a context manager, or `close` it."""

    def __init__(self, bootstrap: str, timeout_s: float = _PATIENCE_S) -> None:
        host, _, port = bootstrap.rpartition(":")
        try:
            self.socket = socket.create_connection((host, int(port)), timeout_s)
        except OSError as error:
            raise WireError(f"{bootstrap} accepts no connection: {error}.") from error
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, prepared: Prepared) -> None:
        try:
            self.socket.sendall(prepared.frame)
        except OSError as error:
            raise WireError(f"The request could not be sent: {error}.") from error

    def receive(self) -> memoryview:
        """The next response, including its header. Raises WireError."""
        (size,) = _SIZE.unpack(self._exactly(_SIZE.size))
        return self._exactly(size)

    def _exactly(self, size: int) -> memoryview:
        received = memoryview(bytearray(size))
        have = 0
        while have < size:
            try:
                count = self.socket.recv_into(received[have:])
            except OSError as error:
                raise WireError(f"No response came: {error}.") from error
            if count == 0:
                raise WireError("The broker closed the connection.")
            have += count
        return received

    def answer_ms(self, prepared: Prepared) -> float:
        """Milliseconds from sending the request to the last byte of its response."""
        began = time.perf_counter()
        self.send(prepared)
        self.receive()
        return (time.perf_counter() - began) * 1000

    def ask(self, request: Message, version: int, expected: type[M]) -> M:
        """Send a request and return the decoded response."""
        prepared = prepare(request, version)
        self.send(prepared)
        return decoded(self.receive(), prepared.header, expected)


def decoded(frame: memoryview, header: RequestHeader, expected: type[M]) -> M:
    """Decode a received response."""
    _, position = decode_response_header(header.api_key, header.api_version, frame)
    return decode(expected, header.api_version, frame, position)[0]


def all_topics() -> Prepared:
    """The request for the metadata of every topic."""
    return prepare(MetadataRequest(topics=None), _METADATA_VERSION)


def until_served(ask: Callable[[], tuple[int, T]], what: str) -> T:
    """Repeat a request while its error code means that a new topic is not ready yet.

    A broker may confirm a topic before its metadata lists the topic, and name a leader that does
    not have it yet. Raises WireError for another error code, or if it takes too long.
    """
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        refused, answer = ask()
        if refused not in _NOT_YET or time.monotonic() > deadline:
            refuse(what, refused)
            return answer
        time.sleep(_POLL_S)


def topic_id(wire: Wire, topic: str) -> Uuid:
    """The id of a topic, once all its partitions have leaders. Raises WireError."""
    topics = [MetadataRequestTopic(name=topic)]
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)

    def ask() -> tuple[int, Uuid]:
        (described,) = wire.ask(request, _METADATA_VERSION, MetadataResponse).topics
        codes = [
            described.error_code,
            *(partition.error_code for partition in described.partitions),
        ]
        return next((code for code in codes if code), 0), described.topic_id

    return until_served(ask, f"Metadata of {topic}")


def partitions_at(
    bootstrap: str, topics: Sequence[str] | None, timeout_s: float
) -> dict[tuple[str, int], MetadataResponsePartition]:
    """The partitions of these topics, or of all, as one broker has them; none if it is silent."""
    named = None if topics is None else [MetadataRequestTopic(name=topic) for topic in topics]
    request = MetadataRequest(topics=named, allow_auto_topic_creation=False)
    try:
        with Wire(bootstrap, timeout_s) as wire:
            answer = wire.ask(request, _METADATA_VERSION, MetadataResponse)
    except WireError:
        return {}
    return {
        (topic.name or "", partition.partition_index): partition
        for topic in answer.topics
        for partition in topic.partitions
    }


def create_topic(wire: Wire, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
    """Create a topic and wait for the response. Raises WireError."""
    stated = [CreatableTopicConfig(name=name, value=configs[name]) for name in configs]
    creatable_topic = CreatableTopic(
        name=topic, num_partitions=partitions, replication_factor=1, configs=stated
    )
    request = CreateTopicsRequest(topics=[creatable_topic], timeout_ms=int(_PATIENCE_S * 1000))
    (created,) = wire.ask(request, _CREATE_VERSION, CreateTopicsResponse).topics
    refuse(f"CreateTopics of {partitions} partitions", created.error_code)


def delete_topic(wire: Wire, topic: str) -> None:
    """Delete a topic and wait for the response. Raises WireError."""
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=topic)], timeout_ms=int(_PATIENCE_S * 1000)
    )
    (deleted,) = wire.ask(request, _DELETE_VERSION, DeleteTopicsResponse).responses
    refuse("DeleteTopics", deleted.error_code)


def refuse(what: str, error_code: int) -> None:
    """Raise WireError unless the error code is 0."""
    if error_code:
        raise WireError(f"{what} was answered with {ErrorCode(error_code).name}.")
