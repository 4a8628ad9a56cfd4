"""A node of a cluster to be formatted: its properties file and its directories."""

from pathlib import Path

from tierlog.cli.command_line import run
from tierlog.replication.metadata.bootstrap_snapshot import FIRST_SNAPSHOT_FILE
from tierlog.storage.directory.log_dir import LogDir, MetaProperties
from tierlog.storage.files import OsFiles


class Node:
    """A properties file, and the directories it names."""

    def __init__(self, directory: Path, *more: str) -> None:
        self.log_dirs = [directory / "a", directory / "b"]
        self.file = directory / "node.properties"
        lines = (
            "process.roles=broker,controller",
            "node.id=1",
            "listeners=PLAINTEXT://:9092,CONTROLLER://:9093",
            "controller.listener.names=CONTROLLER",
            f"log.dirs={','.join(map(str, self.log_dirs))}",
            *more,
        )
        self.file.write_text("\n".join(lines))

    def run(self, command: str, *arguments: str) -> int:
        return run([command, "-c", str(self.file), *arguments], 0)

    def format(self, *arguments: str) -> int:
        return self.run("format", "-t", "a-cluster", *arguments)

    def meta(self, index: int) -> MetaProperties:
        meta = LogDir(OsFiles(), str(self.log_dirs[index])).read_meta_properties()
        assert meta is not None
        return meta

    @property
    def first_snapshot(self) -> Path:
        return self.log_dirs[0] / "__cluster_metadata-0" / FIRST_SNAPSHOT_FILE
