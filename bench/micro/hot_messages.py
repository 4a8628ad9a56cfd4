"""The hot messages as clients and brokers send them, with ten partitions per topic."""

from ...clients.protocol.api import ApiKey
from ...clients.protocol.header import RequestHeader
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

PER_TOPIC = 10
BATCH = memoryview(bytes(16_384))
HEADER = RequestHeader(ApiKey.FETCH, 12, 7, "client-1")


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
