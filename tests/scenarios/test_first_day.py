"""A dev broker in one command, its log tiered from the first day.

produce 200,000 records of 1 KiB     local  [ .. .. .. .. active ]
the closed segments are copied       tier   [ 0 .. .. .. ]
local retention lets them go         local              [ newest active ]
a group reads from the beginning     tier, then local; every byte as it was sent
kill -9, start again                 the same; nothing acknowledged is missing
"""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from tierlog.bench.harness.processes.tierlog_node import TierlogNode
from tierlog.tests.scenarios.foreign_clients import CLIENTS, ForeignClient
from tierlog.tests.waiting import wait_until

RECORDS = 200_000
RECORD_BYTES = 1024
TOPIC = "first-day"
TOPIC_CONFIG = {
    "remote.storage.enable": "true",
    "segment.bytes": "1048576",
    "local.retention.bytes": "1048576",
}
# One mebibyte that may stay, the segment that straddles the limit, the active one.
NEWEST_SEGMENTS = 3


def value_of(index: int) -> bytes:
    return b"%08d" % index * (RECORD_BYTES // 8)


def values() -> Iterator[bytes]:
    return (value_of(index) for index in range(RECORDS))


def local_segments(node: TierlogNode) -> list[Path]:
    return sorted((node.directory / "logs" / f"{TOPIC}-0").glob("*.log"))


def wait_until_tiered(node: TierlogNode) -> None:
    """Until all but the newest segments are gone from the topic's local directory."""
    wait_until(
        lambda: 0 < len(local_segments(node)) <= NEWEST_SEGMENTS,
        120,
        lambda: f"{len(local_segments(node))} segments still local\n{node.output[-4000:]}",
    )


def assert_reads_everything(node: TierlogNode, client: ForeignClient, group: str) -> None:
    read = islice(client.read(node.bootstrap, TOPIC, group), RECORDS)
    count = 0
    for expected, (offset, value) in enumerate(read):
        assert offset == expected
        assert value == value_of(expected)
        count += 1
    assert count == RECORDS


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*_text is deprecated:DeprecationWarning")  # kafka-python's
@pytest.mark.parametrize("name", CLIENTS)
def test_old_segments_live_in_the_tier_and_are_read_back_byte_for_byte(
    name: str, tmp_path: Path
) -> None:
    client = CLIENTS[name]
    properties = {
        "log.retention.check.interval.ms": "1000",
        "remote.log.manager.task.interval.ms": "1000",
        "log.initial.task.delay.ms": "500",
    }
    with TierlogNode(tmp_path, properties=properties) as node:
        client.create_topic(node.bootstrap, TOPIC, TOPIC_CONFIG)
        assert client.produce(node.bootstrap, TOPIC, values()) == RECORDS
        wait_until_tiered(node)
        first_local = int(local_segments(node)[0].stem)
        assert first_local > RECORDS * 9 // 10
        assert_reads_everything(node, client, "before-the-crash")

        node.kill()
        node.start()
        assert_reads_everything(node, client, "after-the-crash")
        assert "Traceback" not in node.output
