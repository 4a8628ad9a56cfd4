"""The bytes that hostile clients send in each attack of the scenario `hostile`.

They are created once, before anything is sent. No attack needs a password, and each is small
compared with the work that it causes for an unprepared broker.
"""

import random
import zlib
from collections.abc import Callable
from struct import Struct, pack
from typing import NamedTuple

from crc32c import crc32c

from ...clients.protocol.messages.api_versions import ApiVersionsRequest
from ...clients.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ...clients.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from ...clients.protocol.messages.describe_groups import DescribeGroupsRequest
from ...clients.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ...clients.protocol.messages.find_coordinator import FindCoordinatorRequest
from ...clients.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
)
from ...clients.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ...clients.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ...clients.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from ...clients.record.layout import HEADER
from ..wire import prepare

TOPIC = "hostile-compacted"
"""The topic of the attacks: compacted, so that a broker must inspect its records."""

_MEBIBYTE = 1 << 20
_CLIENT_METRICS, _BROKER = 16, "0"
_BROKER_RESOURCE = 4
_LONGEST_WAIT_MS = 2**31 - 1
_CRC = Struct(">I")
_CRC_AT, _AFTER_CRC = 17, 21
_EMPTY_RECORD = bytes([12, 0, 0, 0, 0, 0, 0])
"""Length 6, no key, no value, no headers."""
_RECORDS_A_BLOCK = 65_536


class Attack(NamedTuple):
    """The number of connections of an attack, and the bytes that each sends, by its number.

    A connection that the broker closes is opened again. With `stays_s` the attacker closes each
    connection after this time and opens another. With `is_trickle` it sends one byte at a time.
    """

    connections: int
    content: Callable[[int], bytes]
    repeats: bool = False
    reads: bool = True
    stays_s: float | None = None
    is_trickle: bool = False


def attack_named(name: str, weight: float) -> Attack:
    """The attack with this name; a `weight` below 1 makes it smaller. Raises KeyError."""
    return _ATTACKS[name](weight)


def _many(count: int, weight: float) -> int:
    return max(1, int(count * weight))


def _always(content: bytes) -> Callable[[int], bytes]:
    """The same bytes for each connection."""

    def of_connection(_number: int) -> bytes:
        return content

    return of_connection


def _pipelined(connections: int) -> Callable[[float], Attack]:
    def attack(weight: float) -> Attack:
        ask = prepare(ApiVersionsRequest(), 0).frame * _many(24_000, weight)
        return Attack(connections, _always(ask), repeats=True)

    return attack


def _parked(weight: float) -> Attack:
    """Fetches that wait for 24 days, followed by more requests; then the connections close."""
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=_MEBIBYTE)
    topic = FetchTopic(topic=TOPIC, partitions=[partition])
    request = FetchRequest(
        max_wait_ms=_LONGEST_WAIT_MS, min_bytes=_MEBIBYTE, max_bytes=_MEBIBYTE, topics=[topic]
    )
    behind = prepare(ApiVersionsRequest(), 0).frame * 10_000
    content = prepare(request, 11).frame + behind
    return Attack(_many(200, weight), _always(content), stays_s=0.5)


def _never_reading(weight: float) -> Attack:
    ask = prepare(ApiVersionsRequest(), 0).frame * 24_000
    return Attack(_many(200, weight), _always(ask), repeats=True, reads=False)


def _unfinished(weight: float) -> Attack:
    size = _many(99 * _MEBIBYTE, weight)
    content = pack(">i", size) + bytes(size - 1)
    return Attack(30, _always(content))


def _slowloris(weight: float) -> Attack:
    size = pack(">i", _MEBIBYTE)
    return Attack(_many(1_000, weight), _always(size + bytes(_MEBIBYTE - 1)), is_trickle=True)


def _junk(weight: float) -> Attack:
    chance = random.Random(22)

    def content(number: int) -> bytes:
        body = chance.randbytes(2_000)
        # Correct and wrong sizes, and existing API keys with random bodies.
        size = len(body) if number % 3 else chance.randrange(2**31)
        return pack(">ihh", size, number % 80, number % 12) + body

    return Attack(_many(50, weight), content, stays_s=1.0)


def _regex(_weight: float) -> Attack:
    change = AlterConfigsResource(
        resource_type=_CLIENT_METRICS,
        resource_name="hostile",
        configs=[
            AlterableConfig(name="match", config_operation=0, value="client_id=(a+)+b"),
            AlterableConfig(name="metrics", config_operation=0, value="*"),
            AlterableConfig(name="interval.ms", config_operation=0, value="1000"),
        ],
    )
    subscribe = prepare(IncrementalAlterConfigsRequest(resources=[change]), 1).frame
    ask = prepare(GetTelemetrySubscriptionsRequest(), 0, client_id="a" * 45).frame
    return Attack(2, _always(subscribe + ask), stays_s=1.0)


def _partitions(weight: float) -> Attack:
    def content(number: int) -> bytes:
        topic = CreatableTopic(
            name=f"hostile-{number}", num_partitions=_many(5_000, weight), replication_factor=1
        )
        return prepare(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 5).frame

    return Attack(2, content)


def _arrays(weight: float) -> Attack:
    """Requests of up to 5 MB that repeat the same entry many times."""
    configs = DescribeConfigsResource(resource_type=_BROKER_RESOURCE, resource_name=_BROKER)
    names = [MetadataRequestTopic(name=f"t{number}") for number in range(_many(200_000, weight))]
    frames = [
        prepare(DescribeConfigsRequest(resources=[configs] * _many(5_000, weight)), 1).frame,
        prepare(DescribeGroupsRequest(groups=[""] * _many(1_000_000, weight)), 4).frame,
        prepare(MetadataRequest(topics=names, allow_auto_topic_creation=False), 4).frame,
        prepare(FindCoordinatorRequest(coordinator_keys=["g"] * _many(500_000, weight)), 4).frame,
    ]

    def content(number: int) -> bytes:
        return frames[number % len(frames)]

    return Attack(len(frames), content, repeats=True)


def _bombs(weight: float) -> Attack:
    """A produce request of 130 KB with 128 MiB of decompressed records, to a compacted topic."""
    blocks = max(1, _many(128 * _MEBIBYTE, weight) // (_RECORDS_A_BLOCK * len(_EMPTY_RECORD)))
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    block = _EMPTY_RECORD * _RECORDS_A_BLOCK
    packed = b"".join(packer.compress(block) for _ in range(blocks)) + packer.flush()
    records = blocks * _RECORDS_A_BLOCK
    gzip, now = 1, 1_700_000_000_000
    head = (0, 49 + len(packed), -1, 2, 0, gzip, records - 1, now, now, -1, -1, -1, records)
    batch = bytearray(HEADER.pack(*head) + packed)
    _CRC.pack_into(batch, _CRC_AT, crc32c(bytes(batch[_AFTER_CRC:])))
    partition = PartitionProduceData(index=0, records=bytes(batch))
    topic = TopicProduceData(name=TOPIC, partition_data=[partition])
    frame = prepare(ProduceRequest(acks=1, timeout_ms=1_000, topic_data=[topic]), 7).frame
    return Attack(2, _always(frame), repeats=True)


_ATTACKS: dict[str, Callable[[float], Attack]] = {
    "pipelined_10": _pipelined(10),
    "pipelined_50": _pipelined(50),
    "parked": _parked,
    "never_reading": _never_reading,
    "unfinished": _unfinished,
    "slowloris": _slowloris,
    "junk": _junk,
    "regex": _regex,
    "partitions": _partitions,
    "arrays": _arrays,
    "bombs": _bombs,
}
ATTACKS = tuple(_ATTACKS)
