"""The last release and the newest state of this clone, each as a wheel, installed apart.

The last release is the newest tag `v*` before the checked-out commit; while there is none, it is
`FIRST_STATE`. Its wheel is built from the clone's history by hatchling, so a clone without history
(`--depth`) has none: then `TIERLOG_BENCH_OLD_WHEEL` names a file. Nothing is fetched: both
environments read the dependencies of the one that runs the bench.
"""

import os
import subprocess
import sys
import sysconfig
import tarfile
from io import BytesIO
from pathlib import Path

from .harness.requests.probe import NotUpError

FIRST_STATE = "e92a1431810e33309bdf98fee384acb872ac3bd8"
"""What counts as the last release until one is tagged: the first commit with whole clusters."""

OLD_WHEEL = "TIERLOG_BENCH_OLD_WHEEL"

_ROOT = Path(__file__).resolve().parent.parent
_BUILD_S = 300.0


def last_release() -> str:
    """The git revision of the last release. Raises NotUpError if this is no git clone."""
    tags = _git("tag", "--list", "v*", "--merged", "HEAD", "--sort=-v:refname").decode().split()
    return tags[0] if tags else FIRST_STATE


def old_wheel(directory: Path) -> Path:
    """The wheel of the last release, built below `directory` if none is named.

    Raises NotUpError with a message that says what to do.
    """
    stated = os.environ.get(OLD_WHEEL)
    if stated:
        wheel = Path(stated)
        if not wheel.is_file():
            raise NotUpError(f"{OLD_WHEEL} names {stated}, which is no file.")
        return wheel
    revision = last_release()
    try:
        archive = _git("archive", "--format=tar", revision)
    except NotUpError as error:
        raise NotUpError(
            f"The last release, {revision}, is not in this clone's history: run "
            f"`git fetch --unshallow --tags`, or name its wheel in {OLD_WHEEL}. ({error})"
        ) from error
    source = directory / "source"
    with tarfile.open(fileobj=BytesIO(archive)) as packed:
        packed.extractall(source, filter="data")
    return built_wheel(source, directory)


def built_wheel(source: Path, directory: Path) -> Path:
    """Build the wheel of a tree of sources. Raises NotUpError."""
    if not (source / "pyproject.toml").exists():
        raise NotUpError(f"{source} is no clone of tierlog: the newest wheel is built from one.")
    command = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(directory))
    _run(command, "Building a wheel failed (`make setup-test` installs hatchling)", source)
    return max(directory.glob("*.whl"), key=lambda each: each.stat().st_mtime_ns)


def installed(wheel: Path, directory: Path) -> Path:
    """A new virtual environment with this wheel; returns its `tierlog`. Raises NotUpError."""
    _run((sys.executable, "-m", "venv", str(directory)), "No virtual environment can be made")
    python = directory / "bin" / "python"
    _run(
        (str(python), "-m", "pip", "install", "-q", "--no-deps", "--no-index", str(wheel)),
        f"{wheel.name} cannot be installed",
    )
    (packages,) = directory.glob("lib/python*/site-packages")
    shared = sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
    # Behind its own packages, so that its own tierlog comes first.
    (packages / "dependencies.pth").write_text("".join(f"{each}\n" for each in shared))
    ask = (str(python), "-c", "import tierlog; print(tierlog.__file__)")
    imported = _run(ask, f"{wheel.name} cannot be imported").decode()
    if not imported.startswith(str(directory)):
        raise NotUpError(f"{python} imports {imported.strip()}, not the wheel.")
    return directory / "bin" / "tierlog"


def old_and_new(directory: Path) -> tuple[Path, Path]:
    """The `tierlog` of the last release and of this clone as it is. Raises NotUpError."""
    directory.mkdir(parents=True, exist_ok=True)
    programs: list[Path] = []
    for name in ("old", "new"):
        wheels = directory / f"{name}-wheel"
        wheels.mkdir()
        wheel = old_wheel(wheels) if name == "old" else built_wheel(_ROOT, wheels)
        programs.append(installed(wheel, directory / name))
    old, new = programs
    return old, new


def _git(*arguments: str) -> bytes:
    return _run(("git", "-C", str(_ROOT), *arguments), "git failed")


def _run(command: tuple[str, ...], otherwise: str, directory: Path | None = None) -> bytes:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    try:
        answer = subprocess.run(
            command,
            cwd=directory,
            env=environment,
            capture_output=True,
            timeout=_BUILD_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotUpError(f"{otherwise}: {error}") from error
    if answer.returncode:
        said = answer.stderr.decode(errors="replace").strip().splitlines()[-3:]
        raise NotUpError(f"{otherwise}: {' '.join(said)}")
    return answer.stdout
