"""What operators read in the log of a broker whose topics are tiered: a line for each event."""

import asyncio
import logging
import re
from dataclasses import replace

import pytest

from tierlog.clients.admin import Admin, NewTopic
from tierlog.tests.simulation.environment import SimulatedEnvironment
from tierlog.tests.simulation.loop import SimulatedLoop
from tierlog.tests.simulation.network import on_host
from tierlog.tests.tiering.memory_tier import DELETE
from tierlog.tests.tiering.tiered_broker import LOG_CONFIG, TieredBroker, until
from tierlog.tests.tiering.whole_broker import TOPIC, create_topic, produce, tiered_broker

SEGMENT = (
    rf"(\d{{20}})\.log of {TOPIC}-0 \(offsets \d+ to \d+, \d+ bytes\) with segment id \S{{22}}"
)


def lines_of(caplog: pytest.LogCaptureFixture, pattern: str) -> list[re.Match[str]]:
    """The lines at INFO that are of this form."""
    messages = [each.getMessage() for each in caplog.records if each.levelno == logging.INFO]
    return [match for each in messages if (match := re.fullmatch(pattern, each)) is not None]


async def test_each_segment_is_reported_when_it_is_rolled_copied_and_deleted(
    loop: SimulatedLoop, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    broker = tiered_broker(loop, "log-lines")
    await broker.start()
    with on_host("client"):
        environment = SimulatedEnvironment(loop, "admin")
        async with Admin(broker.bootstrap, environment=environment) as admin:
            configs = {
                "remote.storage.enable": "true",
                "internal.segment.bytes": "1000",
                "local.retention.bytes": "1",
                "retention.bytes": "3000",
            }
            await admin.create_topics([NewTopic(TOPIC, 1, 1, configs)])
            await produce(loop, broker, 0, 80)
            await asyncio.sleep(30)
            await admin.delete_topics([TOPIC])
        await asyncio.sleep(5)
    await broker.stop()
    rolled = lines_of(caplog, rf"Rolled new log segment of {TOPIC}-0 at offset (\d+)")
    copied = lines_of(caplog, rf"Copied to remote storage: {SEGMENT}")
    local = lines_of(
        caplog,
        rf"Deleting local segment (\d{{20}})\.log of {TOPIC}-0 \(offsets \d+ to \d+, \d+ bytes\)"
        r" due to local log retention size 1 breach",
    )
    remote = lines_of(
        caplog, rf"Deleted remote log segment {SEGMENT} due to retention size 3000 breach"
    )
    starts = [int(match[1]) for match in copied]
    assert len(starts) > 4
    assert starts == sorted(set(starts))
    assert [int(match[1]) for match in rolled][: len(starts) - 1] == starts[1:]
    assert {match[1] for match in local} <= {match[1] for match in copied}
    assert len(local) > 4
    assert len(remote) > 2
    assert lines_of(caplog, rf"Created topic {TOPIC} with topic id \S{{22}} and 1 partition")
    assert lines_of(caplog, f"Leader {TOPIC}-0 starts at leader epoch 0 from offset 0")
    assert lines_of(caplog, rf"Deleted topic {TOPIC} with topic id \S{{22}}")


async def test_a_deletion_is_reported_with_the_limit_that_decided_it(
    broker: TieredBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """Also if the topic has another limit by then: the log start offset was raised before."""
    caplog.set_level(logging.INFO)
    broker.append(4)
    await until(lambda: broker.log.local_log_start_offset == 3)
    broker.tier.latency_seconds = 1.0
    broker.log.update_config(replace(LOG_CONFIG, retention_bytes=1))
    await until(lambda: bool(broker.tier.asked(DELETE)))
    broker.log.update_config(replace(LOG_CONFIG, retention_bytes=1_000_000))
    await until(lambda: not broker.tier.segments)
    deleted = lines_of(caplog, r"Deleted remote log segment .* due to (.*)")
    assert [match[1] for match in deleted] == ["retention size 1 breach"] * 3


async def test_a_recovery_after_kill_9_is_reported_with_its_end(
    loop: SimulatedLoop, caplog: pytest.LogCaptureFixture
) -> None:
    broker = tiered_broker(loop, "log-lines-killed")
    await broker.start()
    with on_host("client"):
        await create_topic(loop, broker)
        await produce(loop, broker, 0, 5)
    broker.kill()
    caplog.clear()
    caplog.set_level(logging.INFO)
    await broker.start()
    assert lines_of(caplog, "Recovering the logs in /data since no clean shutdown file was found")
    assert lines_of(caplog, rf"Recovered {TOPIC}-0 from offset 0 to 5")
    assert lines_of(caplog, r"Loaded \d+ logs in \d+ ms, \d+ of them recovered")
    assert lines_of(caplog, r"Leading \d+ partitions? of \d+ topics? after startup")
    await broker.stop()
    caplog.clear()
    await broker.start()
    assert not lines_of(caplog, r"Recover.*")
    assert lines_of(caplog, r"Loaded \d+ logs in \d+ ms")
    await broker.stop()


async def test_thousands_of_new_leaderships_are_one_line(
    loop: SimulatedLoop, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    broker = tiered_broker(loop, "log-lines-many")
    await broker.start()
    with on_host("client"):
        environment = SimulatedEnvironment(loop, "admin")
        async with Admin(broker.bootstrap, environment=environment) as admin:
            await admin.create_topics([NewTopic("wide", 50, 1, {})])
    await broker.stop()
    assert lines_of(caplog, "Started leading 50 partitions of 1 topic: wide")
    assert not lines_of(caplog, r"Leader wide-\d+ .*")


async def test_a_mounted_tier_is_reported_once(
    loop: SimulatedLoop, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    broker = tiered_broker(loop, "log-lines-own")
    broker.properties |= {
        "tierlog.mount.archive.url": "memory://log-lines-theirs",
        "tierlog.mount.archive.refresh.ms": "100",
    }
    await broker.start()
    await asyncio.sleep(5)
    await broker.stop()
    messages = lines_of(
        caplog, r"Mounted archive from memory://log-lines-theirs: 0 topics, read-only"
    )
    assert len(messages) == 1
