"""What the status API says while a tiered topic lives: whole brokers in virtual time.

A segment is seen to go from active to local, to both, to remote, and out; a group's lag is split
between tier and disk; what went to the tier is counted.
"""

import asyncio
import json
from collections.abc import Callable
from typing import Any, cast

from tierlog.broker.status.partition_status import segments_status
from tierlog.clients.admin import Admin, NewTopic
from tierlog.clients.consumer.consumer import Consumer
from tierlog.clients.topic_partition import TopicPartition
from tierlog.tests.simulation.broker import SimulatedBroker
from tierlog.tests.simulation.environment import SimulatedEnvironment
from tierlog.tests.simulation.loop import SimulatedLoop
from tierlog.tests.simulation.network import on_host
from tierlog.tests.tiering.tiered_broker import leading_broker, until
from tierlog.tests.tiering.whole_broker import TOPIC, produce, tiered_broker

Json = dict[str, Any]

PORT = 9093
CONFIGS = {
    "remote.storage.enable": "true",
    "internal.segment.bytes": "1000",
    "local.retention.ms": "3000",
    "retention.ms": "12000",
    "file.delete.delay.ms": "0",
}


def watched_broker(loop: SimulatedLoop, name: str) -> SimulatedBroker:
    """A broker with a tier in memory, whose status page has a port."""
    broker = tiered_broker(loop, name)
    broker.properties |= {"tierlog.status.port": str(PORT), "tierlog.status.host": broker.host}
    return broker


async def ask(broker: SimulatedBroker, path: str) -> tuple[int, bytes]:
    """The status and the body of an answer."""
    reader, writer = await asyncio.open_connection(broker.host, PORT)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: {broker.host}:{PORT}\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]), body


async def get(broker: SimulatedBroker, name: str) -> Json:
    """An answer of the API."""
    status, body = await ask(broker, f"/api/v1/{name}")
    assert status == 200, body
    return cast("Json", json.loads(body))


async def partition(broker: SimulatedBroker) -> Json:
    """What is said about the topic's only partition."""
    (only,) = (await get(broker, f"topics/{TOPIC}"))["partitions"]
    check_picture(only)
    return cast("Json", only)


def check_picture(shown: Json) -> None:
    """The segments cover the log from its start to its end, each offset once."""
    kept = [each for each in shown["segments"] if not each["deleting"]]
    assert [each["base"] for each in kept[1:]] == [each["end"] for each in kept[:-1]], shown
    assert (kept[0]["base"], kept[-1]["end"]) == (shown["log_start"], shown["end"]), shown
    for each in kept:
        assert (each["where"] == "remote") == (each["base"] < shown["local_start"])
        if each["where"] == "both":
            assert each["end"] - 1 <= shown["last_tiered"]
    assert [each["where"] for each in kept].count("active") == 1
    assert kept[-1]["where"] == "active"


async def seen_until(
    broker: SimulatedBroker, base: int, is_over: Callable[[str | None], bool]
) -> list[str | None]:
    """Where the segment at `base` was, in order, until that is enough; None once it is gone."""
    seen: list[str | None] = []
    async with asyncio.timeout(120):
        while not seen or not is_over(seen[-1]):
            segments = (await partition(broker))["segments"]
            places = [each["where"] for each in segments if each["base"] == base]
            where = places[0] if places else None
            if seen[-1:] != [where]:
                seen.append(where)
            await asyncio.sleep(0.2)
    return seen


async def create_topic(loop: SimulatedLoop, broker: SimulatedBroker) -> None:
    async with Admin(broker.bootstrap, environment=SimulatedEnvironment(loop, "admin")) as admin:
        await admin.create_topics([NewTopic(TOPIC, 1, 1, CONFIGS)])


async def test_a_segment_is_seen_on_its_way_into_the_tier_and_out_of_it(
    loop: SimulatedLoop,
) -> None:
    broker = watched_broker(loop, "seen-segment")
    await broker.start()
    with on_host("client"):
        await create_topic(loop, broker)
        await produce(loop, broker, 0, 3)
        first = asyncio.ensure_future(
            seen_until(broker, 0, lambda where: where not in ("active", "local", "both"))
        )
        await asyncio.sleep(1)
        await produce(loop, broker, 3, 30)
        assert await first == ["active", "local", "both", "remote"]
        shown = await partition(broker)
        assert shown["here"] == "leader"
        assert shown["last_tiered"] >= shown["local_start"] - 1 > 0
        assert shown["bytes_remote"] > 0
        assert shown["retention"]["ms"] == 12_000
        # Retention removes it from the tier too; until then the log start is below its end.
        assert (await seen_until(broker, 0, lambda where: where is None))[-1] is None
        assert (await partition(broker))["log_start"] > 0
    await broker.stop()


async def test_a_segment_in_the_middle_of_which_the_log_starts_is_shown_from_there(
    loop: SimulatedLoop,
) -> None:
    async with leading_broker(loop) as leader:
        leader.append(4, per_segment=3)
        await until(lambda: leader.log.local_log_start_offset == 3)
        leader.log.maybe_increment_log_start_offset(1)
        segments, older = segments_status(leader.log, 10, lambda _: None)
        shown = [(each["base"], each["end"], each["where"]) for each in segments]
        assert (shown, older) == ([(1, 3, "remote"), (3, 4, "active")], 0)


async def test_what_a_group_has_to_read_is_split_between_tier_and_disk(loop: SimulatedLoop) -> None:
    broker = watched_broker(loop, "split-lag")
    await broker.start()
    with on_host("client"):
        await create_topic(loop, broker)
        await produce(loop, broker, 0, 40)
        await seen_until(broker, 0, lambda where: where == "remote")
        environment = SimulatedEnvironment(loop, "reader")
        async with Consumer(broker.bootstrap, group_id="billing", environment=environment) as c:
            await c.commit({TopicPartition(TOPIC, 0): 2})
        await asyncio.sleep(1)
        shown = await partition(broker)
        (group,) = shown["groups"]
        local_start = shown["local_start"]
        assert group == {
            "group": "billing",
            "offset": 2,
            "lag": 38,
            "lag_in_tier": local_start - 2,
            "lag_local": 40 - local_start,
        }
        (listed,) = (await get(broker, "groups"))["groups"]
        parts = ("lag", "lag_in_tier", "lag_local")
        assert [listed[part] for part in parts] == [group[part] for part in parts]
        assert listed["topics"][0]["topic"] == TOPIC
        topics = {each["name"]: each for each in (await get(broker, "topics"))["topics"]}
        assert topics[TOPIC]["groups"] == [{"group": "billing", "lag": 38}]
        assert topics["__consumer_offsets"]["internal"]
    await broker.stop()


async def test_what_a_fetch_would_touch_is_shown_before_and_after_it(loop: SimulatedLoop) -> None:
    broker = watched_broker(loop, "status-fetch")
    await broker.start()
    with on_host("client"):
        await create_topic(loop, broker)
        await produce(loop, broker, 0, 40)
        await seen_until(broker, 0, lambda where: where == "remote")

        async def touched(offset: int) -> Json:
            return await get(broker, f"topics/{TOPIC}/fetch?partition=0&offset={offset}")

        before = await touched(5)
        assert (before["where"], before["first_byte"]) == ("remote", None)
        assert (before["index_cached"], before["chunk_cached"]) == (False, False)
        assert before["segment"]["base"] <= 5 < before["segment"]["end"]
        environment = SimulatedEnvironment(loop, "reader")
        async with Consumer(broker.bootstrap, environment=environment) as consumer:
            consumer.assign([TopicPartition(TOPIC, 0)])
            consumer.seek(TopicPartition(TOPIC, 0), 5)
            while not await consumer.poll(timeout_ms=1000):
                pass
        after = await touched(5)
        assert (after["index_cached"], after["chunk_cached"]) == (True, True)
        assert 0 <= after["first_byte"] < after["segment"]["bytes"]
        last = await touched(39)
        assert last["where"] in ("local", "remote")
        assert (await touched(40))["where"] == "end"
        assert (await touched(41))["where"] == "out of range"
    await broker.stop()


async def test_what_went_to_the_tier_is_counted(loop: SimulatedLoop) -> None:
    broker = watched_broker(loop, "status-trouble")
    await broker.start()
    with on_host("client"):
        assert (await ask(broker, "/ready")) == (200, b"ready\n")
        assert (await get(broker, "tier"))["state"] == "ok"
        await create_topic(loop, broker)
        await produce(loop, broker, 0, 20)
        await seen_until(broker, 0, lambda where: where == "remote")
        tier = await get(broker, "tier")
        overview = await get(broker, "overview")
        assert tier["copies"]["bytes"] == tier["bytes"] == overview["bytes_remote"] > 0
        assert tier["segments"] == tier["copies"]["requests"] > 0
        assert (tier["location"], tier["in_flight"]) == ("memory://status-trouble", [])
        assert overview["tier"] == {"state": "ok", "sentence": "The remote tier works."}
        assert overview["brokers"] == [
            {"id": 0, "host": "broker", "port": 9092, "rack": None, "state": "active"}
        ]
    await broker.stop()
