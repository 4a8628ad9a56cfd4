"""The unit for systemd is one that systemd accepts, and starts what the pages install."""

import shlex
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest

from tierlog.broker.config.config import config_warnings, read_config
from tierlog.clients.properties import parse_properties
from tierlog.tests.docker.image_file import FOLDER
from tierlog.tests.house_rules import ROOT

UNIT = FOLDER / "systemd" / "tierlog@.service"
PROPERTIES = FOLDER / "systemd" / "server.properties"
PAGES = [ROOT / "docs" / "docker.md", ROOT / "docs" / "operations.md"]
EXPOSURE_MAX = 35
"""In tenths, as systemd-analyze counts what a service could reach; 100 is everything."""


@pytest.fixture
def service() -> dict[str, str]:
    parser = ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # names keep their case
    parser.read(UNIT)
    return dict(parser["Service"])


@pytest.mark.slow
@pytest.mark.requires("systemd-analyze")
def test_systemd_has_nothing_to_say_about_the_unit(service: dict[str, str], tmp_path: Path) -> None:
    program = shlex.split(service["ExecStart"])[0]
    unit = tmp_path / UNIT.name.replace("@", "@node1")
    unit.write_text(UNIT.read_text().replace(program, sys.executable))
    assert analyzed("verify", str(unit)) == (0, "")


@pytest.mark.slow
@pytest.mark.requires("systemd-analyze")
def test_the_service_can_reach_little_of_the_machine() -> None:
    words = ["security", "--offline=true", f"--threshold={EXPOSURE_MAX}", "--no-pager", str(UNIT)]
    code, said = analyzed(*words)
    assert code == 0, said


def analyzed(*words: str) -> tuple[int, str]:
    """What systemd-analyze says, and its exit code."""
    answer = subprocess.run(
        ["systemd-analyze", *words], capture_output=True, text=True, timeout=60, check=False
    )
    return answer.returncode, answer.stdout + answer.stderr


def test_the_service_waits_for_the_notice_and_stops_in_time(service: dict[str, str]) -> None:
    assert service["Type"] == "notify"
    assert service["NotifyAccess"] == "main"
    assert int(service["TimeoutStopSec"]) > 20  # what `tierlog serve` takes at most
    # The pages make this user, who owns the data that its other commands work on.
    assert service["User"] == "tierlog"


def test_the_properties_keep_the_data_where_systemd_makes_a_directory(
    service: dict[str, str],
) -> None:
    properties = parse_properties(PROPERTIES.read_text())
    config = read_config(properties)
    assert list(config_warnings(config)) == []
    directory = service["StateDirectory"].replace("%i", "server")
    assert list(config.log_dirs) == [f"/var/lib/{directory}"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_page_installs_what_the_unit_starts(service: dict[str, str], page: Path) -> None:
    program, *_, file = shlex.split(service["ExecStart"])
    text = page.read_text()
    assert program.rpartition("/bin/")[0] in text
    assert file.rpartition("/")[0] in text
    assert str(UNIT.relative_to(ROOT)) in text
    assert service["EnvironmentFile"].removeprefix("-") in text
    assert f"useradd --system {service['User']}" in text


def test_no_page_has_another_unit() -> None:
    for page in (ROOT / "docs").glob("*.md"):
        assert "ExecStart=" not in page.read_text(), page


def test_a_node_that_ends_again_and_again_is_given_up() -> None:
    unit = dict(line.split("=", 1) for line in UNIT.read_text().splitlines() if "=" in line)
    restarts_s = int(unit["StartLimitBurst"]) * int(unit["RestartSec"])
    # Starts that are further apart than this are never too many.
    assert restarts_s * 2 <= int(unit["StartLimitIntervalSec"])
