"""`tierlog format`, `info` and `random-uuid`, without Kafka beside them."""

from pathlib import Path

import pytest

from tierlog.cli.command_line import run
from tierlog.cli.initial_controllers import parse_initial_controllers
from tierlog.clients.kafka_uuid import uuid_from_string
from tierlog.replication.metadata.bootstrap_snapshot import FIRST_SNAPSHOT_FILE
from tierlog.storage.directory.log_dir import LogDir, MetaProperties
from tierlog.storage.files import OsFiles

from .formatted_node import Node

STATIC = "controller.quorum.voters=1@localhost:9093,2@localhost:9193,3@localhost:9293"
DIRECTORY = "JEXY6aqzQY-32P5TStzaFg"


def test_every_directory_gets_its_id_and_the_cluster_s(tmp_path: Path) -> None:
    node = Node(tmp_path, STATIC)
    assert node.format() == 0
    first, second = node.meta(0), node.meta(1)
    assert (first.cluster_id, first.node_id) == (second.cluster_id, second.node_id)
    assert (first.cluster_id, first.node_id) == ("a-cluster", 1)
    assert first.directory_id != second.directory_id
    assert not node.first_snapshot.exists()


def test_a_new_directory_beside_formatted_ones_is_formatted_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node = Node(tmp_path, STATIC)
    assert node.format() == 0
    before = node.meta(0)
    for path in node.log_dirs[1].iterdir():
        path.unlink()
    assert node.format() == 1
    assert "a is already formatted. Use --ignore-formatted" in capsys.readouterr().err
    assert node.format("-g") == 0
    assert node.meta(0) == before
    assert node.meta(1).cluster_id == "a-cluster"
    assert node.format("-g") == 0
    assert "All of the log directories are already formatted." in capsys.readouterr().out


def test_the_metadata_directory_gets_the_id_that_the_first_voters_name(tmp_path: Path) -> None:
    node = Node(tmp_path, "controller.quorum.bootstrap.servers=localhost:9093,localhost:9193")
    other = "MvDxzVmcRsaTz33bUuRU6A"
    voters = f"1@localhost:9093:{DIRECTORY},2@localhost:9193:{other}"
    assert node.format("--initial-controllers", voters) == 0
    assert node.meta(0).directory_id == uuid_from_string(DIRECTORY)
    assert node.meta(1).directory_id != uuid_from_string(DIRECTORY)
    assert node.first_snapshot.exists()


def test_the_directory_that_the_file_names_for_metadata_has_the_first_snapshot(
    tmp_path: Path,
) -> None:
    node = Node(
        tmp_path,
        "controller.quorum.bootstrap.servers=localhost:9093,localhost:9193",
        f"metadata.log.dir={tmp_path / 'b'}",
    )
    assert node.format("--standalone") == 0
    assert not node.first_snapshot.exists()
    assert (node.log_dirs[1] / "__cluster_metadata-0" / FIRST_SNAPSHOT_FILE).exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("-f", "group.version=0"), "group.version=0 is not supported yet"),
        (("-f", "metadata.version=20"), "metadata.version=20 is not supported yet"),
        (("-r", "4.0-IV3"), "Unknown metadata.version '4.0-IV3'"),
        (("-f", "kraft.version=2"), "No feature:kraft.version with feature level 2"),
        (("-t", " "), "The cluster id is not printable text"),
        (
            ("-I", f"1@localhost:9093:{'A' * 22}"),
            f"The directory ID {'A' * 22} is reserved",
        ),
    ],
)
def test_what_a_new_cluster_cannot_begin_with_is_refused(
    tmp_path: Path, arguments: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    node = Node(tmp_path, STATIC)
    assert node.format(*arguments) == 1
    assert sentence in capsys.readouterr().err
    assert not node.log_dirs[0].exists()


def test_a_file_in_the_place_of_a_directory_is_passed_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node = Node(tmp_path, STATIC)
    for directory in node.log_dirs:
        directory.write_text("")
    assert node.format() == 1
    captured = capsys.readouterr()
    assert f"I/O error trying to read log directory {node.log_dirs[1]}. Ignoring" in captured.out
    assert captured.err == "No available log directories to format.\n"


def test_directories_of_two_clusters_are_a_problem(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node = Node(tmp_path, STATIC)
    for cluster_id, directory in zip("xy", node.log_dirs, strict=True):
        directory.mkdir()
        meta = MetaProperties(cluster_id, 1, uuid_from_string(DIRECTORY))
        LogDir(OsFiles(), str(directory)).write_meta_properties(meta)
    assert node.run("info") == 1
    assert "Two directories belong to different nodes or clusters" in capsys.readouterr().out


def test_a_process_that_is_its_whole_cluster_may_be_formatted(tmp_path: Path) -> None:
    node = Node(tmp_path)
    assert node.format() == 0
    assert node.meta(0).cluster_id == "a-cluster"


def test_the_address_of_a_first_voter_may_be_ipv6() -> None:
    (controller,) = parse_initial_controllers(f" 2@[::1]:19094:{DIRECTORY},")
    assert (controller.node_id, controller.host, controller.port) == (2, "::1", 19094)
    assert controller.directory_id == uuid_from_string(DIRECTORY)


def test_a_new_id_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["random-uuid"], 0) == 0
    assert uuid_from_string(capsys.readouterr().out.strip())
