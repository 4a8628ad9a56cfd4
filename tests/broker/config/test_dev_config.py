"""The dev broker: where it listens and keeps its data, and where its tier is then."""

import os
from pathlib import Path

import pytest

from tierlog.broker.config.config import BrokerConfig
from tierlog.cli.configuration import DevWords, stated_configuration
from tierlog.clients.errors import KafkaError

PROVIDER = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"


def config(*overrides: str, data: str | None = None, port: str | None = None) -> BrokerConfig:
    return stated_configuration(None, overrides, DevWords(data, port))


def places(found: BrokerConfig) -> tuple[list[str], str]:
    """The log directories, and the tier."""
    return list(found.log_dirs), str(found.remote_storage)


def test_it_keeps_everything_below_the_current_directory() -> None:
    data = os.path.abspath("data")
    assert places(config()) == ([data], f"file://{data}/remote")


@pytest.mark.parametrize(
    ("override", "directories"),
    [
        ("log.dirs=/second/data", ["/second/data"]),
        ("log.dirs= /second/a , /second/b", ["/second/a", "/second/b"]),
        ("log.dir=/second/data", ["/second/data"]),
    ],
)
def test_the_tier_is_with_the_data_where_that_is_elsewhere(
    override: str, directories: list[str]
) -> None:
    """A second dev broker would be in the tier of the first one otherwise."""
    assert places(config(override)) == (directories, f"file://{directories[0]}/remote")


def test_the_data_may_be_named_by_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIERLOG_TEST_DATA", "/second/data")
    provider = ("config.providers=env", f"config.providers.env.class={PROVIDER}")
    found = config(*provider, "log.dirs=${env:TIERLOG_TEST_DATA}")
    assert places(found) == (["/second/data"], "file:///second/data/remote")


def test_a_tier_that_is_stated_is_the_tier() -> None:
    found = config("log.dirs=/second/data", "rsm.config.url=file:///elsewhere")
    assert places(found) == (["/second/data"], "file:///elsewhere")
    without = config("log.dirs=/second/data", "rsm.config.url=")
    assert without.remote_storage is None


def test_data_and_port_are_short_for_two_properties() -> None:
    found = config(data="/second/data", port="9192")
    assert places(found) == (["/second/data"], "file:///second/data/remote")
    (listener,) = found.listeners.bound
    assert (listener.host, listener.port) == ("127.0.0.1", 9192)
    assert found.values.integer("tierlog.status.port") == 9193


@pytest.mark.parametrize(
    ("overrides", "words", "said"),
    [
        (["log.dirs=x"], DevWords(data="y"), "--data and --override log.dirs say the same"),
        (["log.dir=x"], DevWords(data="y"), "--data and --override log.dir say the same"),
        (["listeners=x"], DevWords(port="1"), "--port and --override listeners say the same"),
        ([], DevWords(data=""), "--data names one directory, not ''"),
        ([], DevWords(data="a,b"), "log.dirs names several"),
        ([], DevWords(port="x"), "--port x is not a number from 0 to 65535"),
        ([], DevWords(port="65536"), "--port 65536 is not a number from 0 to 65535"),
        ([], DevWords(port="9" * 5_000), "is not a number from 0 to 65535"),
    ],
)
def test_words_that_contradict_are_refused(
    overrides: list[str], words: DevWords, said: str
) -> None:
    with pytest.raises(KafkaError) as refused:
        stated_configuration(None, overrides, words)
    assert said in refused.value.message


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (DevWords(port="9192"), "--port is for a broker without a file: set listeners in "),
        (DevWords(data="x"), "--data is for a broker without a file: set log.dirs in "),
    ],
)
def test_a_file_says_all_itself(tmp_path: Path, words: DevWords, said: str) -> None:
    file = tmp_path / "server.properties"
    file.write_text("")
    with pytest.raises(KafkaError) as refused:
        stated_configuration(str(file), [], words)
    assert refused.value.message.startswith(said)
