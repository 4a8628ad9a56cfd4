"""docker/Containerfile built by buildah, without an engine.

Its base is made of Debian's packages, because images of registries are not to be had everywhere:
what Debian's slim images leave out (pages of manuals, translations) is left out there, too.
"""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tierlog.tests.docker.image_file import FOLDER
from tierlog.tests.house_rules import ROOT
from tierlog.tests.tiering.servers.server import cached, fetch

_PACKAGES = "usr-is-merged,python3,python3-venv,python3-pip,ca-certificates"
_MERGED_USR = "/usr/share/mmdebstrap/hooks/merged-usr"
_LEFT_OUT = ("man", "doc", "info", "locale")
_BUILD_S = 1500.0
_CERTIFICATES = "/etc/ssl/certs"


class Settings(NamedTuple):
    """What the image states for whoever runs it."""

    user: tuple[int, int]
    environment: tuple[str, ...]
    """Entries `NAME=value`."""
    command: tuple[str, ...]
    folder: str
    stop_signal: str
    health: tuple[str, ...]
    volumes: frozenset[str]


def _base() -> Path:
    """Debian with Python, as an archive of its root file system."""

    def make(folder: Path) -> None:
        options = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in _LEFT_OUT]
        arguments = ("--mode=root", "--variant=essential", f"--hook-dir={_MERGED_USR}", *options)
        fetch(["mmdebstrap", *arguments, f"--include={_PACKAGES}", "bookworm", "base.tar"], folder)
        (folder / "Containerfile").write_text("FROM scratch\nADD base.tar /\n")

    return cached("debian-bookworm-python-2", make)


class BuiltImage:
    """The image: its root file system and its settings."""

    def __init__(self, directory: Path) -> None:
        """Build it; this takes a minute or two. `directory` holds all of it."""
        storage = ("--root", str(directory / "root"), "--runroot", str(directory / "run"))
        self._buildah = ["buildah", "--storage-driver", "vfs", *storage]
        # The machine's own certificates count in the build.
        volume = ("--volume", f"{_CERTIFICATES}:{_CERTIFICATES}:ro")
        ignore = ("--ignorefile", str(FOLDER / "Containerfile.dockerignore"))
        bud = ("bud", "--isolation", "chroot", "--layers=false", "--format", "docker")
        self._run([*bud, "-t", "base", str(_base())])
        options = ("--build-arg", "BASE=localhost/base", *ignore, *volume)
        file = ("-f", str(FOLDER / "Containerfile"), "-t", "tierlog", str(ROOT))
        self._run([*bud, *options, *file])
        container = self._run(["from", "--pull-never", "localhost/tierlog"]).split()[-1]
        self.root = Path(self._run(["mount", container]).strip())
        self.settings = _settings(json.loads(self._run(["inspect", "--type", "image", "tierlog"])))

    def _run(self, words: Sequence[str]) -> str:
        done = subprocess.run(
            [*self._buildah, *words], capture_output=True, text=True, timeout=_BUILD_S, check=False
        )
        assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
        return done.stdout

    def nbytes(self, folder: str = "") -> int:
        """The size of all files below a folder of the image, each counted once."""
        sizes: dict[int, int] = {}
        for place, _, names in os.walk(self.root / folder):
            for name in names:
                status = os.lstat(Path(place) / name)
                sizes[status.st_ino] = status.st_size
        return sum(sizes.values())

    def remove(self) -> None:
        self._run(["rm", "--all"])
        self._run(["rmi", "--all"])


def _settings(inspected: dict[str, Any]) -> Settings:
    stated = inspected["Docker"]["config"]
    user, _, group = stated["User"].partition(":")
    return Settings(
        (int(user), int(group)),
        tuple(stated["Env"]),
        tuple(stated["Cmd"]),
        stated["WorkingDir"],
        stated["StopSignal"],
        tuple(stated["Healthcheck"]["Test"]),
        frozenset(stated["Volumes"]),
    )
