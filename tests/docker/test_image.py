"""docker/Containerfile is built, and what comes of it runs, without an engine.

buildah builds it and runs its commands with `chroot` as the only isolation: the file system, the
user and the variables are those of the image, the network is the machine's. Its base is made of
Debian's packages, because images of registries are not to be had everywhere.
"""

import os
import subprocess
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tierlog.tests.docker.compose_processes import addresses
from tierlog.tests.docker.image_file import FOLDER, image
from tierlog.tests.house_rules import ROOT
from tierlog.tests.tiering.servers.server import cached, fetch
from tierlog.tests.waiting import wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.requires("buildah", "mmdebstrap"),
    pytest.mark.timeout(1800),
]

_PACKAGES = "python3,python3-venv,python3-pip,ca-certificates"
_BUILD_S = 1500.0
_WITHIN_S = 180.0
_CERTIFICATES = "/etc/ssl/certs"


def _base() -> Path:
    """Debian with Python, as an archive of its root file system."""

    def make(folder: Path) -> None:
        arguments = ("--mode=root", "--variant=essential", f"--include={_PACKAGES}")
        fetch(["mmdebstrap", *arguments, "bookworm", "base.tar"], folder)
        (folder / "Containerfile").write_text("FROM scratch\nADD base.tar /\n")

    return cached("debian-bookworm-python-1", make)


class Built:
    """The image, and one container of it."""

    def __init__(self, directory: Path) -> None:
        storage = ("--root", str(directory / "root"), "--runroot", str(directory / "run"))
        self._buildah = ["buildah", "--storage-driver", "vfs", *storage]
        self._log = directory / "output.log"
        self._container = ""

    def build(self) -> None:
        """Build the base and the image; the machine's own certificates count in the build."""
        bud = ("bud", "--isolation", "chroot", "--layers=false")
        self._run([*bud, "-t", "base", str(_base())], _BUILD_S)
        ignore = ("--ignorefile", str(FOLDER / "Containerfile.dockerignore"))
        volume = ("--volume", f"{_CERTIFICATES}:{_CERTIFICATES}:ro")
        options = ("--format", "docker", "--build-arg", "BASE=localhost/base", *ignore, *volume)
        file = ("-f", str(FOLDER / "Containerfile"), "-t", "tierlog", str(ROOT))
        self._run([*bud, *options, *file], _BUILD_S)
        self._container = self._run(["from", "--pull-never", "localhost/tierlog"]).split()[-1]

    def configure(self, environment: dict[str, str]) -> None:
        stated = [each for pair in environment.items() for each in ("--env", "=".join(pair))]
        self._run(["config", *stated, self._container])

    def _run(self, words: Sequence[str], within_s: float = _WITHIN_S) -> str:
        done = subprocess.run(
            [*self._buildah, *words], capture_output=True, text=True, timeout=within_s, check=False
        )
        assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
        return done.stdout

    def _inside(self, command: Sequence[str]) -> list[str]:
        return [*self._buildah, "run", "--isolation", "chroot", self._container, "--", *command]

    def execute(self, *command: str) -> tuple[int, str]:
        """Run a command in the container: its exit code and output."""
        done = subprocess.run(
            self._inside(command), capture_output=True, text=True, timeout=_WITHIN_S, check=False
        )
        return done.returncode, done.stdout

    def start(self) -> "subprocess.Popen[bytes]":
        """Run the image's own command; its process id is left in the container."""
        program = f"echo $$ > /tmp/pid; exec {' '.join(image().command)}"
        with self._log.open("ab") as log:
            return subprocess.Popen(self._inside(["sh", "-c", program]), stdout=log, stderr=log)

    def settings(self) -> str:
        return self._run(["inspect", "--type", "image", "localhost/tierlog"])

    def remove(self) -> None:
        self._run(["rm", "--all"])

    @property
    def output(self) -> str:
        return self._log.read_text(errors="replace")[-3000:]


@pytest.fixture
def built(tmp_path: Path) -> Iterator[Built]:
    made = Built(tmp_path)
    made.build()
    try:
        yield made
    finally:
        made.remove()


@contextmanager
def _running(built: Built) -> Generator[None]:
    """The image's own command runs, and ends with 0 on the signal of the image."""
    process = built.start()
    try:
        wait_until(
            lambda: process.poll() is None and built.execute("tierlog-ready")[0] == 0,
            _WITHIN_S,
            lambda: built.output,
        )
        yield
        assert built.execute("sh", "-c", "kill -TERM $(cat /tmp/pid)")[0] == 0
        assert process.wait(_WITHIN_S) == 0, built.output
    finally:
        if process.poll() is None:
            built.execute("sh", "-c", "kill -KILL $(cat /tmp/pid)")
            process.wait(_WITHIN_S)


def test_the_image_runs_as_its_user_and_keeps_its_records(built: Built) -> None:
    host = addresses([], os.getpid())["localhost"]
    bootstrap = {"bootstrap.servers": f"{host}:9092"}
    listeners = f"PLAINTEXT://{host}:9092"
    built.configure(
        {
            "KAFKA_LISTENERS": listeners,
            "KAFKA_ADVERTISED_LISTENERS": listeners,
            "KAFKA_TIERLOG_METRICS_HOST": host,
        }
    )
    assert built.execute("id", "-u") == (0, "1000\n")
    assert all(part in built.settings() for part in ('"StopSignal": "SIGTERM"', '"Healthcheck": {'))
    assert built.execute("tierlog-bucket")[0] == 2
    with _running(built):
        producer = Producer(bootstrap)
        producer.produce("greetings", b"hello", partition=0)
        assert producer.flush(_WITHIN_S) == 0
        assert built.execute("tierlog-in-sync", "--wait", "60")[0] == 0
    with _running(built):
        consumer = Consumer({**bootstrap, "group.id": "none"})
        consumer.assign([TopicPartition("greetings", 0, 0)])
        message = consumer.poll(_WITHIN_S)
        consumer.close()
    assert message is not None
    assert message.value() == b"hello"
