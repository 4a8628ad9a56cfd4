"""An S3 in a process of its own that a test may start, lose and start again on the same port.

moto keeps everything in memory: what was stopped has forgotten its buckets.
"""

import socket
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Protocol, Self, cast

from tierlog.bench.harness.requests.probe import free_port
from tierlog.tests.waiting import wait_until

BUCKET = "tier"
KEY = "the-access-key-of-a-test"
SECRET = "the-secret-of-a-test"


class Bucket(Protocol):
    """What a test does with a bucket, in fsspec's words."""

    def mkdir(self, path: str) -> None: ...

    def find(self, path: str) -> list[str]: ...

    def cat_file(self, path: str) -> bytes: ...


class ObjectStore:
    """moto's server. Not running until `start`; the port is taken from the beginning."""

    def __init__(self, directory: Path) -> None:
        self.port = free_port()
        self._log = directory / "moto.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def properties(self) -> dict[str, str]:
        """What points a broker at it."""
        return {
            "rsm.config.url": f"s3://{BUCKET}/broker",
            "rsm.config.option.endpoint_url": self.endpoint,
            "rsm.config.option.key": KEY,
            "rsm.config.option.secret": SECRET,
        }

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True

    def start(self) -> None:
        """Start it with an empty bucket."""
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        wait_until(self._answers, 60, lambda: self._log.read_text()[-2000:])
        self.bucket().mkdir(BUCKET)

    def bucket(self) -> Bucket:
        file_system = cast("Callable[..., Bucket]", import_module("s3fs").S3FileSystem)
        options = {"key": KEY, "secret": SECRET, "endpoint_url": self.endpoint}
        return file_system(**options, use_listings_cache=False, skip_instance_cache=True)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(30)
            self._process = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()
