"""A topic id that the image does not have counts as deleted only by a record committed later."""

import asyncio
from dataclasses import replace

import pytest

from tierlog.broker.tier.deletion_proof import PROOF_SECONDS, WAIT_SECONDS
from tierlog.broker.tier.image_topics import MemberTopics
from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.kafka_uuid import Uuid
from tierlog.replication.metadata.cluster_image import (
    BrokerImage,
    ClusterImage,
    PartitionImage,
    TopicImage,
)
from tierlog.tests.simulation.loop import SimulatedLoop
from tierlog.tests.tiering.tiered_broker import until
from tierlog.tiering.metadata.metadata_events import METADATA_TOPIC

pytestmark = pytest.mark.usefixtures("loop")

HERE, THERE = 1, 2
GONE, LIVE, LATE = (Uuid(f"topic id number {each}".encode()) for each in "123")
BLOCK = 1000


def topic(name: str, topic_id: Uuid, *leaders: int) -> TopicImage:
    partitions = {
        at: PartitionImage((HERE, THERE), (HERE, THERE), leader, 0, 0)
        for at, leader in enumerate(leaders)
    }
    return TopicImage(name, topic_id, partitions)


class Node:
    """A member whose image is behind the controller's until it `catches_up`."""

    def __init__(self) -> None:
        self.committed = ClusterImage(
            "cluster", brokers={HERE: BrokerImage(HERE, 5, GONE, {}, None, fenced=False)}
        )
        self.image = self.committed
        self.is_paused = False
        self.refusal: ErrorCode | None = None
        self.allocations = 0
        self.topics = MemberTopics(HERE, lambda: self.image, self._allocate)
        self.create("live", LIVE)

    def create(self, name: str, topic_id: Uuid, *leaders: int) -> None:
        created, now = topic(name, topic_id, *leaders), self.committed
        self._commit(
            replace(
                now,
                topics_by_id={**now.topics_by_id, topic_id: created},
                topics_by_name={**now.topics_by_name, name: created},
            )
        )

    def _commit(self, image: ClusterImage) -> None:
        self.committed = image
        if not self.is_paused:
            self.image = image

    def pause(self) -> None:
        self.is_paused = True

    def catch_up(self) -> None:
        self.is_paused = False
        self.image = self.committed

    def fence(self, *, fenced: bool = True) -> None:
        broker = replace(self.committed.brokers[HERE], fenced=fenced)
        self._commit(replace(self.committed, brokers={HERE: broker}))

    async def _allocate(self, count: int) -> int:
        if self.refusal is not None:
            raise KafkaError(self.refusal, "Not now.")
        self.allocations += 1
        first = self.committed.next_producer_id
        self._commit(replace(self.committed, next_producer_id=first + max(count, BLOCK)))
        await asyncio.sleep(0.01)
        return first

    def deleted(self) -> list[Uuid]:
        return [each for each in (GONE, LIVE, LATE) if self.topics.was_deleted(each)]


async def test_a_topic_that_is_absent_after_a_later_record_was_deleted() -> None:
    node = Node()
    assert node.deleted() == []
    await node.topics.settle({GONE, LIVE})
    assert node.deleted() == [GONE]


async def test_a_broker_that_is_behind_learns_of_the_topic_before_it_judges() -> None:
    """It was paused over the topic's creation; the segments' events come to it first."""
    node = Node()
    node.pause()
    node.create("late", LATE)
    judging = asyncio.ensure_future(node.topics.settle({GONE, LATE}))
    await asyncio.sleep(WAIT_SECONDS / 2)
    assert not judging.done()
    assert node.deleted() == []
    node.catch_up()
    await judging
    assert node.deleted() == [GONE]


async def test_a_broker_that_stays_behind_judges_nothing(
    loop: SimulatedLoop, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    node = Node()
    node.pause()
    node.create("late", LATE)
    began = loop.time()
    await node.topics.settle({GONE, LATE})
    assert loop.time() - began == pytest.approx(WAIT_SECONDS, abs=1)
    node.catch_up()
    assert node.deleted() == []
    assert "more than 60 s behind" in caplog.text


@pytest.mark.parametrize(
    "code", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.REQUEST_TIMED_OUT]
)
async def test_a_broker_that_is_cut_off_judges_nothing(code: ErrorCode) -> None:
    node = Node()
    node.refusal = code
    await node.topics.settle({GONE})
    assert node.deleted() == []
    node.refusal = None
    await node.topics.settle({GONE})
    assert node.deleted() == [GONE]


async def test_a_fenced_broker_judges_nothing() -> None:
    node = Node()
    node.fence()
    await node.topics.settle({GONE})
    assert node.deleted() == []
    node.fence(fenced=False)
    await node.topics.settle({GONE})
    assert node.deleted() == [GONE]


async def test_a_proof_expires_and_is_renewed() -> None:
    node = Node()
    await node.topics.settle({GONE})
    await asyncio.sleep(PROOF_SECONDS - 1)
    assert node.deleted() == [GONE]
    await node.topics.settle({GONE})
    assert node.allocations == 1
    await asyncio.sleep(2)
    assert node.deleted() == []
    await node.topics.settle({GONE})
    assert node.deleted() == [GONE]
    assert node.allocations == 2


async def test_what_is_certain_needs_no_record() -> None:
    node = Node()
    node.image = replace(node.image, deleted_topics={GONE: "gone"})
    await node.topics.settle({GONE, LIVE})
    assert node.deleted() == [GONE]
    assert node.allocations == 0


def test_a_broker_watches_the_metadata_partitions_that_it_leads() -> None:
    node = Node()
    assert list(node.topics.watched_partitions() or ()) == []
    assert not node.topics.has_metadata_topic()
    node.create(METADATA_TOPIC, LATE, HERE, THERE, HERE, -1)
    assert list(node.topics.watched_partitions() or ()) == [0, 2]
    assert node.topics.has_metadata_topic()


async def test_a_topic_that_appears_while_its_proof_is_asked_for_is_not_deleted() -> None:
    node = Node()
    judging = asyncio.ensure_future(node.topics.settle({LATE}))
    await asyncio.sleep(0)
    node.create("late", LATE)
    await judging
    await until(lambda: node.allocations == 1)
    assert node.deleted() == []
