"""Objects of a tier as somebody writes them who knows the formats and means no good.

Each is made from its format: a manifest with a field of another type, counts that nothing can hold,
keys that lead elsewhere, an index out of order under a checksum that is right. One object of a
sound bucket is replaced, or one is added; `hostile_bucket` says which and what was done to it.
"""

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import import_module
from struct import Struct
from typing import Any, NamedTuple, cast

from tierlog.clients.record.batch import stamp_crc
from tierlog.clients.record.checksum import crc32c
from tierlog.clients.topic_partition import TopicIdPartition
from tierlog.storage.producer.producer_entry import ProducerEntry
from tierlog.storage.producer.producer_snapshot import encode_snapshot
from tierlog.storage.remote.remote_segment import RemoteLogSegmentMetadata
from tierlog.tests.tiering.remote_partition import PARTITION
from tierlog.tests.tiering.tools.bucket import Bucket
from tierlog.tiering.store.manifest import TopicDescription
from tierlog.tiering.store.object_keys import object_key, object_stem
from tierlog.tiering.tier_owner import OWNER_KEY

# msgpack publishes no types.
_msgpack = import_module("msgpack")
packed = cast("Callable[[object], bytes]", _msgpack.packb)
unpacked = cast("Callable[[bytes], dict[str, Any]]", _msgpack.unpackb)
_extension = cast("Callable[[int, bytes], object]", _msgpack.ExtType)

OTHER = TopicIdPartition(PARTITION.topic_id, PARTITION.topic, 1)
PAYMENTS = PARTITION._replace(topic="payments", topic_id=type(PARTITION.topic_id)(b"payments" * 2))

_TXN_ENTRY = Struct(">hqqqq")
_OFFSET_ENTRY = Struct(">ii")
_TIME_ENTRY = Struct(">qi")
_INT64 = Struct(">q")
_INT32 = Struct(">i")

LONG = "x" * 100_000
CONTROL = "\n2026-01-01 ERROR forged\r\x1b[31m\x00"


class HostileBucket(NamedTuple):
    """A bucket, and what in it is not as it should be."""

    bucket: Bucket
    segments: tuple[RemoteLogSegmentMetadata, ...]
    """All that were sound."""
    key: str
    what: str

    @property
    def untouched(self) -> tuple[RemoteLogSegmentMetadata, ...]:
        """Those whose own objects are as they were."""
        stem = self.key.rpartition(".")[0]
        return tuple(each for each in self.segments if object_stem(each) != stem)


def sound_bucket() -> tuple[Bucket, tuple[RemoteLogSegmentMetadata, ...]]:
    """Two topics, three partitions, two epochs; one segment has an aborted transaction."""
    bucket = Bucket()
    history = ((0, 0), (3, 14))
    described = TopicDescription(2, {"retention.ms": "-1", "remote.storage.enable": "true"})
    segments = [
        bucket.put(1, (0, 9), history, topic=described),
        bucket.put(2, (10, 19), history, topic=described, producers=[ProducerEntry(7, 0)]),
        bucket.put(3, (20, 29), history, topic=described),
        bucket.put(4, (0, 9), partition=OTHER, topic=described),
        bucket.put(5, (0, 9), partition=PAYMENTS),
    ]
    log = bucket.objects[object_key(segments[4], "log")]
    segments[4] = bucket.put_log(
        5,
        log,
        partition=PAYMENTS,
        others={
            "txnindex": _TXN_ENTRY.pack(0, 7, 2, 5, 6),
            "snapshot": encode_snapshot([ProducerEntry(7, 0)]),
        },
    )
    return bucket, tuple(segments)


def hostile_bucket(seed: int) -> HostileBucket:
    """One bad object in a bucket that is sound otherwise."""
    chance = random.Random(seed)
    bucket, segments = sound_bucket()
    segment = chance.choice(segments)
    kind = chance.choice((*_KINDS, "manifest", "manifest", "manifest"))
    key, what = _KINDS[kind](chance, bucket, segment)
    return HostileBucket(bucket, segments, key, f"{kind}: {what}")


def _deep(depth: int) -> object:
    content: object = 0
    for _ in range(depth):
        content = [content]
    return content


def _values(chance: random.Random) -> object:
    """What a field may hold that nobody thought of."""
    return chance.choice(
        (
            *(None, True, False, -1, 0, 1, 2**31, 2**63 - 1, 2**63, 2**64 - 1, -(2**63)),
            *(1.5, float("nan"), float("inf"), -0.0),
            *("", "12", "-1", "1e3", "٣", LONG, CONTROL, "../../etc/passwd", "a/b", ".", ".."),
            *(b"", b"\xff\xfe", b"x" * 16, b"x" * 17),
            *([], {}, [[]], [1, 2, 3], {"a": 1}, {1: 2}, _deep(10), _deep(400)),
            *([["0", "0"]], [[0, 0, 0]], [[0.0, 0.0]], [[True, False]], [[5, 0], [4, 3]]),
            *([[each, 0] for each in range(3000)], [[0, -5]], [[-5, 0]], [[2**40, 0]]),
            _extension(5, b"what"),
        )
    )


def _manifest(
    chance: random.Random, bucket: Bucket, segment: RemoteLogSegmentMetadata
) -> tuple[str, str]:
    key = object_key(segment, "manifest")
    content = bucket.objects[key]
    fields = unpacked(content)
    way = chance.randrange(9)
    if way <= 3:
        name = chance.choice(sorted(fields))
        fields[name] = value = _values(chance)
        bucket.objects[key] = packed(fields)
        return key, f"{name}={str(value)[:40]!a}"
    if way == 4:
        name = chance.choice(sorted(fields))
        del fields[name]
        bucket.objects[key] = packed(fields)
        return key, f"without {name}"
    if way == 5:
        return key, _parts(chance, bucket, key, fields)
    if way == 6:
        cut = content[: chance.randrange(len(content))]
        bucket.objects[key] = cut + chance.choice((b"", b"\x00", bytes(50)))
        return key, "cut"
    if way == 7:
        raw, what = chance.choice(_RAW)
        bucket.objects[key] = raw
        return key, what
    other = chance.choice([each for each in bucket.objects if each != key])
    bucket.objects[key] = bucket.objects[other]
    return key, f"the content of {other}"


_RAW = (
    (b"", "empty"),
    (b"\xc1", "no msgpack"),
    (b"\xdd\xff\xff\xff\xff", "an array of four billion"),
    (b"\xdf\xff\xff\xff\xff", "a map of four billion"),
    (b"\xdb\xff\xff\xff\xff", "a text of four gigabytes"),
    (b"\x91" * 100_000 + b"\x00", "a hundred thousand arrays in one another"),
    (b"\x81\xa1a" * 2000 + b"\x00", "two thousand maps in one another"),
    (b"\x82\xa7version\x01\xa7version\x02", "a key twice"),
    (b"\x81\xa7version\xa3\xff\xfe\xfd", "no UTF-8"),
    (b"\x81\xa7version\x02", "another version"),
    (b"\x81\xa7version\xd9\x20" + CONTROL.ljust(32).encode()[:32], "a version of control letters"),
    (b"\x81\xc4\x01a\x00", "a key of bytes"),
    (b"\x81\x91\x00\x00", "a key that is an array"),
    (json.dumps({"version": 1}).encode(), "JSON"),
    (packed({"version": 1, "parts": {"log": [0, 0]}}), "only its parts"),
)


def _parts(chance: random.Random, bucket: Bucket, key: str, fields: dict[str, Any]) -> str:
    parts = cast("dict[str, object]", fields["parts"])
    suffix = chance.choice(
        (*sorted(parts), "log/../../x", "../../../etc/passwd", "", "a/b", CONTROL, LONG, "manifest")
    )
    size, crc = cast("list[int]", parts.get(suffix, [10, 0]))
    value: object = chance.choice(
        (
            *([-1, crc], [2**62, crc], [2**31, crc], [size + 1, crc], [size, crc ^ 1]),
            *([float(size), crc], [size, float(crc)], [str(size), str(crc)], [True, False]),
            *(
                [size],
                [size, crc, 0],
                [],
                None,
                "ab",
                {},
                [None, None],
                [size, -1],
                [size, 2**70 >> 7],
            ),
        )
    )
    parts[suffix] = value
    bucket.objects[key] = packed(fields)
    return f"part {suffix[:30]!a}={value}"


def _forged(bucket: Bucket, segment: RemoteLogSegmentMetadata, suffix: str, content: bytes) -> str:
    """Replace a part, and let the manifest say that it is right; the part's key."""
    key = object_key(segment, "manifest")
    fields = unpacked(bucket.objects[key])
    fields["parts"][suffix] = [len(content), crc32c(content)]
    bucket.objects[key] = packed(fields)
    bucket.objects[object_key(segment, suffix)] = content
    return object_key(segment, suffix)


def _entries(struct: Struct, chance: random.Random, count: int) -> bytes:
    """Entries of numbers out of order and out of every range."""
    bounds = {"h": 15, "i": 31, "q": 63}
    content = b""
    for _ in range(count):
        fields: list[int] = []
        for letter in struct.format.removeprefix(">"):
            top = 2 ** bounds[letter]
            fields.append(
                chance.choice((-1, 0, 1, 5, 9, 100, top - 1, -top, chance.randrange(-top, top)))
            )
        content += struct.pack(*fields)
    return content


_STRUCTS: Mapping[str, Struct] = {
    "index": _OFFSET_ENTRY,
    "timeindex": _TIME_ENTRY,
    "txnindex": _TXN_ENTRY,
}


def _index(
    chance: random.Random, bucket: Bucket, segment: RemoteLogSegmentMetadata
) -> tuple[str, str]:
    suffix = chance.choice([each for each in _STRUCTS if _has(bucket, segment, each)])
    content = _entries(_STRUCTS[suffix], chance, chance.choice((1, 2, 3, 50)))
    content += bytes(chance.choice((0, 0, 1, 7)))
    if chance.random() < 0.3:
        key = object_key(segment, suffix)
        bucket.objects[key] = content
        return key, f"{suffix} that no manifest knows"
    return _forged(bucket, segment, suffix, content), f"{suffix} out of order"


def _has(bucket: Bucket, segment: RemoteLogSegmentMetadata, suffix: str) -> bool:
    return object_key(segment, suffix) in bucket.objects


def _snapshot(
    chance: random.Random, bucket: Bucket, segment: RemoteLogSegmentMetadata
) -> tuple[str, str]:
    count = chance.choice((0, 1, 3, -1, 2**31 - 1, -(2**31)))
    body = _INT32.pack(count) + chance.randbytes(chance.choice((0, 46, 138, 5)))
    content = b"\x00\x01" + crc32c(body).to_bytes(4, "big") + body
    if chance.random() < 0.5:
        entry = ProducerEntry(chance.choice((-1, 2**63 - 1, 5)), chance.choice((-1, 0, 2**15 - 1)))
        entry.current_txn_first_offset = chance.choice((None, 0, 2**63 - 1))
        content = encode_snapshot([entry, entry])
    return _forged(bucket, segment, "snapshot", content), "a snapshot of producers"


_CHECKPOINTS = (
    *(b"", b"0", b"0\n", b"0\n1\n", b"1\n1\n0 0\n", b"0\n2\n0 0\n", b"0\n1\n0\n", b"0\n1\n0 0 0\n"),
    *(b"0\n99999999999\n0 0\n", b"0\n-1\n", b"0\n1\n-5 -5\n", b"0\n1\n0 9223372036854775808\n"),
    *(b"0\n2\n5 0\n4 10\n", b"0\n2\n0 10\n1 5\n", b"0\n2\n0 0\n0 0\n", b"0\n1\n9999999999999 0\n"),
    *(b"0\n1\n\xff\xfe 0\n", "0\n1\n٣ 0\n".encode(), b"0\n1\n1_0 0\n", b"0\n1\n0x1 0\n"),
    b"0\n1\n" + b"9" * 5000 + b" 0\n",
    b"0\n1\n7 3\n",
    b"0\n3000\n" + b"".join(b"%d %d\n" % (each, each) for each in range(3000)),
    b"\x00" * 5000,
)


def _checkpoint(
    chance: random.Random, bucket: Bucket, segment: RemoteLogSegmentMetadata
) -> tuple[str, str]:
    content = chance.choice(_CHECKPOINTS)
    key = _forged(bucket, segment, "leader_epoch_checkpoint", content)
    return key, f"epochs {content[:30]!r}"


def _log(
    chance: random.Random, bucket: Bucket, segment: RemoteLogSegmentMetadata
) -> tuple[str, str]:
    """A batch whose header tells something impossible, under checksums that are right."""
    content = bytearray(bucket.objects[object_key(segment, "log")])
    size = _INT32.unpack_from(content, 8)[0] + 12
    start = chance.choice((0, size))
    place, width, values = chance.choice(
        (
            (0, 8, (-1, 2**63 - 1, 5, 2**40)),
            (8, 4, (-1, 0, 3, 48, 49, 2**31 - 1, size)),
            (12, 4, (-1, 7, 2**31 - 1)),
            (23, 4, (-1, 2**31 - 1, 100)),
            (27, 8, (-1, 2**63 - 1, -(2**63))),
            (35, 8, (-1, 2**63 - 1, -(2**63))),
            (57, 4, (-1, 0, 2**31 - 1)),
        )
    )
    value = chance.choice(values)
    content[start + place : start + place + width] = value.to_bytes(width, "big", signed=True)
    if chance.random() < 0.3:
        content[start + 21 : start + 23] = chance.choice(
            (b"\0\1", b"\0\2", b"\0\4", b"\0\7", b"\0\x37")
        )
    if start + size <= len(content):
        # The batch's own checksum, over as much as it had.
        stamp_crc(memoryview(content), start, size)
    if chance.random() < 0.2:
        content += bytes(chance.choice((1, 61, 500)))
    if chance.random() < 0.3:
        bucket.objects[object_key(segment, "log")] = bytes(content)
        return object_key(segment, "log"), f"byte {place} of a batch is {value}"
    return _forged(bucket, segment, "log", bytes(content)), f"byte {place} of a batch is {value}"


def _stranger(
    chance: random.Random, bucket: Bucket, segment: RemoteLogSegmentMetadata
) -> tuple[str, str]:
    """An object more, under a key that means somebody else's."""
    suffix = chance.choice(("log", "manifest", "index", "manifest.tmp"))
    others = (
        object_key(
            replace(segment, segment_id=segment.segment_id._replace(topic_id_partition=OTHER)),
            suffix,
        ),
        object_key(
            replace(
                segment,
                start_offset=segment.start_offset + 1,
                segment_leader_epochs=((9, segment.start_offset + 1),),
            ),
            suffix,
        ),
        f"backup/{object_key(segment, suffix)}",
        f"aaa-0-{object_key(segment, suffix).partition('-0-')[2]}",
        f"{object_stem(segment)}.{CONTROL.strip()}",
        f"{object_stem(segment)}.log.log",
        "orders-0-" + "A" * 22 + "/" + "9" * 20 + "-0-" + "A" * 22 + ".manifest",
        "orders-" + "9" * 400 + "-" + "A" * 22 + "/x.log",
        f"strange{CONTROL}name",
    )
    key = chance.choice(others)
    if key not in bucket.objects:
        bucket.objects[key] = chance.choice(
            (b"", b"x" * 100, bucket.objects[object_key(segment, "manifest")])
        )
    return key, "a stranger"


OWNERS = (
    *(b"", b"{}", b"[]", b"null", b"\xff\xfe", b"{", b"[" * 100_000, b'{"a":' * 50_000),
    *(b'{"version": 1}', b'{"version": "1", "cluster_id": 5}', b"9" * 10_000),
    b'{"version": 1, "cluster_id": "c", "node_id": "1", "token": "t", "since_ms": 0}',
    b'{"version": 1, "cluster_id": "c", "node_id": NaN, "token": "t", "since_ms": 1e999}',
    b'{"version": 1, "version": 2, "cluster_id": "c", "node_id": 1, "token": "t", "since_ms": 0}',
    json.dumps(
        {"version": 1, "cluster_id": LONG + CONTROL, "node_id": 1, "token": LONG, "since_ms": 0}
    ).encode(),
    json.dumps(
        {"version": 1, "cluster_id": CONTROL, "node_id": 10**4000, "token": "", "since_ms": -1}
    ).encode(),
)


def _owner(
    chance: random.Random, bucket: Bucket, segment: RemoteLogSegmentMetadata
) -> tuple[str, str]:
    bucket.objects[OWNER_KEY] = content = chance.choice(OWNERS)
    return OWNER_KEY, repr(content[:40])


_Kind = Callable[[random.Random, Bucket, RemoteLogSegmentMetadata], tuple[str, str]]

_KINDS: Mapping[str, _Kind] = {
    "manifest": _manifest,
    "index": _index,
    "snapshot": _snapshot,
    "checkpoint": _checkpoint,
    "log": _log,
    "stranger": _stranger,
    "owner": _owner,
}


def hostile_snapshot(seed: int, content: bytes) -> tuple[bytes, str]:
    """A snapshot of the metadata with one value replaced, under a checksum that is right."""
    chance = random.Random(seed)
    tree = cast("list[Any]", unpacked(content[8:]))
    places: list[tuple[list[Any], int]] = []

    def walk(node: list[Any]) -> None:
        for number, each in enumerate(node):
            places.append((node, number))
            if isinstance(each, list):
                walk(cast("Any", each))

    walk(tree)
    node, number = chance.choice(places)
    before = node[number]
    if chance.random() < 0.2:
        del node[number]
        what = f"without {before!a}"
    else:
        node[number] = value = _values(chance)
        what = f"{str(value)[:40]!a} for {str(before)[:40]!a}"
    body = packed(tree)
    return content[:4] + crc32c(body).to_bytes(4, "big") + body, what
