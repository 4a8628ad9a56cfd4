"""Apicurio Registry, from Maven Central: a schema registry with Confluent's API, in memory."""

import tarfile
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from tierlog.tests.tiering.servers.server import StoreServer, cached, fetch, program

_VERSION = "3.0.9"
"""The newest line that runs on Java 17."""
_ARTIFACT = f"io.apicurio:apicurio-registry-app:{_VERSION}:tar.gz:all"
_ROOT = "/apis/ccompat/v7"


class Apicurio(StoreServer):
    """The server. It has nothing to do with a tier."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{_ROOT}"

    def command(self) -> list[str]:
        flags = ["-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        listening = ["-Dquarkus.http.host=127.0.0.1", f"-Dquarkus.http.port={self.port}"]
        return [program("java"), *flags, *listening, "-jar", str(registry_jar())]

    def is_up(self) -> bool:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", f"{_ROOT}/subjects")
            return connection.getresponse().status == 200
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()

    def make_root(self) -> None:
        """It has no root."""

    def properties(self) -> dict[str, str]:
        return {}

    def wrong_credentials(self) -> dict[str, str] | None:
        return None


def registry_jar() -> Path:
    """The jar that starts it, fetched when it is not there yet (100 MB)."""

    def download(folder: Path) -> None:
        goal = ["dependency:copy", f"-Dartifact={_ARTIFACT}", f"-DoutputDirectory={folder}"]
        fetch([program("mvn"), "--quiet", "--batch-mode", *goal], folder)
        (archive,) = folder.glob("*.tar.gz")
        with tarfile.open(archive) as file:
            file.extractall(folder, filter="data")
        archive.unlink()

    (path,) = cached(f"apicurio-{_VERSION}", download).glob("*-runner.jar")
    return path
