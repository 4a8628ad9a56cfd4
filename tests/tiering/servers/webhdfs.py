"""HDFS: a name node and a data node, reached over WebHDFS, with jars from Maven Central.

It believes the name that a client gives itself, and checks permissions by it.
"""

import hashlib
import json
import shlex
import subprocess
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from urllib.parse import quote

from tierlog.bench.harness.requests.probe import free_port
from tierlog.tests.tiering.servers.server import StoreServer, cached, fetch, program

RECIPE = Path(__file__).resolve().parent / "hadoop" / "pom.xml"
USER = "tierlog"
_SUPERUSER = "hdfs"
_NODES = "org.apache.hadoop.hdfs.server"


class HdfsServer(StoreServer):
    """Two JVMs on one set of folders."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._rpc_port, self._data_port = free_port(), free_port()
        self._classes = directory / "classes"
        for folder in ("hdfs", "datanode", "static"):
            (self._classes / "webapps" / folder).mkdir(parents=True)
        self._configure()

    def _configure(self) -> None:
        def loopback(port: int) -> str:
            return f"127.0.0.1:{port}"

        (self._classes / "core-site.xml").write_text(
            _site({"fs.defaultFS": f"hdfs://{loopback(self._rpc_port)}"})
        )
        (self._classes / "hdfs-site.xml").write_text(
            _site(
                {
                    "dfs.namenode.name.dir": f"file://{self.directory}/names",
                    "dfs.datanode.data.dir": f"file://{self.directory}/blocks",
                    "dfs.namenode.http-address": loopback(self.port),
                    "dfs.datanode.http.address": loopback(self._data_port),
                    "dfs.datanode.address": loopback(free_port()),
                    "dfs.datanode.ipc.address": loopback(free_port()),
                    "dfs.datanode.hostname": "127.0.0.1",
                    "dfs.client.use.datanode.hostname": "true",
                    "dfs.replication": "1",
                    "dfs.namenode.safemode.extension": "0",
                    "dfs.permissions.enabled": "true",
                }
            )
        )

    def _java(self, *arguments: str) -> list[str]:
        flags = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        opened = ["--add-opens", "java.base/java.lang=ALL-UNNAMED"]
        classes = f"{self._classes}:{hadoop_jars()}/*"
        return [program("java"), *flags, *opened, "-cp", classes, *arguments]

    def environment(self) -> dict[str, str]:
        return {"HADOOP_USER_NAME": _SUPERUSER}

    def command(self) -> list[str]:
        if not (self.directory / "names").exists():
            command = self._java(f"{_NODES}.namenode.NameNode", "-format", "-force")
            subprocess.run(command, check=True, capture_output=True, timeout=120)
        nodes = (
            self._java(f"{_NODES}.namenode.NameNode"),
            self._java(f"{_NODES}.datanode.DataNode"),
        )
        both = " & ".join(shlex.join(node) for node in nodes)
        return ["bash", "-c", f"{both} & wait -n; exit 1"]

    def _ask(self, method: str, path: str) -> tuple[int, bytes]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def is_up(self) -> bool:
        bean = quote("Hadoop:service=NameNode,name=FSNamesystemState")
        try:
            status, body = self._ask("GET", f"/jmx?qry={bean}")
        except (OSError, HTTPException):
            return False
        if status != 200:
            return False
        beans = json.loads(body)["beans"]
        return bool(beans) and beans[0]["NumLiveDataNodes"] == 1 and not self._is_safe()

    def _is_safe(self) -> bool:
        """Whether it is in safe mode still, in which it writes nothing."""
        status, _ = self._ask("PUT", f"/webhdfs/v1/up?op=MKDIRS&user.name={_SUPERUSER}")
        return status != 200

    def make_root(self) -> None:
        for operation in ("MKDIRS&permission=700", f"SETOWNER&owner={USER}"):
            path = f"/webhdfs/v1/tier?op={operation}&user.name={_SUPERUSER}"
            status, body = self._ask("PUT", path)
            assert status == 200, body

    def properties(self) -> dict[str, str]:
        return {
            "rsm.config.url": f"webhdfs://127.0.0.1:{self.port}/tier",
            "rsm.config.option.user": USER,
        }

    def wrong_credentials(self) -> dict[str, str] | None:
        return self.properties() | {"rsm.config.option.user": "somebody"}


def _site(values: dict[str, str]) -> str:
    properties = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>"
        for name, value in values.items()
    )
    return f"<configuration>{properties}</configuration>"


def hadoop_jars() -> Path:
    """The folder with Hadoop's jars, fetched when it is not there yet (65 MB)."""
    version = hashlib.sha256(RECIPE.read_bytes()).hexdigest()[:16]

    def download(folder: Path) -> None:
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
        fetch([program("mvn"), "--quiet", "--batch-mode", f"--file={RECIPE}", *goal], folder)

    return cached(f"hadoop-3.4.2-{version}", download)
