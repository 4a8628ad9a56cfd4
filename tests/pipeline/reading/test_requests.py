"""What planning costs of S3: requests, by the access log of a gateway that keeps one."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tierlog.clients.topic_partition import TopicIdPartition
from tierlog.pipeline.reading.scan import plan_scan
from tierlog.pipeline.reading.scan_options import scan_options
from tierlog.pipeline.reading.scan_task import ScanTask
from tierlog.tests.pipeline.spark.folder_tier import TOPIC
from tierlog.tests.tiering.remote_partition import PARTITION
from tierlog.tests.tiering.servers.s3 import BUCKET, VersityGateway
from tierlog.tests.tiering.servers.server import FETCH_SECONDS
from tierlog.tests.tiering.tools.bucket import Bucket

pytestmark = [
    pytest.mark.slow,
    pytest.mark.requires("go"),
    pytest.mark.timeout(FETCH_SECONDS + 300),
]

PARTITIONS, SEGMENTS = 2, 300


class LoggingGateway(VersityGateway):
    """A gateway that writes a line for each request."""

    @property
    def log(self) -> Path:
        return self.directory / "access.log"

    def command(self) -> list[str]:
        program, *arguments = super().command()
        return [program, "--access-log", str(self.log), *arguments]


class _Requests:
    """What a gateway has been asked since the last look; it logs a request before it answers."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._seen = 0

    def since(self) -> Counter[str]:
        """By operation: listings as `list`, reads by the suffix of the key."""
        lines = self._log.read_text().splitlines()
        new, self._seen = lines[self._seen :], len(lines)
        counts: Counter[str] = Counter()
        for line in new:
            operation = re.search(r" s3_(\w+) (\S+) ", line)
            if operation is None:
                # The first line says when the log starts.
                continue
            name, path = operation.groups()
            counts["list" if "List" in name else path.rpartition(".")[2]] += 1
        return counts


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoggingGateway]:
    """A bucket with a topic of 600 segments, ten offsets each."""
    with LoggingGateway(tmp_path_factory.mktemp("s3")) as running:
        bucket = Bucket()
        for number in range(PARTITIONS):
            partition = TopicIdPartition(PARTITION.topic_id, TOPIC, number)
            for each in range(SEGMENTS):
                bucket.put(each + 1, (each * 10, each * 10 + 9), partition=partition)
        bucket.write_to(running.directory / "buckets" / BUCKET / "broker")
        yield running


def plan(gateway: LoggingGateway, **stated: str) -> list[ScanTask]:
    storage = {f"storage.{name}": str(text) for name, text in gateway.location.options.items()}
    path = {"path": f"s3://{BUCKET}/broker", "topic": TOPIC}
    return plan_scan(scan_options({**path, **storage, **stated}))


def test_a_query_costs_what_it_asks_for_and_the_next_one_no_manifest(
    gateway: LoggingGateway,
) -> None:
    requests = _Requests(gateway.log)
    requests.since()
    asked = {
        "partition": "1",
        "startingOffsets": json.dumps({TOPIC: {"1": 1505}}),
        "endingOffsets": json.dumps({TOPIC: {"1": 1525}}),
    }
    (task,) = plan(gateway, **asked)
    assert (task.first_offset, task.end_offset) == (1505, 1525)
    # A listing each of folders, segments, the tail and three segments of the range.
    expected = {"list": 6, "manifest": 4, "leader_epoch_checkpoint": 1, "index": 2}
    assert requests.since() == expected
    assert plan(gateway, **asked) == [task]
    assert requests.since() == {"list": 6, "index": 2}


def test_a_partition_costs_its_own_manifests_once(gateway: LoggingGateway) -> None:
    requests = _Requests(gateway.log)
    requests.since()
    whole = plan(gateway, partition="0")
    expected = {"list": 3, "manifest": SEGMENTS, "leader_epoch_checkpoint": 1}
    assert requests.since() == expected
    assert plan(gateway, partition="0") == whole
    assert requests.since() == {"list": 3}
