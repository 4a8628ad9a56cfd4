"""Another cluster's tier, shown read-only: unmodified clients read it, and nobody writes to it."""

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path

import confluent_kafka
import pytest

from tierlog.bench.harness.processes.kafka_peer import run_tool
from tierlog.bench.harness.processes.tierlog_node import TierlogNode
from tierlog.clients.admin import Admin
from tierlog.clients.topic_partition import TopicPartition
from tierlog.tests.scenarios.foreign_clients import CLIENTS
from tierlog.tests.scenarios.object_store import ObjectStore
from tierlog.tests.scenarios.plain_io import produce, read, value_of
from tierlog.tests.scenarios.rebuild_story import PROPERTIES
from tierlog.tests.scenarios.tier_command import tier
from tierlog.tests.waiting import wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:.*_text is deprecated:DeprecationWarning"),  # kafka-python's
]

TOPIC = "theirs"
RECORDS = 5_000
TOPIC_CONFIG = {
    "remote.storage.enable": "true",
    "segment.bytes": "1048576",
    "local.retention.bytes": "1048576",
}


@pytest.fixture(params=["file", "s3"])
def tier_properties(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, str]]:
    if request.param == "file":
        yield {"rsm.config.url": (tmp_path / "their-tier").as_uri()}
        return
    with ObjectStore(tmp_path) as store:
        store.start()
        yield store.properties


def as_mount(properties: dict[str, str]) -> dict[str, str]:
    """The same tier, as another cluster's."""
    mounted = {
        name.replace("rsm.config.", "tierlog.mount.archive."): value
        for name, value in properties.items()
    }
    return PROPERTIES | mounted | {"tierlog.mount.archive.refresh.ms": "200"}


async def ends(bootstrap: str) -> tuple[int, int, int]:
    """Where the log, and its local part, begin, and where it ends."""
    partition = TopicPartition(TOPIC, 0)
    async with Admin(bootstrap) as admin:
        return (
            (await admin.list_offsets({partition: -2}))[partition].offset,
            (await admin.list_offsets({partition: -4}))[partition].offset,
            (await admin.list_offsets({partition: -1}))[partition].offset,
        )


async def topics(bootstrap: str) -> set[str]:
    async with Admin(bootstrap) as admin:
        return set(await admin.list_topics())


def tiered_end(node: TierlogNode) -> int:
    listed = tier(node, "ls", "--json").fields["partitions"]
    ends = [each["end_offset"] for each in listed if each["end_offset"] is not None]
    return max(ends, default=-1) + 1


def wait_until_shown(ours: TierlogNode, end: int) -> None:
    wait_until(lambda: TOPIC in asyncio.run(topics(ours.bootstrap)), 30, lambda: ours.log_tail())
    wait_until(
        lambda: asyncio.run(ends(ours.bootstrap))[2] == end,
        30,
        lambda: f"{asyncio.run(ends(ours.bootstrap))} and not {end}\n{ours.log_tail()}",
    )


def fill(theirs: TierlogNode, first: int) -> int:
    """Produce until more is in their tier; where that ends."""
    values = map(value_of, range(first, first + RECORDS))
    assert len(produce(theirs.bootstrap, TOPIC, values, timeout_ms=30_000).refused) == 0
    wait_until(lambda: tiered_end(theirs) > first + RECORDS - 2_200, 60, lambda: theirs.log_tail())
    return tiered_end(theirs)


def test_a_tier_of_another_cluster_is_read_and_never_written(
    tier_properties: dict[str, str], tmp_path: Path
) -> None:
    with TierlogNode(tmp_path / "theirs", properties=PROPERTIES | tier_properties) as theirs:
        CLIENTS["confluent-kafka"].create_topic(theirs.bootstrap, TOPIC, TOPIC_CONFIG)
        end = fill(theirs, 0)
        before = tier(theirs, "ls", "--json").fields
        with TierlogNode(tmp_path / "ours", properties=as_mount(tier_properties)) as ours:
            wait_until_shown(ours, end)
            assert asyncio.run(ends(ours.bootstrap)) == (0, end, end)
            assert read(ours.bootstrap, TOPIC, end) == [(n, value_of(n)) for n in range(end)]
            for name, client in CLIENTS.items():
                reader = client.read(ours.bootstrap, TOPIC, f"group of {name}")
                assert [next(reader) for _ in range(2_000)] == [
                    (n, value_of(n)) for n in range(2_000)
                ]

            sent = produce(ours.bootstrap, TOPIC, [b"no"])
            assert [each.code() for each in sent.refused] == [
                confluent_kafka.KafkaError.TOPIC_EXCEPTION
            ]
            assert tier(theirs, "ls", "--json").fields == before

            # What they copy later is there a moment later, also after a restart of theirs, which
            # raises the leader epoch.
            theirs.kill()
            theirs.start()
            end = fill(theirs, RECORDS)
            wait_until_shown(ours, end)
            assert read(ours.bootstrap, TOPIC, end) == [(n, value_of(n)) for n in range(end)]

            ours.kill()
            ours.start()
            wait_until_shown(ours, end)
            assert read(ours.bootstrap, TOPIC, end) == [(n, value_of(n)) for n in range(end)]
            assert "Traceback" not in ours.output
        verified = tier(theirs, "verify", "--bootstrap", theirs.bootstrap)
        assert verified.code == 0, verified


def test_a_name_that_is_taken_is_refused_in_plain_words(tmp_path: Path) -> None:
    their_tier = {"rsm.config.url": (tmp_path / "their-tier").as_uri()}
    with TierlogNode(tmp_path / "theirs", properties=PROPERTIES | their_tier) as theirs:
        CLIENTS["confluent-kafka"].create_topic(theirs.bootstrap, TOPIC, TOPIC_CONFIG)
        fill(theirs, 0)
        with TierlogNode(tmp_path / "ours", properties=PROPERTIES) as ours:
            CLIENTS["confluent-kafka"].create_topic(ours.bootstrap, TOPIC, {})
            produce(ours.bootstrap, TOPIC, [b"ours"])
        again = TierlogNode(tmp_path / "ours", properties=as_mount(their_tier))
        with again:
            said = f"Topic {TOPIC} of mount archive is not available"
            wait_until(lambda: said in again.output, 30, lambda: again.log_tail())
            assert read(again.bootstrap, TOPIC, 1) == [(0, b"ours")]
            assert len(produce(again.bootstrap, TOPIC, [b"more"]).acknowledged) == 1


def test_a_mount_that_is_not_stated_any_more_takes_its_topics_with_it(tmp_path: Path) -> None:
    their_tier = {"rsm.config.url": (tmp_path / "their-tier").as_uri()}
    with TierlogNode(tmp_path / "theirs", properties=PROPERTIES | their_tier) as theirs:
        CLIENTS["confluent-kafka"].create_topic(theirs.bootstrap, TOPIC, TOPIC_CONFIG)
        end = fill(theirs, 0)
        with TierlogNode(tmp_path / "ours", properties=as_mount(their_tier)) as ours:
            wait_until_shown(ours, end)
        with TierlogNode(tmp_path / "ours", properties=PROPERTIES) as again:
            wait_until(
                lambda: TOPIC not in asyncio.run(topics(again.bootstrap)), 30, again.log_tail
            )
        assert tier(theirs, "verify", "--bootstrap", theirs.bootstrap).code == 0


class NodeWithoutTier(TierlogNode):
    """A broker that tiers nothing itself."""

    def properties(self) -> Mapping[str, str]:
        stated = super().properties()
        return {name: stated[name] for name in stated if not name.startswith("rsm.")}


def test_a_broker_without_a_tier_of_its_own_shows_theirs(tmp_path: Path) -> None:
    their_tier = {"rsm.config.url": (tmp_path / "their-tier").as_uri()}
    with TierlogNode(tmp_path / "theirs", properties=PROPERTIES | their_tier) as theirs:
        CLIENTS["confluent-kafka"].create_topic(theirs.bootstrap, TOPIC, TOPIC_CONFIG)
        end = fill(theirs, 0)
    with NodeWithoutTier(tmp_path / "ours", properties=as_mount(their_tier)) as ours:
        for _ in range(2):
            wait_until_shown(ours, end)
            assert read(ours.bootstrap, TOPIC, end) == [(n, value_of(n)) for n in range(end)]
            ours.kill()
            ours.start()


@pytest.mark.requires("java", "mvn")
def test_the_console_consumer_reads_what_another_cluster_has_tiered(tmp_path: Path) -> None:
    """Also across a leader epoch of theirs that is above every one of ours."""
    their_tier = {"rsm.config.url": (tmp_path / "their-tier").as_uri()}
    with TierlogNode(tmp_path / "theirs", properties=PROPERTIES | their_tier) as theirs:
        CLIENTS["confluent-kafka"].create_topic(theirs.bootstrap, TOPIC, TOPIC_CONFIG)
        fill(theirs, 0)
        for _ in range(3):
            theirs.kill()
            theirs.start()
        end = fill(theirs, RECORDS)
        with TierlogNode(tmp_path / "ours", properties=as_mount(their_tier)) as ours:
            wait_until_shown(ours, end)
            read_by_java = run_tool(
                "kafka-console-consumer",
                *("--bootstrap-server", ours.bootstrap, "--topic", TOPIC, "--group", "java"),
                *("--from-beginning", "--max-messages", str(end), "--timeout-ms", "60000"),
            )
            lines = [line for line in read_by_java.stdout.splitlines() if line[:8].isdigit()]
            assert lines == [value_of(n).decode() for n in range(end)]
