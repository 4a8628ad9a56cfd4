"""Plugins by class name: what docs/tiering-plugins.md says, word by word, and what is refused."""

import asyncio
import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tierlog.bench.harness.processes.live_files import live_paths
from tierlog.broker.broker import StartError
from tierlog.broker.config.config import config_warnings, read_config
from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.properties import parse_properties
from tierlog.tests.simulation.broker import SimulatedBroker
from tierlog.tests.simulation.loop import SimulatedLoop, simulate
from tierlog.tests.simulation.network import SimulatedNetwork, on_host
from tierlog.tests.tiering.deleted_topics import delete_topic
from tierlog.tests.tiering.tiered_broker import until
from tierlog.tests.tiering.whole_broker import check_all, consume, create_topic, produce

PAGE = Path(__file__).parents[2] / "docs" / "tiering-plugins.md"
QUICK = {
    "remote.log.manager.task.interval.ms": "1000",
    "log.retention.check.interval.ms": "1000",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "3",
}
ENABLED = {"remote.log.storage.system.enable": "true"}
CLASS = "remote.log.storage.manager.class.name"
CLASS_PATH = "remote.log.storage.manager.class.path"
METADATA_CLASS = "remote.log.metadata.manager.class.name"
KAFKAS = "org.apache.kafka.server.log.remote"

Write = Callable[[str, str], str]


def blocks(language: str) -> list[str]:
    """The code of this language in the page."""
    pieces = PAGE.read_text("utf-8").split("```")[1::2]
    return [piece.partition("\n")[2] for piece in pieces if piece.partition("\n")[0] == language]


@pytest.fixture
def write(tmp_path: Path) -> Iterator[Write]:
    """Writes a module into a folder; what Python remembers of it is forgotten afterwards."""
    path, modules = list(sys.path), set(sys.modules)

    def module(name: str, content: str) -> str:
        folder = tmp_path / "plugins"
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.py").write_text(content, "utf-8")
        return str(folder)

    yield module
    sys.path[:] = path
    for name in sys.modules.keys() - modules:
        if not name.startswith("tierlog"):
            del sys.modules[name]


def from_the_page(write: Write, tmp_path: Path) -> dict[str, str]:
    (code,), (properties,) = blocks("python"), blocks("properties")
    stated = parse_properties(properties)
    assert stated["rsm.config.folder"] == "/var/lib/tierlog/tier"
    return {
        **stated,
        **QUICK,
        CLASS_PATH: write("folder_tier", code),
        "rsm.config.folder": str(tmp_path / "tier"),
    }


async def test_the_plugin_of_the_page_stores_reads_and_deletes(
    loop: SimulatedLoop, write: Write, tmp_path: Path
) -> None:
    properties = from_the_page(write, tmp_path)
    tier = tmp_path / "tier"
    loop.network = network = SimulatedNetwork(loop)
    broker = SimulatedBroker(loop, network, properties)
    await broker.start()
    with on_host("client"):
        await create_topic(loop, broker)
        await produce(loop, broker, 0, 40)
        await until(lambda: len(list(live_paths(tier, "**/*.log"))) > 4)
        await asyncio.sleep(5)
        check_all(await consume(loop, broker), 40)
        await delete_topic(loop, broker)
        await until(lambda: not [each for each in live_paths(tier, "**/*") if each.is_file()])
    await broker.stop()


PROBE = """
import json

class Probe:
    def configure(self, configs):
        raise ValueError(json.dumps(dict(configs)))
    async def copy_log_segment_data(self, metadata, data): ...
    async def fetch_log_segment(self, metadata, start_position, end_position): ...
    async def fetch_index(self, metadata, index_type): ...
    async def delete_log_segment_data(self, metadata): ...
    async def close(self): ...

class ProbeOfMetadata:
    def configure(self, configs):
        raise ValueError(json.dumps(dict(configs)))
    start = stop = assign = forget = watch_all = configure
    is_ready = remote_log = remote_logs = publish = configure
"""


def start_error(properties: dict[str, str]) -> str:
    """The sentence with which a broker does not start."""
    found: list[str] = []

    async def story(loop: SimulatedLoop) -> None:
        loop.network = network = SimulatedNetwork(loop)
        broker = SimulatedBroker(loop, network, properties)
        with pytest.raises(StartError) as refused:
            await broker.start()
        found.append(str(refused.value))

    simulate(story)
    return found[0]


def test_a_storage_gets_its_own_properties_and_its_node(write: Write) -> None:
    folder = write("probe", PROBE)
    stated = {**ENABLED, CLASS: "probe.Probe", CLASS_PATH: folder, "rsm.config.a": "1", "b": "2"}
    sentence = start_error(stated)
    assert sentence.startswith("probe.Probe cannot be configured: {")
    for fragment in ('"a": "1"', '"broker.id"', '"cluster.id"', '"log.dir"'):
        assert fragment in sentence
    assert '"b"' not in sentence


def test_a_metadata_manager_gets_the_address_of_the_broker(write: Write, tmp_path: Path) -> None:
    properties = {
        **from_the_page(write, tmp_path),
        METADATA_CLASS: "probe:ProbeOfMetadata",
        "remote.log.metadata.manager.class.path": write("probe", PROBE),
        "remote.log.metadata.manager.impl.prefix": "mine.",
        "mine.remote.log.metadata.common.client.client.id": "me",
    }
    sentence = start_error(properties)
    client = "remote.log.metadata.common.client"
    assert f'"{client}.bootstrap.servers": "' in sentence
    assert f'"{client}.security.protocol": "PLAINTEXT"' in sentence
    assert f'"{client}.client.id": "me"' in sentence
    elsewhere = {f"mine.{client}.bootstrap.servers": "other:1"}
    assert f'"{client}.bootstrap.servers": "other:1"' in start_error({**properties, **elsewhere})


def refusal(stated: dict[str, str]) -> str:
    with pytest.raises(KafkaError) as refused:
        read_config({**ENABLED, **stated})
    assert refused.value.code is ErrorCode.INVALID_CONFIG
    assert "\n" not in refused.value.message
    return refused.value.message


def test_what_cannot_be_loaded_is_refused_in_one_sentence(write: Write) -> None:
    folder = write("faulty", "import a_module_that_is_nowhere\n")
    write("broken", "raise RuntimeError('no licence')\n")
    write("fine", "Number = 3\n")
    path = {CLASS_PATH: folder}
    assert "no module nowhere is on Python's module path" in refusal({CLASS: "nowhere:Tier"})
    assert f"or in {folder}" in refusal({CLASS: "nowhere:Tier", **path})
    assert "No module named 'a_module_that_is_nowhere'" in refusal({CLASS: "faulty:Tier", **path})
    assert "no licence" in refusal({CLASS: "broken:Tier", **path})
    assert "fine has no class Tier" in refusal({CLASS: "fine:Tier", **path})
    assert "fine has no class Number" in refusal({CLASS: "fine:Number", **path})
    assert "is not a class name" in refusal({CLASS: "Tier"})
    aiven = "io.aiven.kafka.tieredstorage.RemoteStorageManager"
    assert f"{aiven} is a Java class" in refusal({CLASS: aiven})
    noop = f"{KAFKAS}.storage.NoOpRemoteStorageManager"
    assert f"{noop} is a Java class" in refusal({CLASS: noop})
    java = {METADATA_CLASS: "com.example.Metadata", "rsm.config.url": "memory://x"}
    assert "com.example.Metadata is a Java class" in refusal(java)


def test_a_class_that_is_no_storage_says_what_it_lacks(write: Write) -> None:
    folder = write("half", "class Half:\n    async def close(self): ...\n")
    sentence = start_error({**ENABLED, CLASS: "half:Half", CLASS_PATH: folder})
    assert sentence == (
        "half:Half is not a remote storage manager: it has no copy_log_segment_data,"
        " fetch_log_segment, fetch_index, delete_log_segment_data."
    )


def test_kafkas_own_classes_are_ours_under_another_name(tmp_path: Path) -> None:
    config = read_config(
        {
            **ENABLED,
            CLASS: f"{KAFKAS}.storage.LocalTieredStorage",
            "rsm.config.dir": str(tmp_path),
            METADATA_CLASS: f"{KAFKAS}.metadata.storage.TopicBasedRemoteLogMetadataManager",
            "remote.log.metadata.manager.listener.name": "PLAINTEXT",
        }
    )
    assert config.remote_storage is not None
    assert config.remote_storage.url == f"file://{tmp_path}"
    assert config.storage_plugin is None
    assert config.metadata_plugin is None
    assert config_warnings(config) == []


def test_a_listener_that_is_not_there_is_refused_as_by_kafka() -> None:
    sentence = refusal(
        {"rsm.config.url": "memory://x", "remote.log.metadata.manager.listener.name": "INSIDE"}
    )
    assert sentence.endswith(
        "Should be set as a listener name within valid broker listener name list: PLAINTEXT"
    )


def test_without_a_tier_no_class_is_looked_for() -> None:
    assert not read_config({CLASS: "nowhere:Tier"}).is_tiered


FAILING = PROBE.replace("raise ValueError(json.dumps(dict(configs)))", "pass").replace(
    "async def copy_log_segment_data(self, metadata, data): ...",
    "async def copy_log_segment_data(self, metadata, data): raise ZeroDivisionError('a slip')",
)


async def test_whatever_a_plugin_raises_is_a_failure_of_the_tier(
    loop: SimulatedLoop, write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    folder = write("failing", FAILING)
    properties = {**ENABLED, **QUICK, CLASS: "failing:Probe", CLASS_PATH: folder}
    loop.network = network = SimulatedNetwork(loop)
    broker = SimulatedBroker(loop, network, properties)
    await broker.start()
    with on_host("client"):
        await create_topic(loop, broker)
        await produce(loop, broker, 0, 40)
        await asyncio.sleep(30)
        check_all(await consume(loop, broker), 40)
    await broker.stop()
    assert "failing:Probe failed: ZeroDivisionError('a slip')" in caplog.text
    assert "Traceback" not in caplog.text
