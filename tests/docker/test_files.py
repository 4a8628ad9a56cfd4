"""What the files of docker/ state, before anything of them runs."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tierlog.broker.config.config import config_warnings, read_config
from tierlog.clients.properties import parse_properties
from tierlog.docker.variables import planned_properties
from tierlog.tests.docker.compose_file import NO_MEANING_FOR_A_PROCESS, ONE_BROKER, filled, services
from tierlog.tests.docker.compose_processes import addresses, placed
from tierlog.tests.docker.image_file import FOLDER, SOURCE, image, instructions
from tierlog.tests.house_rules import ROOT

KUBERNETES = FOLDER / "kubernetes.yaml"
PAGE = ROOT / "docs" / "docker.md"
_READ_BY_SCRIPTS = FOLDER / "confluent" / "bash-config"
MIN_INSYNC, REPLICAS = "2", "3"


def _properties(environment: dict[str, str]) -> dict[str, str]:
    whole = {**image().environment, **environment}
    return parse_properties(planned_properties(whole, "", {"/data": None}))


def test_the_build_gets_all_that_the_wheel_is_made_of() -> None:
    """hatchling passes over what is not there: without a folder, the image would lack commands."""
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    needed = set(build["targets"]["wheel"]["only-include"])
    copies = [
        rest.split()[:-1] for word, rest in instructions(SOURCE.read_text()) if word == "COPY"
    ]
    assert needed - {source for sources in copies for source in sources} == set()
    let_in = (FOLDER / "Containerfile.dockerignore").read_text().splitlines()
    assert needed - {line.removeprefix("!") for line in let_in if line.startswith("!")} == set()


def _check_node(properties: dict[str, str], node_id: int) -> None:
    config = read_config(properties)
    assert list(config_warnings(config)) == []
    assert config.is_member
    assert config.node_id == node_id
    assert config.quorum.own_voter is not None
    assert properties["min.insync.replicas"] == MIN_INSYNC
    assert properties["default.replication.factor"] == REPLICAS
    assert properties["rsm.config.url"].startswith("s3://")


def test_the_image_runs_as_nobody_special_and_stops_on_sigterm() -> None:
    described = image()
    assert described.settings["USER"] == "1000:1000"
    assert described.settings["STOPSIGNAL"] == "SIGTERM"
    assert described.settings["VOLUME"] == f'["{described.environment["TIERLOG_DATA_DIR"]}"]'
    assert described.command == ["/etc/kafka/docker/run"]
    assert described.health == ["tierlog-ready"]


def test_every_script_of_the_image_is_there_and_may_be_run() -> None:
    copied = {*image().files.values()}
    programs = {each for each in FOLDER.glob("*.py") if each.read_text().startswith("#!")}
    assert copied == programs | {*(FOLDER / "confluent").iterdir()}
    assert all(each.stat().st_mode & 0o111 == 0o111 for each in copied - {_READ_BY_SCRIPTS})


def test_the_build_gets_all_that_it_copies_and_no_more() -> None:
    allowed = {
        line.removeprefix("!").split("/")[0]
        for line in (FOLDER / "Containerfile.dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    copied = [
        source.split("/")[0]
        for word, rest in instructions((FOLDER / "Containerfile").read_text())
        if word == "COPY" and not rest.startswith("--from")
        for source in rest.split()[:-1]
        if not source.startswith("--")
    ]
    assert set(copied) == allowed
    assert all((ROOT / each).exists() for each in allowed)


def test_the_file_of_secrets_gets_neither_into_the_clone_nor_into_the_build() -> None:
    assert "`docker/.env`" in PAGE.read_text()
    assert "/docker/.env" in (ROOT / ".gitignore").read_text().splitlines()
    rules = (FOLDER / "Containerfile.dockerignore").read_text().splitlines()
    assert "docker/.env" in rules[rules.index("!docker") :]


def test_the_brokers_of_the_compose_file_are_one_cluster_of_equals() -> None:
    brokers = {name: each for name, each in services().items() if name.startswith("broker")}
    assert len(brokers) == 3
    ids = {each.environment["CLUSTER_ID"] for each in brokers.values()}
    assert len(ids) == 1
    for node_id, (name, broker) in enumerate(brokers.items(), 1):
        _check_node(_properties(dict(broker.environment)), node_id)
        assert broker.environment["KAFKA_ADVERTISED_LISTENERS"] == (
            f"NETWORK://{name}:9092,HOST://localhost:{broker.published[0].host_port}"
        )
        assert broker.health == ("tierlog-ready",)
        assert broker.grace_s > 20  # what `tierlog serve` takes at most
        assert list(broker.volumes) == [image().environment["TIERLOG_DATA_DIR"]]


def test_one_broker_needs_no_id_and_none_of_its_properties_warns() -> None:
    described = services(file=ONE_BROKER)
    broker = described["broker"]
    properties = _properties(dict(broker.environment))
    config = read_config(properties)
    assert list(config_warnings(config)) == []
    assert not config.is_member
    assert broker.grace_s > 20
    three = services()
    assert described["object-store"] == three["object-store"]
    ours, theirs = described["create-bucket"], three["create-bucket"]
    assert (ours.command, ours.environment) == (theirs.command, theirs.environment)


def test_compose_fills_in_variables_and_their_defaults() -> None:
    text = "a: ${A:-one} b: ${B:-two} c: ${C} d: $$HOME"
    assert filled(text, {"A": "1"}) == "a: 1 b: two c:  d: $HOME"
    own = services({"S3_SECRET_KEY": "mine", "CLUSTER_ID": "MvDxzVmcRsaTz33bUuRU6A"})
    assert own["object-store"].environment["ROOT_SECRET_KEY"] == "mine"
    assert own["create-bucket"].environment["AWS_SECRET_ACCESS_KEY"] == "mine"
    assert own["broker2"].environment["CLUSTER_ID"] == "MvDxzVmcRsaTz33bUuRU6A"


def test_the_page_names_what_no_process_can_show() -> None:
    """What a test without an engine passes over is said to who reads the page."""
    text = PAGE.read_text()
    assert [key for key in NO_MEANING_FOR_A_PROCESS if f"`{key}`" not in text] == []


def test_names_and_paths_are_replaced_whole_and_nothing_else_is() -> None:
    hosts = addresses(["broker1", "object-store"], 0x1234)
    assert hosts["localhost"] == "127.82.52.1"
    paths = {"/data": Path("/t/objects"), "/data/sub": Path("/t/sub")}
    text = "1@broker1:9093,broker10:1 s3://object-store.x http://object-store:7070 0.0.0.0:1"
    assert placed(text, hosts["broker1"], hosts, paths) == (
        f"1@{hosts['broker1']}:9093,broker10:1 s3://object-store.x"
        f" http://{hosts['object-store']}:7070 {hosts['broker1']}:1"
    )
    assert placed("/data:/data/sub/x /database /mnt/data", "", {}, paths) == (
        "/t/objects:/t/sub/x /database /mnt/data"
    )


@pytest.mark.slow
@pytest.mark.parametrize("version", ["1.28", "1.37"])
def test_the_manifest_is_one_that_kubernetes_accepts(version: str) -> None:
    command = [sys.executable, "-m", "kubernetes_validate", "--strict", "-k", version]
    answer = subprocess.run(
        [*command, str(KUBERNETES)], capture_output=True, text=True, timeout=60, check=False
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert answer.stdout.count("passed") == 4


def _documents() -> dict[str, dict[str, Any]]:
    documents = list(yaml.safe_load_all(KUBERNETES.read_text()))
    return {f"{each['kind']}/{each['metadata']['name']}": each for each in documents}


def _pod_environment(ordinal: int) -> dict[str, str]:
    """The variables of a pod of the StatefulSet, with `$(NAME)` replaced as the kubelet does."""
    (container,) = _documents()["StatefulSet/tierlog"]["spec"]["template"]["spec"]["containers"]
    fields = {
        "metadata.name": f"tierlog-{ordinal}",
        "metadata.labels['apps.kubernetes.io/pod-index']": str(ordinal),
    }
    values: dict[str, str] = {}
    for entry in container["env"]:
        stated = entry.get("value")
        if stated is None:
            stated = fields[entry["valueFrom"]["fieldRef"]["fieldPath"]]
        values[entry["name"]] = re.sub(r"\$\((\w+)\)", lambda match: values[match[1]], stated)
    return values


def test_the_pods_are_one_cluster_with_ids_from_their_ordinals() -> None:
    documents = _documents()
    service = documents["Service/tierlog"]["spec"]
    assert service["clusterIP"] == "None"
    assert service["publishNotReadyAddresses"] is True
    for ordinal in range(documents["StatefulSet/tierlog"]["spec"]["replicas"]):
        environment = _pod_environment(ordinal)
        properties = _properties(environment)
        _check_node(properties, ordinal)
        host = f"tierlog-{ordinal}.tierlog"
        assert properties["advertised.listeners"] == f"PLAINTEXT://{host}:9092"
        assert f"{ordinal}@{host}:9093" in properties["controller.quorum.voters"]


def test_a_pod_waits_for_the_others_before_it_stops_and_has_the_time_for_it() -> None:
    documents = _documents()
    pod = documents["StatefulSet/tierlog"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    *command, seconds = container["lifecycle"]["preStop"]["exec"]["command"]
    assert command == ["tierlog-in-sync", "--wait"]
    assert pod["terminationGracePeriodSeconds"] >= int(seconds) + 30
    assert documents["PodDisruptionBudget/tierlog"]["spec"]["maxUnavailable"] == 1
    assert container["volumeMounts"][0]["mountPath"] == image().environment["TIERLOG_DATA_DIR"]
    assert pod["securityContext"]["runAsUser"] == 1000
