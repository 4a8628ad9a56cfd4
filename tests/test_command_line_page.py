"""docs/command-line.md word by word: its first round, its tables, its profile."""

import re
import shlex
from pathlib import Path

import pytest

from tierlog.cli.client.client_properties import NAMES
from tierlog.cli.command_line import full_parser
from tierlog.tests.broker_process import BrokerThread
from tierlog.tests.cli.client.command_run import Tierlog
from tierlog.tests.house_rules import ROOT

PAGE = (ROOT / "docs" / "command-line.md").read_text()
ROUND = PAGE[PAGE.index("## A first round") : PAGE.index("## Commands")]
COMMANDS = re.findall(r"^    ((?:tierlog|printf) .+)$", ROUND, re.MULTILINE)


@pytest.fixture
def tierlog(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> Tierlog:
    """The command line without an address: it comes from the environment, as on the page."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return Tierlog(capsysbinary, monkeypatch, None)


def run_line(tierlog: Tierlog, line: str) -> bytes:
    """Run a line of the page, whose stages a pipe connects; the output of the last one."""
    output = b""
    for stage in line.split(" | "):
        program, *words = shlex.split(stage)
        if program == "printf":
            output = words[0].replace("\\n", "\n").encode()
        elif program == "sort":
            output = b"".join(sorted(output.splitlines(keepends=True)))
        else:
            output = tierlog.done(*words, stdin=output).out
    return output


def test_the_first_round_of_the_page(
    tmp_path: Path, tierlog: Tierlog, monkeypatch: pytest.MonkeyPatch
) -> None:
    with BrokerThread(tmp_path / "data") as broker:
        monkeypatch.setenv("TIERLOG_BOOTSTRAP", broker.bootstrap)
        answers = {line: run_line(tierlog, line) for line in COMMANDS}
    printed = "".join(re.findall(r"^    (k\d=.*\n)", ROUND, re.MULTILINE))
    assert answers[next(line for line in COMMANDS if line.endswith("sort"))].decode() == printed
    assert len(answers) > 12


def test_the_profile_of_the_page(
    tmp_path: Path, tierlog: Tierlog, monkeypatch: pytest.MonkeyPatch
) -> None:
    (content,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "config" / "tierlog").mkdir(parents=True)
    file = tmp_path / "config" / "tierlog" / "config.toml"
    for name in ("TIERLOG_BOOTSTRAP", "KAFKA_BOOTSTRAP_SERVERS", "TIERLOG_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    with BrokerThread(tmp_path / "data") as broker:
        file.write_text(content.replace("127.0.0.1:9092", broker.bootstrap))
        assert broker.bootstrap in tierlog.done("cluster", "ping").text
        assert tierlog.done("topic", "ls", "--profile", "dev", "--json").json == []


def test_the_page_lists_every_property_and_every_command() -> None:
    lists = re.findall(
        r"^- (?:every command|`produce`|`consume`): (.*(?:\n  .*)?)$", PAGE, re.MULTILINE
    )
    assert set(re.findall(r"`([a-z.]+)`", " ".join(lists))) == NAMES
    table = set(re.findall(r"^\| `tierlog (\w+)(?: (\w+))?", PAGE, re.MULTILINE))
    parser = full_parser()
    for word, verb in table:
        words = [word, *([verb] if verb and verb.islower() else [])]
        with pytest.raises(SystemExit) as exit_code:
            parser.parse_args([*words, "--help"])
        assert exit_code.value.code == 0, words
