"""The unit for systemd is one that systemd accepts, and starts what the page installs."""

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

UNIT = FOLDER / "systemd" / "tierlog.service"
PROPERTIES = FOLDER / "systemd" / "server.properties"
PAGE = ROOT / "docs" / "docker.md"


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
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace(program, sys.executable))
    answer = subprocess.run(
        ["systemd-analyze", "verify", str(unit)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (answer.returncode, answer.stdout + answer.stderr) == (0, "")


def test_the_service_waits_for_the_notice_and_stops_in_time(service: dict[str, str]) -> None:
    assert service["Type"] == "notify"
    assert service["NotifyAccess"] == "main"
    assert int(service["TimeoutStopSec"]) > 20  # what `tierlog serve` takes at most
    assert service["DynamicUser"] == "yes"


def test_the_properties_keep_the_data_where_systemd_makes_a_directory(
    service: dict[str, str],
) -> None:
    properties = parse_properties(PROPERTIES.read_text())
    config = read_config(properties)
    assert list(config_warnings(config)) == []
    assert list(config.log_dirs) == [f"/var/lib/{service['StateDirectory']}"]


def test_the_page_installs_what_the_unit_starts(service: dict[str, str]) -> None:
    program, *_, file = shlex.split(service["ExecStart"])
    page = PAGE.read_text()
    assert program.rpartition("/bin/")[0] in page
    assert file in page
    assert str(UNIT.relative_to(ROOT)) in page
