"""What decoding and encoding the hot messages costs: `python -m tierlog.bench.micro.protocol`.

CPU time of this process, best of five rounds, so that a busy machine disturbs little. Partitions
are ten to a topic. Beside the message codecs: compiling one, and a frame with its header.
"""

from functools import partial

from ...clients.protocol.api import ApiKey
from ...clients.protocol.codec import decode, encode, encode_bytes
from ...clients.protocol.connection import FrameReader, frame
from ...clients.protocol.decoder import decoder_source
from ...clients.protocol.encoder import encoder_source
from ...clients.protocol.header import (
    RequestHeader,
    decode_request_header,
    encode_request_header,
    response_header,
)
from ...clients.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from ...clients.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from .record import cpu_seconds_per_call

PARTITIONS = (1, 10, 100)
PER_TOPIC = 10
BATCH = memoryview(bytes(16_384))


def topics(partitions: int) -> list[tuple[str, range]]:
    return [
        (f"topic-{first}", range(min(PER_TOPIC, partitions)))
        for first in range(0, partitions, PER_TOPIC)
    ]


def produce_request(partitions: int) -> ProduceRequest:
    return ProduceRequest(
        acks=-1,
        timeout_ms=30_000,
        topic_data=[
            TopicProduceData(
                name=name,
                partition_data=[
                    PartitionProduceData(index=index, records=BATCH) for index in indexes
                ],
            )
            for name, indexes in topics(partitions)
        ],
    )


def produce_response(partitions: int) -> ProduceResponse:
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=name,
                partition_responses=[
                    PartitionProduceResponse(index=index, base_offset=1 << 40) for index in indexes
                ],
            )
            for name, indexes in topics(partitions)
        ]
    )


def fetch_request(partitions: int) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=500,
        topics=[
            FetchTopic(
                topic=name,
                partitions=[
                    FetchPartition(partition=index, fetch_offset=1 << 40) for index in indexes
                ],
            )
            for name, indexes in topics(partitions)
        ],
    )


def fetch_response(partitions: int, records: memoryview | None) -> FetchResponse:
    return FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic=name,
                partitions=[
                    PartitionData(
                        partition_index=index,
                        high_watermark=1 << 40,
                        aborted_transactions=None,
                        records=records,
                    )
                    for index in indexes
                ],
            )
            for name, indexes in topics(partitions)
        ]
    )


def messages() -> None:
    print(f"{'us for partitions:':34}" + "".join(f"{count:10}" for count in PARTITIONS))
    produced = [memoryview(encode_bytes(produce_request(count), 9)) for count in PARTITIONS]
    fetched = [memoryview(encode_bytes(fetch_request(count), 12)) for count in PARTITIONS]
    full = [fetch_response(count, BATCH) for count in PARTITIONS]
    empty = [fetch_response(count, None) for count in PARTITIONS]
    done = [produce_response(count) for count in PARTITIONS]
    for name, calls in (
        ("decode Produce request 9", [partial(decode, ProduceRequest, 9, one) for one in produced]),
        ("encode Produce response 9", [partial(encode, one, 9) for one in done]),
        ("decode Fetch request 12", [partial(decode, FetchRequest, 12, one) for one in fetched]),
        ("encode Fetch response 12", [partial(encode, one, 12) for one in full]),
        ("encode Fetch response 12, empty", [partial(encode, one, 12) for one in empty]),
    ):
        row = "".join(f"{cpu_seconds_per_call(call) * 1e6:10.2f}" for call in calls)
        print(f"{name:34}{row}")


def the_rest() -> None:
    header = RequestHeader(ApiKey.FETCH, 12, 7, "client-1")
    encoded_header = memoryview(encode_request_header(header))
    body = encode(fetch_response(1, BATCH), 12)
    request = memoryview(len(encoded_header).to_bytes(4) + encoded_header)
    reader = FrameReader(1 << 20)
    for name, call in (
        ("decode request header", lambda: decode_request_header(encoded_header)),
        ("frame in", lambda: list(reader.feed(request))),
        ("frame out", lambda: frame([response_header(ApiKey.FETCH, 12, 7), *body])),
        ("write a decoder", lambda: decoder_source(FetchRequest, 12).compile("decoder")),
        ("write an encoder", lambda: encoder_source(FetchResponse, 12).compile("encoder")),
    ):
        print(f"{name:34}{cpu_seconds_per_call(call) * 1e6:10.2f}")


if __name__ == "__main__":
    messages()
    the_rest()
