"""Objects that vanish from the tier, shrink in it or rot: an error, never a wrong byte.

Only the partition that needs the object is affected. Its consumer waits (the error is one that
clients try again), the broker tells it in one line, and a repaired object is read at once.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from tierlog.bench.harness.processes.tierlog_node import TierlogNode
from tierlog.tests.scenarios.foreign_clients import CLIENTS
from tierlog.tests.scenarios.plain_io import produce, read, value_of
from tierlog.tests.waiting import wait_until

RECORDS = 6_000
SEGMENTS_LOCAL = 3
TOPIC_CONFIG = {
    "remote.storage.enable": "true",
    "segment.bytes": "1048576",
    "local.retention.bytes": "1048576",
}
PROPERTIES = {
    "log.retention.check.interval.ms": "500",
    "remote.log.manager.task.interval.ms": "500",
    "log.initial.task.delay.ms": "200",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "2",
}


def shorten(content: bytes) -> bytes:
    return content[: len(content) // 2]


def rot(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes(byte ^ 0x55 for byte in content[middle:])


def replace_by_nonsense(content: bytes) -> bytes:
    return b"\x2a" * len(content)


def tiered(node: TierlogNode, topic: str) -> None:
    """Make a topic and wait until most of it lies in the tier alone."""
    CLIENTS["confluent-kafka"].create_topic(node.bootstrap, topic, TOPIC_CONFIG)
    sent = produce(node.bootstrap, topic, map(value_of, range(RECORDS)), timeout_ms=30_000)
    assert len(sent.acknowledged) == RECORDS
    directory = node.directory / "logs" / f"{topic}-0"
    wait_until(
        lambda: len(list(directory.glob("*.log"))) <= SEGMENTS_LOCAL,
        60,
        lambda: f"{topic} stays local\n{node.output[-2000:]}",
    )


@pytest.mark.slow
@pytest.mark.parametrize("damage", [None, shorten, rot, replace_by_nonsense])
def test_a_damaged_segment_is_an_error_of_its_partition_alone(
    damage: Callable[[bytes], bytes] | None, tmp_path: Path
) -> None:
    with TierlogNode(tmp_path, properties=PROPERTIES) as node:
        tiered(node, "hurt")
        tiered(node, "whole")
        node.kill()
        second = sorted((tmp_path / "remote").glob("hurt-0-*/*.log"))[1]
        content = second.read_bytes()
        if damage is None:
            second.unlink()
        else:
            second.write_bytes(damage(content))
        node.start()
        start = int(second.name.partition("-")[0])
        records_before = read(node.bootstrap, "hurt", start)
        assert records_before == [(each, value_of(each)) for each in range(start)]

        with pytest.raises(AssertionError, match=r"Not within .*: 0 of 1 records"):
            read(node.bootstrap, "hurt", 1, start=start, timeout_s=2)
        assert len(read(node.bootstrap, "whole", RECORDS)) == RECORDS
        lines = [line for line in node.output.splitlines() if " WARNING " in line]
        assert len(lines) == 1, lines
        assert "hurt-0 cannot be read from the remote tier now" in lines[0]

        second.write_bytes(content)
        rest = read(node.bootstrap, "hurt", RECORDS - start, start=start)
        assert rest == [(each, value_of(each)) for each in range(start, RECORDS)]
        assert "Traceback" not in node.output
