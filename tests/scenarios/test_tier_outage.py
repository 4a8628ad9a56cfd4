"""The object store refuses or hangs for a while, or its folder is gone. Then everything catches up.

Meanwhile records are taken, local data is read, topics are made; who reads what is in the tier
alone is kept waiting, and reads on by itself afterwards. It is said once. In the end there is no
hole and no orphan.
"""

from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path

import confluent_kafka
import pytest

from tierlog.bench.harness.processes.tierlog_node import TierlogNode
from tierlog.tests.scenarios.foreign_clients import CLIENTS
from tierlog.tests.scenarios.plain_io import produce, read, value_of
from tierlog.tests.scenarios.tier_command import tier
from tierlog.tests.tiering.servers.s3 import VersityGateway
from tierlog.tests.waiting import wait_until

TOPIC = "through-the-outage"
TIERED = {
    "remote.storage.enable": "true",
    "segment.bytes": "1048576",
    "local.retention.bytes": "1048576",
}
PROPERTIES = {
    "log.retention.check.interval.ms": "200",
    "remote.log.manager.task.interval.ms": "200",
    "log.initial.task.delay.ms": "100",
    "remote.log.manager.task.retry.backoff.ms": "200",
    "remote.log.manager.task.retry.backoff.max.ms": "1000",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "2",
}
BEFORE, DURING = 4_000, 4_000


def base_offsets(node: TierlogNode) -> list[int]:
    """Base offsets of the local segments, the active one last."""
    return sorted(int(log.stem) for log in (node.directory / "logs" / f"{TOPIC}-0").glob("*.log"))


def segments(node: TierlogNode) -> int:
    return len(base_offsets(node))


def warnings(node: TierlogNode, text: str) -> list[str]:
    return [line for line in node.output.splitlines() if " WARNING " in line and text in line]


def errors(node: TierlogNode) -> list[str]:
    """What the broker calls an error.

    Not what aiohttp leaves for asyncio to tell, of a request whose connection broke under it.
    """
    lines = [line for line in node.output.splitlines() if " ERROR " in line]
    return [line for line in lines if "Task exception was never retrieved" not in line]


class PatientReader:
    """A consumer that was told to read from the beginning and waits as long as it must."""

    def __init__(self, bootstrap: str) -> None:
        self.found: list[tuple[int, bytes]] = []
        self.errors: list[object] = []
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "patient",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "log_level": 0,
            }
        )
        self._consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, 0)])

    def read(self) -> int:
        """How much it has after another look."""
        for message in self._consumer.consume(1_000, timeout=0.2):
            if message.error() is not None:
                self.errors.append(message.error())
                continue
            offset, value = message.offset(), message.value()
            assert offset is not None
            assert isinstance(value, bytes)
            self.found.append((offset, value))
        return len(self.found)

    def close(self) -> None:
        self._consumer.close()


def stays(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """The condition does not come to hold."""
    with pytest.raises(AssertionError, match="Not within"):
        wait_until(condition, seconds, what)


def expected(count: int) -> list[tuple[int, bytes]]:
    return [(each, value_of(each)) for each in range(count)]


def live_on_without_the_tier(node: TierlogNode) -> None:
    """Produce, read what is local, make a topic."""
    values = map(value_of, range(BEFORE, BEFORE + DURING))
    sent = produce(node.bootstrap, TOPIC, values, timeout_ms=30_000)
    assert sent.refused == []
    local = read(node.bootstrap, TOPIC, DURING, start=BEFORE)
    assert local == expected(BEFORE + DURING)[BEFORE:]
    CLIENTS["confluent-kafka"].create_topic(node.bootstrap, "made-meanwhile", TIERED)
    assert produce(node.bootstrap, "made-meanwhile", [b"1"]).refused == []


def catch_up(node: TierlogNode, reader: PatientReader) -> None:
    """What must be once the store is back."""
    wait_until(lambda: segments(node) <= 3, 90, node.log_tail)
    wait_until(lambda: reader.read() >= BEFORE + DURING, 90, lambda: f"{len(reader.found)}")
    assert reader.found == expected(BEFORE + DURING)
    assert reader.errors == [], "a consumer was told what it should not be"
    wait_until(lambda: tier(node, "verify", "--json").code == 0, 60, node.log_tail)
    scrub = tier(node, "scrub", "--bootstrap", node.bootstrap, "--json", "--unknown-partitions")
    assert scrub.code == 0, scrub.output
    assert errors(node) == []


@contextmanager
def tiered_node(
    directory: Path, properties: dict[str, str]
) -> Generator[tuple[TierlogNode, PatientReader]]:
    """A broker most of whose topic is in the tier alone, and a consumer about to read that."""
    with TierlogNode(directory, properties=PROPERTIES | properties) as node:
        CLIENTS["confluent-kafka"].create_topic(node.bootstrap, TOPIC, TIERED)
        sent = produce(node.bootstrap, TOPIC, map(value_of, range(BEFORE)), timeout_ms=30_000)
        assert sent.refused == []
        wait_until(lambda: segments(node) <= 3, 60, node.log_tail)
        with closing(PatientReader(node.bootstrap)) as reader:
            yield node, reader


@pytest.mark.slow
@pytest.mark.requires("go")
@pytest.mark.parametrize("how", ["refusing", "hanging"])
def test_a_store_that_is_away_for_a_while(how: str, tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    with (
        VersityGateway(tmp_path / "store") as store,
        tiered_node(tmp_path / "node", store.properties()) as (node, reader),
    ):
        (store.stop if how == "refusing" else store.freeze)()
        active = base_offsets(node)[-1]
        live_on_without_the_tier(node)
        # What is older than that segment may have been copied before: retention deletes it.
        left = [base for base in base_offsets(node) if base >= active]
        stays(lambda: reader.read() > 0, 6, "nothing comes from a tier that is away")
        assert set(left) <= set(base_offsets(node)), "deleted before it was copied"
        assert reader.errors == []
        (store.start if how == "refusing" else store.thaw)()
        catch_up(node, reader)
        assert len(warnings(node, "The remote tier works again")) <= 1
        assert len(warnings(node, "Local data is still served")) <= 1
        assert store.secret not in node.output


@pytest.mark.slow
def test_a_folder_that_is_gone_for_a_while(tmp_path: Path) -> None:
    """On `file`: as when what is mounted there is not."""
    with tiered_node(tmp_path / "node", {}) as (node, reader):
        away = node.directory / "elsewhere"
        remote = node.directory / "remote"
        remote.rename(away)
        remote.write_text("not a folder, and nothing can be made in it")
        live_on_without_the_tier(node)
        stays(lambda: segments(node) <= 3, 3, "deleted before it was copied")
        remote.unlink()
        away.rename(remote)
        catch_up(node, reader)
