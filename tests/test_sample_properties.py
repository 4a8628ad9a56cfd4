"""docs/server.properties is complete, true, and a broker starts with it."""

import shutil
from pathlib import Path

from tierlog.broker.config.config import config_warnings, read_config
from tierlog.broker.config.config_values import TABLES
from tierlog.clients.properties import parse_properties
from tierlog.tests.broker_process import BrokerProcess
from tierlog.tests.sample_properties import SAMPLE, text


def test_the_sample_is_what_the_tables_say() -> None:
    remedy = "`make sample` writes it anew"
    assert SAMPLE.read_text() == text(), remedy


def test_the_sample_names_every_property_with_its_default() -> None:
    shown = parse_properties(
        "\n".join(
            line.removeprefix("#")
            for line in SAMPLE.read_text().splitlines()
            if line.removeprefix("#").partition("=")[0] in TABLES.acted_on
        )
    )
    assert set(shown) == set(TABLES.acted_on)
    stated = parse_properties(SAMPLE.read_text())
    for name, value in shown.items():
        if name not in stated and name != "config.providers":
            assert value == (TABLES.acted_on[name].default or ""), name


def test_the_sample_is_read_without_a_warning() -> None:
    assert config_warnings(read_config(parse_properties(SAMPLE.read_text()))) == []


def test_a_broker_starts_with_the_sample(tmp_path: Path) -> None:
    shutil.copy(SAMPLE, tmp_path / "server.properties")
    arguments = ["--config", "server.properties"]
    arguments += ["--override", "listeners=PLAINTEXT://127.0.0.1:0"]
    arguments += ["--override", f"rsm.config.url={(tmp_path / 'remote').as_uri()}"]
    with BrokerProcess(arguments, tmp_path) as broker:
        assert (tmp_path / "data" / "meta.properties").exists()
        assert broker.stop() == 0
    assert "WARNING" not in broker.log.read_text()
