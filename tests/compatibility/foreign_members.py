"""Members and producers in other languages: kafkajs (node) and franz-go (Go).

Each is fetched from its registry, at the versions that its lock file pins, and made ready once.
What is ready is kept under `~/.cache/tierlog` (or `$XDG_CACHE_HOME`) by the contents of its folder
and by what was run in it, so that a change makes it anew; several test workers may do so at once.
"""

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

FOREIGN_CLIENTS = frozenset({"franz-go", "kafkajs"})
HERE = Path(__file__).parent
_TIMEOUT_S = 280


@cache
def ready(name: str, command: tuple[str, ...]) -> Path:
    """A copy of a folder beside this file in which the command has been run."""
    source = HERE / name
    files = sorted(path for path in source.iterdir() if path.is_file())
    contents = b"".join(path.name.encode() + path.read_bytes() for path in files)
    contents += "\0".join(command).encode()
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tierlog"
    folder = home / f"{name}-{hashlib.sha256(contents).hexdigest()[:16]}"
    if folder.exists():
        return folder
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home) as directory:
        made = Path(directory) / name
        made.mkdir()
        for path in files:
            shutil.copy(path, made)
        done = subprocess.run(
            command, cwd=made, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        if not folder.exists():
            made.rename(folder)
    return folder


def foreign_command(client: str, options: Mapping[str, object]) -> list[str]:
    """What runs a member, or with the option `produce` a producer."""
    asked = json.dumps(options)
    if client == "kafkajs":
        folder = ready("kafkajs", ("npm", "ci", "--no-audit", "--no-fund"))
        return ["node", str(folder / "member.mjs"), asked]
    assert client == "franz-go", client
    folder = ready("franz_go", ("go", "build", "-o", "member", "."))
    return [str(folder / "member"), asked]
