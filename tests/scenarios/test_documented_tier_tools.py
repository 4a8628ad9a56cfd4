"""docs/tier-tools.md, followed word by word: each command of it, in its order, beside a broker."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tierlog.bench.harness.processes.tierlog_node import TierlogNode
from tierlog.broker.config.config import read_config
from tierlog.clients.properties import parse_properties
from tierlog.tests.house_rules import ROOT
from tierlog.tests.scenarios.foreign_clients import CLIENTS
from tierlog.tests.scenarios.plain_io import produce, read, value_of
from tierlog.tests.scenarios.rebuild_story import PROPERTIES
from tierlog.tests.waiting import wait_until

PAGE = (ROOT / "docs" / "tier-tools.md").read_text()
TOPIC = "orders"
RECORDS = 5_000
TOPIC_CONFIG = {
    "remote.storage.enable": "true",
    "segment.bytes": "1048576",
    "local.retention.bytes": "1048576",
}


def blocks(kind: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return [block for each, block in found if each == kind]


def commands() -> list[str]:
    return [line for block in blocks("") for line in block.splitlines()]


def run(node: TierlogNode, command: str) -> str:
    """Run a line of the page where its `server.properties` is; what it says."""
    words = shlex.split(command.replace("127.0.0.1:9092", node.bootstrap))
    words[0] = str(Path(sys.executable).with_name("tierlog"))
    done = subprocess.run(
        words, cwd=node.directory, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.mark.slow
def test_every_command_does_what_the_page_says(tmp_path: Path) -> None:
    with TierlogNode(tmp_path / "node", properties=PROPERTIES) as node:
        CLIENTS["confluent-kafka"].create_topic(node.bootstrap, TOPIC, TOPIC_CONFIG)
        assert not produce(node.bootstrap, TOPIC, map(value_of, range(RECORDS))).refused
        local = node.directory / "logs" / f"{TOPIC}-0"
        wait_until(lambda: len(list(local.glob("*.log"))) <= 2, 60, lambda: node.log_tail())
        before = commands()[: -len(REBUILD)]
        said = [run(node, command) for command in before]
        assert "COPY_SEGMENT_FINISHED" in said[1]
        assert "sound" in said[3]
        repaired, scrubbed = said[5:7], said[7]
        assert all("nothing to repair" in each for each in repaired)
        assert "no orphans" in scrubbed
        assert commands()[len(before) :] == REBUILD
        node.stop()
        shutil.rmtree(node.directory / "logs")
        assert "dry run" in run(node, REBUILD[0])
        assert "is ready: start the broker on it" in run(node, REBUILD[1])
        node.start()
        assert read(node.bootstrap, TOPIC, 2_000) == [(n, value_of(n)) for n in range(2_000)]


REBUILD = [
    "tierlog tier rebuild --config server.properties --dry-run",
    "tierlog tier rebuild --config server.properties --take-over",
    "tierlog serve --config server.properties",
]


@pytest.mark.parametrize("block", blocks("properties"))
def test_every_property_on_the_page_is_one(block: str) -> None:
    read_config({"rsm.config.url": "file:///tier", **parse_properties(block)})


@pytest.mark.parametrize("command", ["ls", "verify", "repair", "scrub", "owner", "rebuild"])
def test_help_tells_by_example(command: str) -> None:
    tierlog = str(Path(sys.executable).with_name("tierlog"))
    done = subprocess.run(
        [tierlog, "tier", command, "--help"], capture_output=True, text=True, check=True
    )
    assert f"tierlog tier {command} " in done.stdout.partition("examples:")[2]
    assert "exit code: 0 sound, 1 trouble found, 2 cannot run" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["ls", "--config", "/nowhere"], "cannot be read"),
        (["ls", "--override", "rsm.config.url="], "set rsm.config.url"),
        (["verify", "--override", "rsm.config.url=file:///a::b://c"], "chained URLs"),
        (["scrub", "--offline", "--grace", "soon"], "is not a time"),
        (["rebuild", "--override", "rsm.config.url=memory://empty"], "nothing to rebuild"),
        (["scrub", "--offline", "--override", "log.dirs=/nowhere"], "no __remote_log_metadata"),
    ],
)
def test_what_cannot_be_run_is_said_in_one_line(
    arguments: list[str], words: str, tmp_path: Path
) -> None:
    tierlog = str(Path(sys.executable).with_name("tierlog"))
    done = subprocess.run(
        [tierlog, "tier", *arguments], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 2, done
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert words in done.stderr
    assert done.stdout == ""
