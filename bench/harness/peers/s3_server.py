"""An S3 server on this machine, for users without one: moto's server, from PyPI.

It works with clients for Amazon S3, keeps objects in memory, does not check signatures, and loses
everything when it stops. Its own speed (about 150 MB/s on one core) limits what can be measured
through it, and it shares the machine's cores with the broker.
"""

import http.client
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

from ..measurement_error import MeasurementError
from ..requests.probe import free_port

BUCKET = "tier"
_START_S = 60.0
_POLL_S = 0.05


class S3Server:
    """A server with an empty bucket, on a port of 127.0.0.1. Use as a context manager."""

    def __init__(self, directory: Path) -> None:
        self.port = free_port()
        self._log = directory / "s3.log"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        try:
            self._make_bucket()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _make_bucket(self) -> None:
        """Create the bucket, once the server answers. Raises MeasurementError if it never does."""
        assert self._process is not None
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline and self._process.poll() is None:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
            try:
                connection.request("PUT", f"/{BUCKET}")
                if connection.getresponse().status == http.HTTPStatus.OK:
                    return
            except OSError:
                time.sleep(_POLL_S)
            finally:
                connection.close()
        said = self._log.read_text(errors="replace").strip().splitlines()[-3:]
        raise MeasurementError(f"The S3 server did not start: {' / '.join(said)}")
