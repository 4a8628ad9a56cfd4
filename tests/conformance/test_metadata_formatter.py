"""Kafka's console consumer prints our `__remote_log_metadata` through Kafka's own formatter.

A topic is tiered and then deleted, so that every kind of event is there: a segment announced, each
of its changes of state, and each step of the removal of its partition.
"""

import re
from collections import Counter
from pathlib import Path

import pytest

from tierlog.bench.harness.processes.kafka_peer import run_tool
from tierlog.bench.harness.processes.live_files import live_paths
from tierlog.bench.harness.processes.tierlog_node import TierlogNode
from tierlog.tiering.tier_owner import OWNER_KEY

from ..waiting import wait_until
from .real_records import Sending, create, produce

pytestmark = [pytest.mark.slow, pytest.mark.requires("java", "mvn"), pytest.mark.scenario("2.8")]

TOPIC = "short-lived"
CONFIG = {
    "remote.storage.enable": "true",
    "segment.bytes": "1048576",
    "local.retention.bytes": "1",
}
PROPERTIES = {
    "remote.log.manager.task.interval.ms": "200",
    "log.retention.check.interval.ms": "200",
    "log.initial.task.delay.ms": "100",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "2",
}
FORMATTER = (
    "org.apache.kafka.server.log.remote.metadata.storage.serialization."
    "RemoteLogMetadataSerde$RemoteLogMetadataFormatter"
)
LINE = re.compile(
    r"partition: \d, offset: \d+, value: (?P<kind>Remote\w+)\{.*\b(?P<state>(?:COPY|DELETE)_\w+)"
)


def objects(node: TierlogNode) -> list[Path]:
    """All of the tier's but the mark of its owner, which stays."""
    paths = live_paths(node.directory / "remote", "**/*")
    return [path for path in paths if path.is_file() and path.name != OWNER_KEY]


def printed(node: TierlogNode) -> list[str]:
    answer = run_tool(
        "kafka-console-consumer",
        "--bootstrap-server", node.bootstrap,
        "--topic", "__remote_log_metadata",
        "--from-beginning",
        "--formatter", FORMATTER,
        "--timeout-ms", "8000",
        check=False,
    )  # fmt: skip
    return answer.stdout.splitlines()


@pytest.mark.long
def test_every_kind_of_event_is_printed(tmp_path: Path) -> None:
    with TierlogNode(tmp_path, properties=PROPERTIES) as node:
        create(node.bootstrap, TOPIC, CONFIG)
        produce(node.bootstrap, TOPIC, Sending("writer", "none", is_idempotent=True), 4_000)
        wait_until(lambda: bool(objects(node)), 60, lambda: node.output)
        run_tool("kafka-topics", "--bootstrap-server", node.bootstrap, "--delete", "--topic", TOPIC)
        wait_until(lambda: not objects(node), 60, lambda: node.output)
        # A minute later, when no upload can arrive any more.
        wait_until(lambda: "Removed all remote data" in node.output, 180, lambda: node.output)
        lines = printed(node)
    found = [LINE.match(line) for line in lines]
    assert all(found), lines
    counted = Counter((each["kind"], each["state"]) for each in found if each)
    segments = counted.pop(("RemoteLogSegmentMetadata", "COPY_SEGMENT_STARTED"))
    assert segments > 1
    # The deletion may come while a segment is on its way.
    finished = counted.pop(("RemoteLogSegmentMetadataUpdate", "COPY_SEGMENT_FINISHED"))
    assert segments - 1 <= finished <= segments
    assert counted == {
        ("RemoteLogSegmentMetadataUpdate", "DELETE_SEGMENT_STARTED"): segments,
        ("RemoteLogSegmentMetadataUpdate", "DELETE_SEGMENT_FINISHED"): segments,
        ("RemotePartitionDeleteMetadata", "DELETE_PARTITION_MARKED"): 1,
        ("RemotePartitionDeleteMetadata", "DELETE_PARTITION_STARTED"): 1,
        ("RemotePartitionDeleteMetadata", "DELETE_PARTITION_FINISHED"): 1,
    }
