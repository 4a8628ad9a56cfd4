"""docs/getting-started.md word by word, with fewer records."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tierlog.bench.harness.processes.live_files import live_paths
from tierlog.cli.command_line import run
from tierlog.tests.broker_process import BrokerThread
from tierlog.tests.cli.client.command_run import Tierlog
from tierlog.tests.house_rules import ROOT
from tierlog.tests.waiting import wait_until

pytestmark = pytest.mark.slow

PAGE = (ROOT / "docs" / "getting-started.md").read_text()
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
COMMANDS = re.findall(r"^    ((?:tierlog|seq) .+)$", PAGE, re.MULTILINE)
RECORDS = 45_000
SOON = {
    "remote.log.manager.task.interval.ms": "100",
    "log.retention.check.interval.ms": "100",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "3",
}
"""The dev broker, but for the time between two looks at what is to be copied and deleted."""


def records_of(command: str) -> bytes:
    """What the page's `seq` prints, of fewer numbers."""
    _, option, text, count = shlex.split(command)
    assert (option, count) == ("-f", "100000")
    return "".join(f"{text % number}\n" for number in range(1, RECORDS + 1)).encode()


def heading(text: str) -> list[str]:
    """The columns of the first table in a text."""
    return next(line for line in text.splitlines() if " partition " in f" {line}").split()


def examples(title: str) -> str:
    """What the page prints below a heading."""
    return PAGE.partition(f"## {title}")[2].partition("## ")[0].partition("prints")[2]


def printed_by(program: str) -> str:
    """Run a program of the page as its reader does."""
    command = [sys.executable, "-c", program]
    return subprocess.run(
        command, check=True, timeout=120, stdout=subprocess.PIPE, text=True
    ).stdout


@pytest.fixture
def tierlog(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> Tierlog:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    return Tierlog(capsysbinary, monkeypatch, None)


def test_a_topic_moves_to_the_tier_and_is_read(
    tmp_path: Path,
    tierlog: Tierlog,
    capsysbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wait, create, write, look, read, listing, delete = COMMANDS
    tier = {"rsm.config.url": f"file://{tmp_path}/data/remote"}
    with BrokerThread(Path("data"), SOON | tier) as broker:
        monkeypatch.setenv("TIERLOG_BOOTSTRAP", broker.bootstrap)
        for command in (wait, create):
            tierlog.done(*shlex.split(command)[1:])
        sequence, produce = write.split(" | ")
        tierlog.done(*shlex.split(produce)[1:], stdin=records_of(sequence))

        def storage() -> str:
            return tierlog.done(*shlex.split(look)[1:]).text

        wait_until(lambda: "history: with records in a remote tier" in storage(), 120, storage)
        assert heading(storage()) == heading(examples("A topic"))
        assert tierlog.done(*shlex.split(read)[1:]).text.strip() in examples("Read it")
        assert run(shlex.split(listing)[1:], 0) == 0
        listed = capsysbinary.readouterr().out.decode()
        assert heading(listed) == heading(examples("Look into the tier"))
        printed = ""
        for program in PROGRAMS:
            printed += printed_by(program.replace("127.0.0.1:9092", broker.bootstrap))
        assert "b'order 1: one pear, two apples, three figs'" in printed
        assert "archive" in tierlog.done("topic", "ls", "--names").text
        tierlog.done(*shlex.split(delete)[1:])
        wait_until(
            lambda: not list(live_paths(Path("data/remote"), "**/*.log")), 60, "deleted in the tier"
        )
