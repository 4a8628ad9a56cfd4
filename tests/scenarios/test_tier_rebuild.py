"""A broker that has lost its disk and its metadata topic gets its topics back from the tier.

On `file` and on S3, small; `rebuild_story.py` tells it at full size by hand.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tierlog.bench.tierlog_node import TierlogNode
from tierlog.clients.admin import Admin, ConfigResourceType
from tierlog.tests.scenarios.object_store import KEY, SECRET, ObjectStore
from tierlog.tests.scenarios.rebuild_story import PROPERTIES, Story
from tierlog.tests.scenarios.tier_command import tier

pytestmark = pytest.mark.slow

TOPICS = 10
PARTITIONS = 1
SEGMENT_BYTES = 1 << 20
RECORDS = 3_000


@pytest.fixture(params=["file", "s3"])
def properties(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, str]]:
    if request.param == "file":
        yield PROPERTIES
        return
    with ObjectStore(tmp_path) as store:
        store.start()
        yield PROPERTIES | store.properties


async def topic_state(bootstrap: str, topic: str) -> tuple[bytes, int, str | None]:
    async with Admin(bootstrap) as admin:
        metadata = (await admin.list_topics())[topic]
        configs = await admin.describe_configs(ConfigResourceType.TOPIC, topic)
    return bytes(metadata.topic_id), len(metadata.partitions), configs["retention.ms"]


def test_ten_topics_come_back_from_the_bucket_alone(
    properties: dict[str, str], tmp_path: Path
) -> None:
    with TierlogNode(tmp_path / "node", properties=properties) as node:
        story = Story(node, [f"topic-{each}" for each in range(TOPICS)], PARTITIONS, SEGMENT_BYTES)
        story.create_topics()
        story.produce(RECORDS)
        tiered = story.wait_until_tiered()
        story.remember()
        before = [asyncio.run(topic_state(node.bootstrap, each)) for each in story.topics]

        refused = tier(node, "rebuild")
        assert refused.code == 2
        assert "is not empty" in refused.errors

        story.lose_the_disk()
        planned = tier(node, "rebuild", "--dry-run")
        assert planned.code == 0
        assert not (node.directory / "logs").exists()
        rebuilt = story.rebuild().fields
        assert [each["topic"] for each in rebuilt["topics"]] == story.topics
        assert all(each["config_is_known"] for each in rebuilt["topics"])
        for each in rebuilt["topics"]:
            assert each["config"]["retention.ms"] == story.config["retention.ms"]
            assert each["partition_count"] == PARTITIONS

        node.start()
        assert before == [asyncio.run(topic_state(node.bootstrap, each)) for each in story.topics]
        story.forget_what_was_not_tiered(tiered)
        assert story.read(tiered) == story.digests

        # It goes on: more is produced, tiered, and read after a restart.
        story.produce(RECORDS)
        story.wait_until_tiered()
        story.remember()
        for partition, end in tiered.items():
            assert len(story.digests[partition]) == end + RECORDS
        node.kill()
        node.start()
        assert story.read(story.produced) == story.digests
        verified = tier(node, "verify", "--bootstrap", node.bootstrap)
        assert verified.code == 0, verified
        scrubbed = tier(node, "scrub", "--bootstrap", node.bootstrap, "--grace", "0s")
        assert scrubbed.code == 0, scrubbed
        assert "Traceback" not in node.output
        for said in (planned, verified, scrubbed):
            assert KEY not in said.output + said.errors
            assert SECRET not in said.output + said.errors
