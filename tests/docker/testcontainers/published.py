"""The newest module of Testcontainers for Kafka of each language, as its registry has it.

Each language's own client fetches it by its name; nothing of it is run.
"""

import io
import json
import re
import subprocess
import sys
import tarfile
import tokenize
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

_FETCHED_WITHIN_S = 300.0
_JAVA_ARTIFACT = "org.testcontainers:testcontainers-kafka:LATEST:jar:sources"
_GO_MODULE = "github.com/testcontainers/testcontainers-go/modules/kafka"


class Published(NamedTuple):
    """A module."""

    version: str
    files: Mapping[str, str]
    """Its sources, without comments, by their path in the package."""

    @property
    def code(self) -> str:
        return "\n".join(self.files.values())


def newest(language: str, folder: Path) -> Published:
    """Fetch the newest module of a language into a folder."""
    return _MODULES[language](folder)


def _run(language: str, command: Sequence[str], folder: Path) -> str:
    """What a client prints. AssertionError if it cannot fetch."""
    done = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=_FETCHED_WITHIN_S,
        check=False,
    )
    said = (done.stderr + done.stdout).strip()
    assert done.returncode == 0, (
        f"What Testcontainers for {language} does now cannot be told: `{' '.join(command)}` has"
        f" failed. Run the test again where its registry can be reached.\n{said[-2000:]}"
    )
    return done.stdout


def _of_java(folder: Path) -> Published:
    # Maven remembers for a day which version is the newest, unless it is told to look.
    options = ("--quiet", "--batch-mode", "--update-snapshots")
    copy = ("dependency:copy", f"-Dartifact={_JAVA_ARTIFACT}", f"-DoutputDirectory={folder}")
    _run("Java", ["mvn", *options, *copy], folder)
    (jar,) = folder.glob("*.jar")
    version = jar.name.removeprefix("testcontainers-kafka-").removesuffix("-sources.jar")
    return Published(version, _zipped(jar, ".java"))


def _of_python(folder: Path) -> Published:
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--no-deps")
    options = ("--quiet", "--no-cache-dir", "--only-binary=:all:", f"--dest={folder}")
    _run("Python", [*pip, *options, "testcontainers"], folder)
    (wheel,) = folder.glob("*.whl")
    files = {
        name: text
        for name, text in _zipped(wheel, ".py").items()
        if "kafka" in name and "redpanda" not in name
    }
    return Published(wheel.name.split("-")[1], files)


def _of_node(folder: Path) -> Published:
    pack = ("npm", "pack", "--json", f"--pack-destination={folder}", "@testcontainers/kafka")
    version = json.loads(_run("Node", pack, folder))[0]["version"]
    (archive,) = folder.glob("*.tgz")
    with tarfile.open(archive) as opened:
        files: dict[str, str] = {}
        for member in opened.getmembers():
            content = opened.extractfile(member)
            if member.name.endswith(".js") and content is not None:
                files[member.name] = _without_comments(content.read().decode())
    return Published(version, files)


def _of_go(folder: Path) -> Published:
    answer = _run("Go", ["go", "mod", "download", "-json", f"{_GO_MODULE}@latest"], folder)
    fetched = json.loads(answer)
    files = {
        name: text
        for name, text in _zipped(Path(fetched["Zip"]), ".go").items()
        if not name.endswith("_test.go")
    }
    return Published(fetched["Version"], files)


_MODULES: Mapping[str, Callable[[Path], Published]] = {
    "java": _of_java,
    "python": _of_python,
    "node": _of_node,
    "go": _of_go,
}


def _zipped(archive: Path, ending: str) -> dict[str, str]:
    clean = _without_pythons_comments if ending == ".py" else _without_comments
    with zipfile.ZipFile(archive) as opened:
        names = [each for each in opened.namelist() if each.endswith(ending)]
        return {name: clean(opened.read(name).decode()) for name in names}


_COMMENT_OR_TEXT = re.compile(
    r"""(?P<comment>/\*.*?\*/|//[^\n]*)|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`[^`]*`""",
    re.DOTALL,
)


def _without_comments(code: str) -> str:
    """Code of Java, JavaScript or Go; what looks like a comment within a text stays."""
    return _COMMENT_OR_TEXT.sub(lambda match: " " if match["comment"] else match[0], code)


def _without_pythons_comments(code: str) -> str:
    tokens = tokenize.generate_tokens(io.StringIO(code).readline)
    kept = [each for each in tokens if each.type != tokenize.COMMENT]
    return tokenize.untokenize(kept)
