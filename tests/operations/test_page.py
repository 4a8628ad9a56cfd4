"""What docs/operations.md names exists: properties, log lines, metrics, commands."""

import re

import pytest

from tierlog.bench.harness.processes.kafka_peer import TOOLS
from tierlog.broker.config.config import read_config
from tierlog.clients.properties import parse_properties
from tierlog.tests.house_rules import ROOT

from .page import PAGE, blocks, commands, log_lines, sections

_PROGRAMS = {"systemctl", "curl", "tierlog", "cp"}


def test_every_section_of_the_table_is_there() -> None:
    anchors = set(re.findall(r"\(#([\w-]+)\)", PAGE))
    assert anchors
    assert anchors <= {head.lower().replace(" ", "-").rstrip("?") for head in sections()}


@pytest.mark.parametrize("section", list(sections()))
def test_every_command_is_one_that_a_test_can_run(section: str) -> None:
    for line in (line for block in commands(section) for line in block):
        program = line.split()[0]
        assert program in _PROGRAMS or program.removesuffix(".sh") in TOOLS, line


def test_every_line_of_a_log_is_one_that_tierlog_logs() -> None:
    texts = re.findall(r"^- `(.+)`$", (ROOT / "docs/log-messages.md").read_text(), re.MULTILINE)
    parts = [re.split(r"<[^>]*>", each) for each in texts]
    patterns = [re.compile(".*".join(map(re.escape, each))) for each in parts]
    for section in sections():
        for line in log_lines(section):
            assert any(each.match(f"{line} ") for each in patterns), line


def test_every_metric_is_one_that_tierlog_has() -> None:
    metrics = (ROOT / "docs" / "metrics.md").read_text()
    names = re.findall(r"`(\w+(?:Count|Partitions|Bytes|PerSec))`", PAGE)
    assert names
    assert [name for name in names if f"name={name}" not in metrics] == []


def test_every_property_is_one() -> None:
    (block,) = blocks("Set it up", "properties")
    properties = parse_properties(block.text)
    read_config(properties)
    # The commands of the page name its directory.
    assert properties["log.dirs"] == "/var/lib/tierlog/node1"
