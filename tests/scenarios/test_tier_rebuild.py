"""A broker that has lost its disk and its metadata topic gets its topics back from the tier.

On `file` and on S3, small; `rebuild_story.py` tells it at full size by hand.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from tierlog.bench.harness.processes.tierlog_node import TierlogNode
from tierlog.clients.admin import Admin, ConfigResourceType
from tierlog.tests.scenarios.object_store import KEY, SECRET, ObjectStore
from tierlog.tests.scenarios.rebuild_story import PROPERTIES, Story
from tierlog.tests.scenarios.tier_command import tier
from tierlog.tests.waiting import wait_until

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


TRIMMED_AT = 100
"""In the midst of the first segment, while that is still written to."""


def trim(bootstrap: str, topic: str) -> None:
    """`kafka-delete-records.sh`, as an operator uses it."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    where = confluent_kafka.TopicPartition(topic, 0, TRIMMED_AT)
    for deleted in cast("dict[object, Any]", admin.delete_records([where])).values():  # pyright: ignore[reportUnknownMemberType]  # the client's own hints
        assert deleted.result(30).low_watermark == TRIMMED_AT


def offsets(bootstrap: str, topic: str, end: int) -> list[int]:
    """The offsets that a consumer gets from the beginning of the log on."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "reader"})
    first, last = consumer.get_watermark_offsets(confluent_kafka.TopicPartition(topic, 0), 30)
    assert last == end
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, first)])
    found: list[int] = []

    def has_all() -> bool:
        found.extend(each.offset() or 0 for each in consumer.consume(5_000, timeout=0.2))
        return bool(found) and found[-1] >= end - 1

    try:
        wait_until(has_all, 60, lambda: f"the last of {len(found)} is {found[-1:]}")
    finally:
        consumer.close()
    return found


def test_a_log_trimmed_within_its_active_segment_is_sound_and_comes_back(tmp_path: Path) -> None:
    with TierlogNode(tmp_path / "node", properties=PROPERTIES) as node:
        story = Story(node, ["trimmed", "whole"], PARTITIONS, SEGMENT_BYTES)
        story.create_topics()
        story.produce(2 * TRIMMED_AT)
        trim(node.bootstrap, "trimmed")
        story.produce(RECORDS)
        tiered = story.wait_until_tiered()
        for words in ("verify", "--quick"), ("verify", "--bootstrap", node.bootstrap):
            verified = tier(node, *words)
            assert verified.code == 0, verified
        story.lose_the_disk()
        rebuilt = {each["topic"]: each["partitions"] for each in story.rebuild().fields["topics"]}
        for topic, start in ("trimmed", TRIMMED_AT), ("whole", 0):
            ((found,),) = [rebuilt[topic]]
            end = tiered[topic, 0]
            assert (found["log_start_offset"], found["log_end_offset"]) == (start, end)
        node.start()
        assert offsets(node.bootstrap, "trimmed", tiered["trimmed", 0]) == list(
            range(TRIMMED_AT, tiered["trimmed", 0])
        )
