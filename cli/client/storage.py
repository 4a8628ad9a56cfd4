"""`tierlog topic storage`: what of each partition is on the leader's disk, and what in the tier.

Made from ListOffsets (KIP-405, KIP-1005, KIP-1023) and DescribeLogDirs, so that it works on any
Kafka. The fields have the names of the status page's API (docs/status-page.md).
"""

import argparse

from ...clients.admin import Admin
from ...clients.kafka_uuid import uuid_to_string
from ...clients.network.metadata import TopicMetadata
from ...clients.network.refusal import raise_for
from ...clients.offset_names import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
)
from ...clients.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from ...clients.topic_partition import TopicPartition
from .client_session import Session

_OFFSETS = {
    "log_start": EARLIEST_TIMESTAMP,
    "local_start": EARLIEST_LOCAL_TIMESTAMP,
    "last_tiered": LATEST_TIERED_TIMESTAMP,
    "pending_upload": EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    "high_watermark": LATEST_TIMESTAMP,
}
_READ_COMMITTED = 1
_NO_OFFSET = -1


async def show_storage(parsed: argparse.Namespace, session: Session) -> None:
    """Print the storage of the topics."""

    async def show(name: str) -> dict[str, object]:
        (topic,) = (await admin.describe_topics([name])).values()
        rows = await _rows(admin, name, topic)
        tiered = any(row["last_tiered"] is not None for row in rows)
        session.line(f"{name}: {'with' if tiered else 'without'} records in a remote tier")
        session.table(_HEAD, [[_cell(row[key]) for key in _KEYS] for row in rows])
        return {"name": name, "id": uuid_to_string(topic.topic_id), "partitions": rows}

    async with session.admin() as admin:
        session.result(await session.each(parsed.names, show))


_KEYS = (
    *("partition", "leader", "log_start", "local_start", "last_tiered", "high_watermark"),
    *("tier_only", "local", "bytes_local"),
)
_HEAD = (
    *("partition", "leader", "log start", "local start", "last tiered", "high watermark"),
    *("tier only", "local", "bytes local"),
)


def _cell(value: object) -> str:
    return "none" if value is None else str(value)


async def _rows(admin: Admin, name: str, topic: TopicMetadata) -> list[dict[str, object]]:
    led = [
        TopicPartition(name, number)
        for number, partition in sorted(topic.partitions.items())
        if partition.leader_id >= 0
    ]
    offsets = {
        field: await admin.list_offsets(dict.fromkeys(led, timestamp))
        for field, timestamp in _OFFSETS.items()
    }
    stable = await admin.list_offsets(
        dict.fromkeys(led, LATEST_TIMESTAMP), isolation_level=_READ_COMMITTED
    )
    sizes = await _sizes(admin, name, topic)
    rows: list[dict[str, object]] = []
    for number, partition in sorted(topic.partitions.items()):
        row: dict[str, object] = {"partition": number, "leader": partition.leader_id}
        at = TopicPartition(name, number)
        values = {
            field: answers[at].offset if at in answers and answers[at].offset >= 0 else None
            for field, answers in (*offsets.items(), ("last_stable", stable))
        }
        row |= values
        row["tier_only"] = _distance(values["log_start"], values["local_start"])
        row["local"] = _distance(values["local_start"], values["high_watermark"])
        row["bytes_local"] = sizes.get(number)
        rows.append(row)
    return rows


def _distance(start: int | None, end: int | None) -> int | None:
    return None if start is None or end is None else end - start


async def _sizes(admin: Admin, name: str, topic: TopicMetadata) -> dict[int, int]:
    """The bytes of each partition on its leader's disk."""
    sizes: dict[int, int] = {}
    for leader in {each.leader_id for each in topic.partitions.values()} - {_NO_OFFSET}:
        led = [n for n, each in topic.partitions.items() if each.leader_id == leader]
        request = DescribeLogDirsRequest(
            topics=[DescribableLogDirTopic(topic=name, partitions=led)]
        )
        response = await admin.network.request(leader, request, DescribeLogDirsResponse)
        raise_for(response.error_code, f"Broker {leader} does not say what its disks hold.")
        for directory in response.results:
            for listed in directory.topics:
                for partition in listed.partitions:
                    if not partition.is_future_key:
                        sizes[partition.partition_index] = partition.partition_size
    return sizes
