"""A mixed topic whose partitions have more behind them: a trim, a compaction, an unclean election.

Partition 0 has been trimmed. Partition 1 begins with what a compaction has left of it. Of partition
2 the tier has segments that a leader copied before another one, that lacked them, took its place:
the broker has nothing of them, and nobody may read them.
"""

import asyncio
import random
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

from tierlog.bench.harness.processes.live_files import live_paths, size_of
from tierlog.bench.harness.processes.tierlog_node import TierlogNode
from tierlog.bench.harness.requests.admin import alter_topic, create_topic
from tierlog.tests.pipeline.spark.clusters.mixed_topic import (
    CODECS,
    PARTITIONS,
    Drawn,
    MixedTopic,
    Writer,
    drawn,
    segments,
)
from tierlog.tests.pipeline.spark.tiers import (
    TOPIC_CONFIG,
    TierPlace,
    broker_on,
    wait_until_all_is_tiered,
)
from tierlog.tests.tiering.tools.bucket import Bucket
from tierlog.tests.waiting import wait_until
from tierlog.tiering.store.object_keys import parse_object_key
from tierlog.tiering.store.remote_url import RemoteUrl
from tierlog.tiering.tools.opened_tier import opened_tier

_COMPACTED, _ELECTED = 1, 2
_KEYS = 100
_ENDS_OF_LEADERS = CODECS[:2]
_DEAD_SEGMENTS, _DEAD_OFFSETS = 3, 40
_TIMEOUT_S = 300.0


def _keyed(chance: random.Random, number: int) -> Drawn:
    """A record that a compacted topic takes, of one of few keys."""
    key = f"k{number % _KEYS}".encode()
    return drawn(chance, number)._replace(key=key, partition=_COMPACTED)


@contextmanager
def topic_of_all_kinds(
    directory: Path, name: str, records: int, seed: int, place: TierPlace
) -> Generator[MixedTopic]:
    """The topic, drawn from a seed, and a broker that lives as long as the context."""
    config = segments(records)
    with broker_on(directory, place, {"log.cleaner.backoff.ms": "100"}) as node:
        compacted = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", **config}
        create_topic(node.bootstrap, name, compacted, partitions=PARTITIONS)
        writer = Writer(node, name, random.Random(seed))
        parts = _parts(records)
        writer.write("lz4", next(parts), _keyed)
        _wait_for_the_cleaner(node, name, int(config["segment.bytes"]))
        alter_topic(node.bootstrap, name, {**TOPIC_CONFIG, "cleanup.policy": "delete", **config})
        for codec in CODECS:
            writer.write(codec, next(parts))
            if codec in _ENDS_OF_LEADERS:
                # One that begins again is of a new epoch.
                node.stop()
                node.start()
        wait_until_all_is_tiered(node, place, name)
        _add_a_dead_branch(node, place, name)
        topic = MixedTopic(node, place, name, writer.aborted, writer.transactions)
        topic.trim()
        yield topic


def _parts(records: int) -> Iterator[range]:
    """The numbers of the records: a part for the compaction, and one for each codec."""
    share = -(-records // (len(CODECS) + 1))
    return iter([range(first, first + share) for first in range(0, records, share)])


def _wait_for_the_cleaner(node: TierlogNode, name: str, segment_bytes: int) -> None:
    logs = node.directory / "logs"

    def is_compacted() -> bool:
        *closed, _ = sorted(live_paths(logs, f"{name}-{_COMPACTED}/*.log"))
        return 0 < size_of(closed) < segment_bytes // 2

    wait_until(is_compacted, _TIMEOUT_S, "the cleaner has not come by")


def _add_a_dead_branch(node: TierlogNode, place: TierPlace, name: str) -> None:
    """Put segments of the first leader into the tier that begin where the second leader did."""
    log = node.directory / "logs" / f"{name}-{_ELECTED}"
    epochs = (log / "leader-epoch-checkpoint").read_text().splitlines()[2:]
    history = [tuple(int(word) for word in line.split()) for line in epochs]
    old, first = history[0][0], history[1][1]
    asyncio.run(_store_dead_segments(place, f"{name}-{_ELECTED}-", old, first))


async def _store_dead_segments(place: TierPlace, prefix: str, epoch: int, first: int) -> None:
    async with opened_tier(RemoteUrl(place.url, dict(place.storage_options))) as tier:
        keys = [parse_object_key(each.key) for each in await tier.list()]
        (partition,) = {
            key.topic_id_partition
            for key in keys
            if key is not None and str(key.topic_id_partition.topic_partition) == prefix[:-1]
        }
        bucket = Bucket()
        for each in range(_DEAD_SEGMENTS):
            begin = first + each * _DEAD_OFFSETS
            span = (begin, begin + _DEAD_OFFSETS - 1)
            bucket.put(each + 1, span, [(epoch, 0)], partition=partition)
        for key, content in bucket.objects.items():
            await tier.write_bytes(key, content)
