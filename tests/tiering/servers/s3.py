"""Two servers that speak S3: moto, which comes with the tests, and the Versity gateway in Go.

moto looks at no credentials and forgets everything when it stops; the gateway signs and checks, and
keeps objects in a folder.
"""

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from tierlog.tests.tiering.servers.server import StoreServer, cached, fetch, program

BUCKET = "tier"
KEY = "the-access-key-of-a-test"
SECRET = "the-secret-key-of-a-test"
VERSITYGW = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"


class _Buckets(Protocol):
    def mkdir(self, path: str) -> None: ...


class _S3Server(StoreServer):
    secrets = (SECRET,)
    key = KEY
    secret = SECRET

    def properties(self) -> dict[str, str]:
        return {
            "rsm.config.url": f"s3://{BUCKET}/broker",
            "rsm.config.option.endpoint_url": f"http://127.0.0.1:{self.port}",
            "rsm.config.option.key": self.key,
            "rsm.config.option.secret": self.secret,
        }

    def make_root(self) -> None:
        make = cast("Callable[..., _Buckets]", import_module("s3fs").S3FileSystem)
        endpoint = f"http://127.0.0.1:{self.port}"
        options = {"key": self.key, "secret": self.secret, "endpoint_url": endpoint}
        make(**options, use_listings_cache=False, skip_instance_cache=True).mkdir(BUCKET)


class MotoServer(_S3Server):
    """moto's server, from PyPI."""

    def command(self) -> list[str]:
        return [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]

    def wrong_credentials(self) -> dict[str, str] | None:
        return None


class VersityGateway(_S3Server):
    """The Versity S3 gateway on a folder, from the Go module proxy."""

    @property
    def folder(self) -> Path:
        """Where it keeps the buckets: a folder each, with a file for each object."""
        return self.directory / "buckets"

    def command(self) -> list[str]:
        self.folder.mkdir(exist_ok=True)
        address = f"127.0.0.1:{self.port}"
        words = ["--port", address, "--health", "/health", "posix", str(self.folder)]
        return [str(versitygw()), *words]

    def environment(self) -> dict[str, str]:
        return {"ROOT_ACCESS_KEY": self.key, "ROOT_SECRET_KEY": self.secret}

    def wrong_credentials(self) -> dict[str, str] | None:
        return {**self.properties(), "rsm.config.option.secret": "another-secret-of-a-test"}


def versitygw() -> Path:
    """The gateway's program, built when it is not there yet."""

    def build(folder: Path) -> None:
        fetch([program("go"), "install", VERSITYGW], folder, {"GOBIN": str(folder)})

    return cached("versitygw-1.8.0", build) / "versitygw"
