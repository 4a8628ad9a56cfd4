"""What must be true of the tier of a simulated cluster when all has healed."""

from typing import TYPE_CHECKING

from tierlog.clients.consumer.completed_fetch import ConsumerRecord
from tierlog.clients.consumer.consumer import Consumer
from tierlog.clients.topic_partition import TopicIdPartition
from tierlog.tests.simulation.cluster_admin import ARCHIVE
from tierlog.tests.simulation.cluster_member import BOOTSTRAP
from tierlog.tests.simulation.environment import SimulatedEnvironment
from tierlog.tests.simulation.network import on_host
from tierlog.tests.simulation.object_store import SimulatedStore
from tierlog.tests.simulation.tier_truth import TierTruth
from tierlog.tiering.store.object_keys import parse_object_key
from tierlog.tiering.tier_owner import OWNER_KEY

if TYPE_CHECKING:
    from .cluster_story import ClusterStory

GONE_S = 120.0
"""How long until the objects of deleted topics are gone."""


async def check_tier(story: "ClusterStory", store: SimulatedStore) -> None:
    """Read everything back, from wherever it is; raises AssertionError."""
    image = story.truth.image
    assert image is not None
    topic_id = image.topics_by_name[ARCHIVE.topic].topic_id
    partition = TopicIdPartition(topic_id, ARCHIVE.topic, 0)
    for member in story.members:
        truth = TierTruth(member, store)
        log = truth.log(partition)
        if log is not None:
            truth.check_readable(partition, 0)
            if log.local_log_start_offset > 0:
                story.counts["local log start moved"] += 1
    with on_host("client"):
        records = await _read_all(story)
    story.truth.check_values(ARCHIVE, {each.offset: each.value or b"" for each in records})
    live = {topic.topic_id for topic in image.topics_by_name.values()}

    def is_clean() -> bool:
        return all(key == OWNER_KEY or _topic_of(key) in live for key in store.objects)

    await story.until(is_clean, GONE_S, "the objects of deleted topics are gone")
    story.counts["objects in the tier"] += len(store.objects)


def _topic_of(key: str) -> object:
    said = parse_object_key(key)
    assert said is not None, f"the tier holds {key}"
    return said.topic_id_partition.topic_id


async def _read_all(story: "ClusterStory") -> list[ConsumerRecord]:
    records: list[ConsumerRecord] = []
    environment = SimulatedEnvironment(story.loop, "auditor")
    until = story.loop.time() + 60
    async with Consumer(BOOTSTRAP, environment=environment) as reader:
        reader.assign([ARCHIVE])
        end = (await reader.end_offsets([ARCHIVE]))[ARCHIVE]
        start = (await reader.beginning_offsets([ARCHIVE]))[ARCHIVE]
        assert start == 0, f"{ARCHIVE}: the log begins at {start}"
        reader.seek(ARCHIVE, 0)
        while end and (not records or records[-1].offset < end - 1):
            records += await reader.poll(timeout_ms=1000)
            assert story.loop.time() < until, f"{ARCHIVE} cannot be read after {len(records)}"
    offsets = [each.offset for each in records]
    assert offsets == list(range(end)), f"{ARCHIVE}: the offsets are not dense"
    return records
