"""docs/cluster.md word by word: its commands and its three properties files become clusters."""

import argparse
import asyncio
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tierlog.bench.harness.processes.broker_node import BrokerNode
from tierlog.bench.harness.processes.tierlog_node import tierlog_command, user_environment
from tierlog.bench.harness.requests.probe import free_port
from tierlog.broker.config.config import read_config
from tierlog.cli.cluster import add_cluster_commands
from tierlog.cli.command_line import run
from tierlog.clients.admin import Admin, NewTopic
from tierlog.clients.kafka_uuid import uuid_to_string
from tierlog.clients.properties import parse_properties
from tierlog.storage.directory.log_dir import LogDir
from tierlog.storage.files import OsFiles
from tierlog.tests.house_rules import ROOT
from tierlog.tests.testing.local_cluster.cluster_terminal import ClusterTerminal

PAGE = (ROOT / "docs" / "cluster.md").read_text()
ID = "JEXY6aqzQY-32P5TStzaFg"
UP_WITHIN_S = 120.0


ONE_COMMAND = PAGE[PAGE.index("## A cluster in one command") : PAGE.index("## Three nodes")]
CLUSTER_COMMANDS = [
    shlex.split(words)
    for words in re.findall(r"^    tierlog cluster (.+)$", ONE_COMMAND, re.MULTILINE)
]


def blocks(before: str) -> list[dict[str, str]]:
    """The properties files of the page that stand behind a line that matches."""
    texts = re.findall(rf"{before}\n\n((?:    .*\n)+)", PAGE)
    return [parse_properties(text) for text in texts]


class PageNode(BrokerNode):
    """A node whose file is that of the page, with free ports and a directory of its own."""

    def __init__(self, directory: Path, stated: Mapping[str, str]) -> None:
        clients = stated["listeners"].partition(",")[0]
        super().__init__(directory, int(clients.rpartition(":")[2]))
        self._stated = stated
        self.file = directory / "node.properties"
        directory.mkdir()
        self.file.write_text("".join(f"{name}={value}\n" for name, value in stated.items()))

    def properties(self) -> Mapping[str, str]:
        return self._stated

    def command(self, configuration: Path) -> list[str]:
        return tierlog_command("serve", "--config", str(configuration))


@pytest.fixture
def nodes(tmp_path: Path) -> list[PageNode]:
    files = blocks(r"`node\d\.properties`:")
    assert len(files) == 3
    ports = {port: str(free_port()) for port in set(re.findall(r":(9\d9\d)", str(files)))}
    moved = [
        {
            name: re.sub(r"(?<=:)9\d9\d", lambda match: ports[match[0]], value).replace(
                "/tmp/cluster", str(tmp_path / "cluster")
            )
            for name, value in file.items()
        }
        for file in files
    ]
    return [PageNode(tmp_path / f"node{index}", file) for index, file in enumerate(moved)]


def _start(node: PageNode) -> None:
    node.start(UP_WITHIN_S)


@pytest.mark.slow
def test_the_three_nodes_of_the_page_are_one_cluster(nodes: list[PageNode]) -> None:
    for node in nodes:
        assert run(["format", "--cluster-id", ID, "--config", str(node.file)], 0) == 0
    with ThreadPoolExecutor(len(nodes)) as threads:
        try:
            list(threads.map(_start, nodes))
            asyncio.run(_create_a_topic_at_each(nodes))
        finally:
            # Stopped together, the last would wait for controllers that are gone.
            list(threads.map(PageNode.kill, nodes))


async def _create_a_topic_at_each(nodes: list[PageNode]) -> None:
    for at, node in enumerate(nodes, 1):
        async with Admin(node.bootstrap) as admin:
            await admin.create_topics([NewTopic(f"topic-{at}", num_partitions=3)])
            described = await admin.describe_cluster()
            assert described.cluster_id == ID
            # Ready is who has been unfenced; each of them knows at least itself.
            assert at in described.brokers


@pytest.mark.slow
def test_a_node_of_the_page_that_is_not_formatted_says_what_to_do(nodes: list[PageNode]) -> None:
    node = nodes[0]
    answer = subprocess.run(
        node.command(node.file), capture_output=True, text=True, timeout=UP_WITHIN_S, check=False
    )
    assert answer.returncode == 1
    assert "Run `tierlog format --cluster-id ID --config FILE`" in answer.stderr
    directory = node.properties()["log.dirs"]
    assert LogDir(OsFiles(), directory).read_meta_properties() is None


def test_the_other_files_of_the_page_are_those_of_members() -> None:
    (controller,) = blocks(r"only the listener for controllers:")
    (broker,) = blocks(r"not among the voters:")
    for stated in (controller, broker):
        assert read_config(stated).is_member


def test_the_first_voters_of_the_page_are_formatted(tmp_path: Path) -> None:
    """The variables of its shell are ids that `tierlog random-uuid` prints."""
    (dynamic,) = blocks(r"controllers to ask first:")
    (stated,) = re.findall(r"VOTERS=(\S+)", PAGE)
    ids = {"$A": "MvDxzVmcRsaTz33bUuRU6A", "$B": "07R5amHmR32VDA6jHkGbTA", "$C": ID}
    voters = re.sub(r"\$[ABC]", lambda match: ids[match[0]], stated)
    for file, own in zip(blocks(r"`node\d\.properties`:"), ids.values(), strict=True):
        directory = tmp_path / file["node.id"]
        del file["controller.quorum.voters"]
        path = tmp_path / "node.properties"
        lines = (file | dynamic | {"log.dirs": str(directory)}).items()
        path.write_text("".join(f"{name}={value}\n" for name, value in lines))
        assert run(["format", "-t", ID, "-c", str(path), "--initial-controllers", voters], 0) == 0
        meta = LogDir(OsFiles(), str(directory)).read_meta_properties()
        assert meta is not None
        assert uuid_to_string(meta.directory_id) == own


@pytest.mark.parametrize("words", CLUSTER_COMMANDS, ids=" ".join)
def test_the_commands_of_the_page_are_accepted(words: list[str]) -> None:
    parser = argparse.ArgumentParser()
    add_cluster_commands(parser)
    assert parser.parse_args(words).cluster_command == words[0]


@pytest.mark.long
def test_a_cluster_in_one_command_and_all_that_the_page_does_to_it(tmp_path: Path) -> None:
    first, *others, last = [words for words in CLUSTER_COMMANDS if len(words) < 5]
    assert (first, last) == (["up"], ["stop"])
    with ClusterTerminal(tmp_path / "data-cluster") as terminal:
        terminal.wait_until_ready()
        for words in [*others, last]:
            answered = subprocess.run(
                tierlog_command("cluster", *words),
                capture_output=True,
                text=True,
                cwd=tmp_path,
                env=user_environment(),
                timeout=UP_WITHIN_S,
                check=False,
            )
            assert answered.returncode == 0, f"{words}: {answered.stdout}{answered.stderr}"
        assert terminal.process.wait(UP_WITHIN_S) == 0


@pytest.mark.long
def test_the_python_of_the_page(tmp_path: Path) -> None:
    (script,) = re.findall(r"```python\n(.*?)```", ONE_COMMAND, re.DOTALL)
    answered = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=UP_WITHIN_S,
        check=False,
    )
    assert answered.returncode == 0, answered.stderr
    addresses, active = answered.stdout.split()
    assert len(addresses.split(",")) == 3
    assert active in ("1", "2", "3")
