"""The attacks of the scenario `hostile` that send much, and the names of all."""

import random
import zlib
from collections.abc import Callable
from struct import Struct, pack

from crc32c import crc32c

from .....clients.protocol.messages.api_versions import ApiVersionsRequest
from .....clients.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from .....clients.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from .....clients.protocol.messages.describe_groups import DescribeGroupsRequest
from .....clients.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from .....clients.protocol.messages.find_coordinator import FindCoordinatorRequest
from .....clients.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
)
from .....clients.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from .....clients.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from .....clients.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from .....clients.record.layout import HEADER
from ...requests.wire import prepare
from .attack import Again, Attack, Pace, always, many
from .silent_attacks import SILENT_ATTACKS

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


def attack_named(name: str, weight: float) -> Attack:
    """The attack with this name; a `weight` below 1 makes it smaller. Raises KeyError."""
    return _ATTACKS[name](weight)


def _pipelined(connections: int) -> Callable[[float], Attack]:
    def attack(weight: float) -> Attack:
        ask = prepare(ApiVersionsRequest(), 0).frame * many(24_000, weight)
        return Attack(connections, always(ask), again=Again.ALWAYS)

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
    return Attack(many(200, weight), always(content), stays_s=0.5)


def _never_reading(weight: float) -> Attack:
    ask = prepare(ApiVersionsRequest(), 0).frame * 24_000
    return Attack(many(200, weight), always(ask), again=Again.ALWAYS, reads=False)


def _unfinished(weight: float) -> Attack:
    size = many(99 * _MEBIBYTE, weight)
    content = pack(">i", size) + bytes(size - 1)
    return Attack(30, always(content))


def _slowloris(weight: float) -> Attack:
    size = pack(">i", _MEBIBYTE)
    return Attack(
        many(1_000, weight),
        always(size + bytes(_MEBIBYTE - 1)),
        pace=Pace(at_once=0, then=1, every_s=0),
    )


def _junk(weight: float) -> Attack:
    chance = random.Random(22)

    def content(number: int) -> bytes:
        body = chance.randbytes(2_000)
        # Correct and wrong sizes, and existing API keys with random bodies.
        size = len(body) if number % 3 else chance.randrange(2**31)
        return pack(">ihh", size, number % 80, number % 12) + body

    return Attack(many(50, weight), content, stays_s=1.0)


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
    return Attack(2, always(subscribe + ask), stays_s=1.0)


def _partitions(weight: float) -> Attack:
    def content(number: int) -> bytes:
        topic = CreatableTopic(
            name=f"hostile-{number}", num_partitions=many(5_000, weight), replication_factor=1
        )
        return prepare(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 5).frame

    return Attack(2, content)


def _arrays(weight: float) -> Attack:
    """Requests of up to 5 MB that repeat the same entry many times."""
    configs = DescribeConfigsResource(resource_type=_BROKER_RESOURCE, resource_name=_BROKER)
    names = [MetadataRequestTopic(name=f"t{number}") for number in range(many(200_000, weight))]
    frames = [
        prepare(DescribeConfigsRequest(resources=[configs] * many(5_000, weight)), 1).frame,
        prepare(DescribeGroupsRequest(groups=[""] * many(1_000_000, weight)), 4).frame,
        prepare(MetadataRequest(topics=names, allow_auto_topic_creation=False), 4).frame,
        prepare(FindCoordinatorRequest(coordinator_keys=["g"] * many(500_000, weight)), 4).frame,
    ]

    def content(number: int) -> bytes:
        return frames[number % len(frames)]

    return Attack(len(frames), content, again=Again.ALWAYS)


def _bombs(weight: float) -> Attack:
    """A produce request of 130 KB with 128 MiB of decompressed records, to a compacted topic."""
    blocks = max(1, many(128 * _MEBIBYTE, weight) // (_RECORDS_A_BLOCK * len(_EMPTY_RECORD)))
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
    return Attack(2, always(frame), again=Again.ALWAYS)


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
    **SILENT_ATTACKS,
}
ATTACKS = tuple(_ATTACKS)
