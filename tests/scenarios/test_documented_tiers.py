"""Each tier of docs/tiers.md as it is written there, under a broker, on a real server of its kind.

The address and the credentials are the server's; every other line is the page's. What left the
local disk is read back, before and after the broker is killed.
"""

import re
from pathlib import Path

import pytest

from tierlog.bench.harness.processes.tierlog_node import TierlogNode
from tierlog.tests.scenarios.foreign_clients import CLIENTS
from tierlog.tests.scenarios.plain_io import produce, read, value_of
from tierlog.tests.tiering.servers.abfs import AzuriteServer
from tierlog.tests.tiering.servers.gs import FakeGcsServer
from tierlog.tests.tiering.servers.s3 import MotoServer
from tierlog.tests.tiering.servers.server import FETCH_SECONDS, StoreServer
from tierlog.tests.tiering.servers.sftp import KeyedAsyncSshServer
from tierlog.tests.tiering.servers.webhdfs import HdfsServer
from tierlog.tests.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(FETCH_SECONDS + 300)]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tiers.md"
BLOCK = re.compile(r"```properties\n(.*?)```", re.DOTALL)

TOPIC = "far-away"
RECORDS = 8_000
EVERYTHING = [(each, value_of(each)) for each in range(RECORDS)]
TOPIC_CONFIG = {
    "remote.storage.enable": "true",
    "segment.bytes": "1048576",
    "local.retention.bytes": "1048576",
}
PROPERTIES = {
    "log.retention.check.interval.ms": "200",
    "remote.log.manager.task.interval.ms": "200",
    "log.initial.task.delay.ms": "100",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "2",
}


def documented() -> dict[str, dict[str, str]]:
    """The properties of each block of the page, by the protocol of their URL."""
    found: dict[str, dict[str, str]] = {}
    for block in BLOCK.findall(PAGE.read_text()):
        pairs = (line.partition("=") for line in block.splitlines())
        properties = {name: value for name, _, value in pairs}
        found[properties["rsm.config.url"].partition("://")[0]] = properties
    return found


def test_the_page_has_a_block_for_each_store() -> None:
    assert set(documented()) == {"file", "s3", "gs", "abfs", "webhdfs", "sftp"}


def write_and_read_back(directory: Path, tier: dict[str, str]) -> str:
    """Fill a topic, lose the local part of it, read it; what the broker has said meanwhile."""
    with TierlogNode(directory / "node", properties=PROPERTIES | tier) as node:
        folder = node.directory / "logs" / f"{TOPIC}-0"
        CLIENTS["confluent-kafka"].create_topic(node.bootstrap, TOPIC, TOPIC_CONFIG)
        sent = produce(node.bootstrap, TOPIC, map(value_of, range(RECORDS)), timeout_ms=30_000)
        assert sent.acknowledged == EVERYTHING

        def most_are_gone() -> bool:
            names = sorted(path.name for path in folder.glob("*.log"))
            return len(names) <= 3 and not names[0].startswith("0" * 20)

        wait_until(most_are_gone, 120, lambda: node.output[-3000:])
        assert read(node.bootstrap, TOPIC, RECORDS) == EVERYTHING
        node.kill()
        node.start()
        assert read(node.bootstrap, TOPIC, RECORDS) == EVERYTHING
        return node.output


def complaints(said: str) -> list[str]:
    """The warnings but for one: on a busy machine, a server's first answer may take seconds."""
    warnings = (line for line in said.splitlines() if " WARNING " in line)
    return [line for line in warnings if " has not answered for " not in line]


@pytest.mark.parametrize(
    ("protocol", "kind"),
    [
        ("s3", MotoServer),
        pytest.param("gs", FakeGcsServer, marks=pytest.mark.requires("go")),
        pytest.param("abfs", AzuriteServer, marks=pytest.mark.requires("node")),
        pytest.param("webhdfs", HdfsServer, marks=pytest.mark.requires("java", "mvn")),
        ("sftp", KeyedAsyncSshServer),
    ],
)
def test_a_broker_stands_on_what_the_page_says(
    protocol: str, kind: type[StoreServer], tmp_path: Path
) -> None:
    (tmp_path / "server").mkdir()
    stated = documented()[protocol]
    with kind(tmp_path / "server") as server:
        own = server.properties()
        assert own["rsm.config.url"].startswith(f"{protocol}://")
        # An emulator has an address, where Google's own is known.
        assert set(own) - {"rsm.config.option.endpoint_url"} <= set(stated)
        said = write_and_read_back(tmp_path, stated | own)
    assert complaints(said) == []
    assert "Traceback" not in said
    for secret in server.secrets:
        assert secret not in said


def test_a_broker_stands_on_files(tmp_path: Path) -> None:
    stated = documented()["file"]
    (tmp_path / "remote").mkdir()
    said = write_and_read_back(tmp_path, stated | {"rsm.config.url": f"file://{tmp_path}/remote"})
    assert complaints(said) == []
