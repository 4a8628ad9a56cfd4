"""A tiered topic on a broker that is killed again and again: all of it can be read back.

The remote tier is fsspec's memory, which outlives the broker's processes as a bucket would.
"""

import asyncio

import pytest

from tierlog.clients.admin import Admin, NewTopic
from tierlog.clients.producer.producer import Producer
from tierlog.clients.producer.sender import ProducerOptions
from tierlog.tests.simulation.broker import SimulatedBroker
from tierlog.tests.simulation.broker_clients import TOPIC, consume
from tierlog.tests.simulation.environment import SimulatedEnvironment
from tierlog.tests.simulation.loop import SimulatedLoop
from tierlog.tests.simulation.network import SimulatedNetwork, on_host

RECORDS = 60
RECORD_BYTES = 100_000
TIERED = {
    "remote.log.storage.system.enable": "true",
    "remote.log.manager.task.interval.ms": "500",
    "log.retention.check.interval.ms": "500",
    "log.initial.task.delay.ms": "200",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
}
TOPIC_CONFIG = {
    "remote.storage.enable": "true",
    "segment.bytes": "1048576",
    "local.retention.bytes": "1",
    "file.delete.delay.ms": "10",
}


def value_of(number: int) -> bytes:
    return b"%06d" % number + bytes(RECORD_BYTES)


async def produce_and_be_killed(loop: SimulatedLoop, broker: SimulatedBroker) -> dict[int, bytes]:
    acknowledged: dict[int, bytes] = {}
    environment = SimulatedEnvironment(loop, "producer")
    options: ProducerOptions = {"enable_idempotence": True, "environment": environment}
    async with Producer(broker.bootstrap, **options) as producer:
        for number in range(RECORDS):
            sent = await producer.send(TOPIC, value_of(number), partition=0)
            acknowledged[sent.offset] = value_of(number)
            await asyncio.sleep(loop.random.uniform(0, 0.2))
            if loop.random.random() < 0.05:
                broker.kill()
                await asyncio.sleep(0.1)
                await broker.start()
    return acknowledged


@pytest.mark.simulated(time_limit_s=3600)
async def test_what_left_the_disk_is_read_back_from_the_tier(
    loop: SimulatedLoop, simulation_seed: int
) -> None:
    tier = {"rsm.config.url": f"memory://tier-{simulation_seed}"}
    broker = SimulatedBroker(loop, SimulatedNetwork(loop), TIERED | tier)
    await broker.start()
    with on_host("client"):
        environment = SimulatedEnvironment(loop, "admin")
        async with Admin(broker.bootstrap, environment=environment) as admin:
            await admin.create_topics([NewTopic(TOPIC, 1, 1, TOPIC_CONFIG)])
        acknowledged = await produce_and_be_killed(loop, broker)
        await asyncio.sleep(60)
        local = broker.disk.directory(f"/data/{TOPIC}-0").entries
        assert len([name for name in local if name.endswith(".log")]) == 1
        found = await consume(loop, broker)
    assert {record.offset: record.value for record in found} == acknowledged
    assert len(found) == RECORDS
    await broker.stop()
