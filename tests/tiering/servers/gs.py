"""fake-gcs-server, which speaks Google Cloud Storage's JSON protocol, from the Go module proxy.

It looks at no credentials.
"""

import json
from http.client import HTTPConnection
from pathlib import Path

from tierlog.tests.tiering.servers.server import StoreServer, cached, fetch, program

FAKE_GCS = "github.com/fsouza/fake-gcs-server@v1.56.1"
BUCKET = "tier"


class FakeGcsServer(StoreServer):
    """The server, on a folder."""

    def command(self) -> list[str]:
        endpoint = f"http://127.0.0.1:{self.port}"
        return [
            str(fake_gcs_server()),
            "-scheme=http",
            "-host=127.0.0.1",
            f"-port={self.port}",
            f"-external-url={endpoint}",
            f"-public-host=127.0.0.1:{self.port}",
            "-backend=filesystem",
            f"-filesystem-root={self.directory / 'objects'}",
            "-log-level=error",
        ]

    def make_root(self) -> None:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        body = json.dumps({"name": BUCKET})
        connection.request("POST", "/storage/v1/b?project=test", body)
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        connection.close()

    def properties(self) -> dict[str, str]:
        return {
            "rsm.config.url": f"gs://{BUCKET}/broker",
            "rsm.config.option.endpoint_url": f"http://127.0.0.1:{self.port}",
            "rsm.config.option.token": "anon",
        }

    def wrong_credentials(self) -> dict[str, str] | None:
        return None


def fake_gcs_server() -> Path:
    """The server's program, built when it is not there yet."""

    def build(folder: Path) -> None:
        fetch([program("go"), "install", FAKE_GCS], folder, {"GOBIN": str(folder)})

    return cached("fake-gcs-server-1.56.1", build) / "fake-gcs-server"
