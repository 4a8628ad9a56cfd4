"""The entry point: variables mean what they mean in Apache Kafka's image."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tierlog.bench.harness.processes.kafka_peer import java_command
from tierlog.broker.config.config import read_config
from tierlog.clients.errors import KafkaError
from tierlog.clients.properties import parse_properties
from tierlog.docker.start import MOUNTED_CONFIG_DIR, configure, format_new, run_or_refuse
from tierlog.docker.variables import (
    StartRefusedError,
    lines_when_ready,
    log_directories,
    log_level_options,
    planned_properties,
    property_name,
    property_name_of_confluent,
    stated_properties,
)
from tierlog.tests.house_rules import ROOT

ID = "JEXY6aqzQY-32P5TStzaFg"
OTHER_ID = "MvDxzVmcRsaTz33bUuRU6A"
DATA = "/var/lib/kafka/data"
IMAGE = {"TIERLOG_DATA_DIR": DATA}
VARIABLES = {
    "KAFKA_NODE_ID": "1",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@broker1:9093",
    "KAFKA_RSM_CONFIG_OPTION_ENDPOINT__URL": "http://store:7070",
    "KAFKA_A___B": "a hyphen",
    "KAFKA_A____B": "four",
    "KAFKA_A_____B": "five",
    "KAFKA_A______B": "six",
    "KAFKA_KAFKA_METRICS_POLLING_INTERVAL_SECS": "5",
    "KAFKA__LEADING": "a dot first",
    "KAFKA_Mixed_Case": "Value",
    "KAFKA_JMX_PORT": "9999",
    "KAFKA_HEAP_OPTS": "-Xmx1g",
    "KAFKA_OPTS": "-Dx=y",
    "KAFKA_LOG4J_LOGGERS": "kafka=INFO",
    "NOT_KAFKA_NODE_ID": "7",
    "CLUSTER_ID": ID,
}


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("KAFKA_NODE_ID", "node.id"),
        ("KAFKA_RSM_CONFIG_OPTION_ENDPOINT__URL", "rsm.config.option.endpoint_url"),
        ("KAFKA_A___B", "a-b"),
        ("KAFKA_KAFKA_METRICS_REPORTERS", "kafka.metrics.reporters"),
        ("KAFKA_HEAP_OPTS", None),
        ("KAFKA_", None),
        ("HOME", None),
    ],
)
def test_a_variable_names_a_property(variable: str, name: str | None) -> None:
    assert property_name(variable) == name


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("KAFKA_NODE_ID", "node.id"),
        ("KAFKA_A_B_C", "a.b.c"),
        ("KAFKA_RSM_CONFIG_OPTION_ENDPOINT___URL", "rsm.config.option.endpoint_url"),
        ("KAFKA_A__B", "a-b"),
        ("KAFKA_A____B", "a____b"),
        ("KAFKA_KAFKA_METRICS_REPORTERS", "kafka.metrics.reporters"),
        ("KAFKA_ZOOKEEPER_CONNECT", None),
        ("KAFKA_HEAP_OPTS", None),
    ],
)
def test_a_variable_names_another_property_in_confluents_images(
    variable: str, name: str | None
) -> None:
    assert property_name_of_confluent(variable) == name


@pytest.mark.parametrize(
    ("properties", "lines"),
    [
        ({"broker.id": "7"}, ["[KafkaServer id=7] started"]),
        (
            {"node.id": "2", "process.roles": "controller"},
            ["[KafkaRaftServer nodeId=2] Kafka Server started"],
        ),
        (
            {"node.id": "1", "process.roles": "broker, controller"},
            [
                "[KafkaRaftServer nodeId=1] Kafka Server started",
                "[BrokerLifecycleManager id=1] The broker has been unfenced."
                " Transitioning from RECOVERY to RUNNING.",
            ],
        ),
    ],
)
def test_the_lines_that_others_wait_for_are_those_of_kafkas_mode(
    properties: dict[str, str], lines: list[str]
) -> None:
    assert lines_when_ready(properties) == lines


def test_levels_of_loggers_are_stated_as_in_kafkas_images() -> None:
    assert log_level_options({}) == []
    stated = {
        "KAFKA_LOG4J_ROOT_LOGLEVEL": "ERROR",
        "KAFKA_LOG4J_LOGGERS": "kafka=INFO, tierlog.tiering=DEBUG,",
    }
    assert log_level_options(stated) == [
        "--log-level=ERROR",
        "--log-level=kafka=INFO",
        "--log-level=tierlog.tiering=DEBUG",
    ]


@pytest.mark.parametrize(
    ("variable", "value", "sentence"),
    [
        ("KAFKA_LOG4J_ROOT_LOGLEVEL", "LOUD", "KAFKA_LOG4J_ROOT_LOGLEVEL: 'LOUD' .*TRACE, DEBUG"),
        ("KAFKA_LOG4J_ROOT_LOGLEVEL", "kafka=INFO", "KAFKA_LOG4J_LOGGERS has levels of loggers"),
        ("KAFKA_LOG4J_LOGGERS", "kafka=LOUD", "KAFKA_LOG4J_LOGGERS: 'kafka=LOUD' .*TRACE, DEBUG"),
        ("KAFKA_LOG4J_LOGGERS", "INFO", "KAFKA_LOG4J_LOGGERS: 'INFO' names no logger"),
    ],
)
def test_a_level_that_is_none_is_refused(variable: str, value: str, sentence: str) -> None:
    with pytest.raises(StartRefusedError, match=sentence):
        log_level_options({variable: value})


@pytest.mark.slow
@pytest.mark.requires("java", "mvn")
def test_apache_kafkas_own_image_makes_the_same_properties(tmp_path: Path) -> None:
    """Its wrapper writes the file before it formats, which may fail: the file is what counts."""
    folders = {name: tmp_path / name for name in ("default", "mounted", "final")}
    for folder in folders.values():
        folder.mkdir()
    for name in ("log4j2.yaml", "tools-log4j2.yaml"):
        (folders["default"] / name).write_text("Configuration:\n  Loggers:\n    Root:\n")
    (folders["mounted"] / "server.properties").write_text("node.id=7\nnum.partitions=4\n")
    arguments = [f"--{name}-configs-dir={folder}" for name, folder in folders.items()]
    answer = subprocess.run(
        java_command("kafka.docker.KafkaDockerWrapper", "setup", *arguments),
        env={"PATH": os.environ["PATH"], **VARIABLES},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    written = (folders["final"] / "server.properties").read_text()
    theirs = parse_properties(written)
    ours = {"num.partitions": "4", **stated_properties(VARIABLES)}
    assert theirs == ours, answer.stdout + answer.stderr


def test_a_variable_overrides_the_mounted_file() -> None:
    text = planned_properties(
        {**IMAGE, "KAFKA_NUM_PARTITIONS": "6"}, "num.partitions=4\nlog.dirs=/else", {}
    )
    properties = parse_properties(text)
    assert properties["num.partitions"] == "6"
    assert properties["log.dirs"] == "/else"


def test_without_any_variable_it_is_a_cluster_of_one_on_localhost() -> None:
    text = planned_properties(IMAGE, "", {DATA: None})
    config = read_config(parse_properties(text))
    assert not config.is_member
    assert [each.address for each in config.listeners.advertised] == ["localhost:9092"]


def test_listeners_follow_from_the_advertised_ones_as_in_kafkas_image() -> None:
    advertised = "INSIDE://broker1:9092,OUTSIDE://example.com:19092"
    text = planned_properties({"KAFKA_ADVERTISED_LISTENERS": advertised}, "", {})
    assert parse_properties(text)["listeners"] == ("INSIDE://0.0.0.0:9092,OUTSIDE://0.0.0.0:19092")


def test_an_empty_list_of_advertised_listeners_is_none_as_in_kafkas_image() -> None:
    stated = stated_properties({"KAFKA_ADVERTISED_LISTENERS": ""})
    assert "advertised.listeners" not in stated


def test_a_comma_at_the_end_of_the_advertised_listeners_states_no_listener() -> None:
    stated = stated_properties({"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://host:1,"})
    assert stated["advertised.listeners"] == "PLAINTEXT://host:1"


@pytest.mark.slow
def test_a_new_directory_is_formatted_once_and_with_no_other_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.prefix) / 'bin'}:{os.environ['PATH']}")
    data = tmp_path / "data"
    variables = {
        "TIERLOG_CONFIG_DIR": str(tmp_path / "out"),
        "KAFKA_LOG_DIRS": f"{data}-1,{data}-2",
    }
    configure({**variables, "CLUSTER_ID": ID}, property_name)
    assert not Path(f"{data}-1").exists()
    format_new(variables)
    assert not Path(f"{data}-1").exists(), "without an id, `tierlog serve` formats it"
    format_new({**variables, "CLUSTER_ID": ID})
    metas = [Path(f"{data}-{each}/meta.properties").read_text() for each in (1, 2)]
    assert all(f"cluster.id={ID}\n" in each for each in metas)
    capsys.readouterr()
    monkeypatch.setenv("PATH", "")
    format_new({**variables, "CLUSTER_ID": ID})
    assert capsys.readouterr().err == ""


def test_nothing_is_formatted_before_there_are_properties(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    variables = {"TIERLOG_CONFIG_DIR": str(tmp_path), "CLUSTER_ID": ID}
    assert run_or_refuse(lambda: format_new(variables)) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("server.properties: run /etc/confluent/docker/configure first.")


def test_the_volume_of_another_cluster_is_refused() -> None:
    with pytest.raises(StartRefusedError, match=f"belongs to the cluster {OTHER_ID}.*empty volume"):
        planned_properties({**IMAGE, "CLUSTER_ID": ID}, "", {DATA: f"cluster.id={OTHER_ID}\n"})


def test_a_member_that_is_new_needs_the_id_of_its_cluster() -> None:
    voters = {"KAFKA_CONTROLLER_QUORUM_VOTERS": "1@a:9093,2@b:9093,3@c:9093"}
    with pytest.raises(StartRefusedError, match="random-uuid"):
        planned_properties({**IMAGE, **voters}, "", {DATA: None})
    assert planned_properties({**IMAGE, **voters}, "", {DATA: f"cluster.id={ID}"})


def test_a_value_of_several_lines_is_refused_and_not_cut() -> None:
    with pytest.raises(StartRefusedError, match="KAFKA_LISTENERS has several lines"):
        stated_properties({"KAFKA_LISTENERS": "A://x:1,\nB://y:2"})


@pytest.mark.parametrize(
    ("variable", "value", "sentence"),
    [
        ("KAFKA_SSL_KEY_PASSWORD", "secret\\", "KAFKA_SSL_KEY_PASSWORD ends with a backslash"),
        ("KAFKA_SSL_KEY_PASSWORD", "secret\udcff", "KAFKA_SSL_KEY_PASSWORD is not UTF-8"),
        ("KAFKA_A\nEVIL", "secret", "names no property"),
        ("KAFKA_A B", "secret", "names no property"),
        ("KAFKA_#A", "secret", "names no property"),
    ],
)
def test_a_variable_cannot_change_another_property(
    variable: str, value: str, sentence: str
) -> None:
    with pytest.raises(StartRefusedError, match=sentence) as refused:
        planned_properties({variable: value, "KAFKA_ZONE": "z"}, "", {})
    assert "secret" not in str(refused.value)


def test_a_value_may_have_escaped_backslashes() -> None:
    text = planned_properties({"KAFKA_A": "x\\\\", "KAFKA_B": "y"}, "", {})
    stated = parse_properties(text)
    assert (stated["a"], stated["b"]) == ("x\\", "y")


def test_the_last_line_of_the_mounted_file_takes_no_property_with_it() -> None:
    text = planned_properties({"KAFKA_B": "y"}, "a=x\\", {})
    stated = parse_properties(text)
    assert (stated["a"], stated["log.dirs"], stated["b"]) == ("x", "", "y")


def test_the_directories_are_those_that_the_properties_name() -> None:
    assert log_directories(IMAGE, "") == [DATA]
    assert log_directories({**IMAGE, "KAFKA_LOG_DIRS": "/a, /b"}, "log.dirs=/c") == ["/a", "/b"]
    assert log_directories(IMAGE, "log.dir=/c") == ["/c"]


def test_an_advertised_listener_without_a_port_is_refused_as_it_was_written() -> None:
    variables = {**IMAGE, "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://host"}
    text = planned_properties(variables, "", {})
    with pytest.raises(KafkaError) as refused:
        read_config(parse_properties(text))
    assert "PLAINTEXT://host is not" in refused.value.message


@pytest.mark.parametrize(
    ("mode", "reason"), [(0o600, "Permission denied"), (None, "Is a directory")]
)
def test_a_file_that_cannot_be_read_is_named_and_nothing_is_said_of_writing(
    mode: int | None, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounted = tmp_path / "server.properties"
    if mode is None:
        mounted.mkdir()
    else:
        mounted.touch()

        def refuse(path: Path, encoding: str) -> str:
            raise PermissionError(13, reason, str(path))

        monkeypatch.setattr(Path, "read_text", refuse)
    variables = {MOUNTED_CONFIG_DIR: str(tmp_path), "TIERLOG_CONFIG_DIR": str(tmp_path / "out")}
    with pytest.raises(StartRefusedError) as refused:
        configure(variables, property_name)
    assert str(refused.value) == (
        f"{mounted} cannot be read: {reason}. The image runs as user {os.getuid()}."
    )


@pytest.mark.slow
def test_what_format_refuses_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.prefix) / 'bin'}:{os.environ['PATH']}")
    variables = {
        "TIERLOG_CONFIG_DIR": str(tmp_path / "out"),
        "KAFKA_LOG_DIRS": str(tmp_path / "data"),
        "KAFKA_NODE_ID": "1",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "2@x:9093",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "C",
        "CLUSTER_ID": ID,
    }
    configure(variables, property_name)
    assert run_or_refuse(lambda: format_new(variables)) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("tierlog: If process.roles contains the 'controller' role")


def test_a_signal_that_comes_while_it_becomes_tierlog_is_not_lost(tmp_path: Path) -> None:
    """A first process of a container has no default action: what is not held back is dropped."""
    (tmp_path / "server.properties").write_text("node.id=1\n")
    program = tmp_path / "tierlog"
    held = "signal.SIGTERM in signal.pthread_sigmask(signal.SIG_BLOCK, ())"
    program.write_text(f"#!{sys.executable}\nimport signal\nprint({held})\n")
    program.chmod(0o755)
    answer = subprocess.run(
        [sys.executable, str(ROOT / "docker" / "confluent_start.py"), "launch"],
        env={**os.environ, "PATH": str(tmp_path), "TIERLOG_CONFIG_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert answer.stdout == "True\n", answer.stderr
