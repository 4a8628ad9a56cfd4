"""The scrub that a broker runs by itself: told once when it cannot, and never on a guess."""

import asyncio
import logging
from collections.abc import Mapping
from random import Random

import pytest

from tierlog.broker.config.config import read_config
from tierlog.broker.tier.tier_scrub import TierScrub
from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.runtime.supervisor import Supervisor
from tierlog.clients.topic_partition import TopicIdPartition
from tierlog.storage.remote.remote_log import RemoteLog
from tierlog.tests.simulation.loop import SimulatedLoop, simulate
from tierlog.tests.tiering.remote_partition import PARTITION
from tierlog.tests.tiering.tools.bucket import WRITTEN_MS, Bucket
from tierlog.tiering.tools.lineage_choice import remote_log_of
from tierlog.tiering.tools.scrubber import Scrubber

INTERVAL_MS = 60_000


class ClosableBucket(Bucket):
    """A bucket whose connections are let go of."""

    def __init__(self) -> None:
        super().__init__()
        self.is_closed = False

    async def close(self) -> None:
        self.is_closed = True


class Metadata:
    """The metadata topic, which may not be there."""

    def __init__(self, known: Mapping[TopicIdPartition, RemoteLog]) -> None:
        self.known = known
        self.is_there = True

    async def read(self) -> Mapping[TopicIdPartition, RemoteLog]:
        if not self.is_there:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is no topic")
        return self.known


def test_no_orphan_is_left_after_two_intervals(caplog: pytest.LogCaptureFixture) -> None:
    async def story(loop: SimulatedLoop) -> None:
        bucket = ClosableBucket()
        finished = bucket.put(1, (0, 9))
        kept = set(bucket.objects)
        bucket.put(2, (0, 9))
        metadata = Metadata({PARTITION: remote_log_of(PARTITION, [finished])})
        scrubber = Scrubber(bucket, metadata.read, lambda: WRITTEN_MS + int(loop.time() * 1000), 1)
        scrub = TierScrub(scrubber, bucket, INTERVAL_MS, Supervisor(Random(0)))
        scrub.start()
        await asyncio.sleep(1.5 * INTERVAL_MS / 1000)
        assert bucket.removed == []
        await asyncio.sleep(INTERVAL_MS / 1000)
        assert set(bucket.objects) == kept

        # While it is not known what belongs to whom, everything stays; that is said once.
        bucket.put(3, (0, 9))
        metadata.is_there = False
        await asyncio.sleep(5 * INTERVAL_MS / 1000)
        assert len(bucket.objects) == 2 * len(kept)
        metadata.is_there = True
        bucket.is_down = True
        await asyncio.sleep(5 * INTERVAL_MS / 1000)
        bucket.is_down = False
        await asyncio.sleep(2.5 * INTERVAL_MS / 1000)
        assert set(bucket.objects) == kept
        await scrub.stop()
        assert bucket.is_closed

    with caplog.at_level(logging.WARNING, "tierlog.broker.tier.tier_scrub"):
        simulate(story)
    assert (
        len([each for each in caplog.records if "Could not scrub the remote tier" in each.message])
        == 1
    )


def test_it_is_off_unless_the_configuration_says_otherwise() -> None:
    values = read_config({}).values
    assert values.integer("tierlog.scrub.interval.ms") == -1
    assert values.integer("tierlog.scrub.grace.ms") == 3_600_000
    for bad in ("0", "-2", "often"):
        with pytest.raises(KafkaError):
            read_config({"tierlog.scrub.interval.ms": bad})
