"""Starts the node of the image: writes its properties, formats new directories, becomes tierlog.

Both entry points use it, each with its rule for the names of variables (`variables.py`). The file
is `server.properties` in `$TIERLOG_CONFIG_DIR`. A file of the same name in the mounted
configuration directory comes first, and a variable overrides it. `CLUSTER_ID` formats directories
that are new: that is a step of its own, because others format before it, and add users.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from tierlog.clients.errors import KafkaError
from tierlog.clients.properties import parse_properties
from tierlog.docker.properties_file import path_of_properties
from tierlog.docker.variables import (
    CLUSTER_ID,
    NameRule,
    StartRefusedError,
    lines_when_ready,
    log_directories,
    log_level_options,
    named_directories,
    planned_properties,
)

MOUNTED_CONFIG_DIR = "TIERLOG_MOUNTED_CONFIG_DIR"
META_FILE = "meta.properties"
_FORMAT_S = 60.0


def _text_of(path: Path) -> str | None:
    """The text of a file; None if there is none. Raises StartRefusedError."""
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StartRefusedError(
            f"{path} cannot be read: {error.strerror}. The image runs as user {os.getuid()}."
        ) from None
    except UnicodeDecodeError:
        raise StartRefusedError(f"{path} is not UTF-8 text.") from None


def configure(environment: Mapping[str, str], rule: NameRule) -> None:
    """Write the properties file.

    Raises StartRefusedError, KafkaError, OSError.
    """
    file = path_of_properties(environment)
    folder = environment.get(MOUNTED_CONFIG_DIR)
    mounted = (_text_of(Path(folder) / file.name) if folder else None) or ""
    names = log_directories(environment, mounted, rule)
    text = planned_properties(environment, mounted, _metas(names), rule)
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file.touch(mode=0o600)
    file.write_text(text, "utf-8")


def _metas(directories: Sequence[str]) -> dict[str, str | None]:
    """The text of `meta.properties` of each directory; None for one that is new."""
    return {name: _text_of(Path(name) / META_FILE) for name in directories}


def format_new(environment: Mapping[str, str]) -> None:
    """Format the directories that are new, as `CLUSTER_ID` says; nothing if it is not set.

    Raises KafkaError, StartRefusedError.
    """
    file, properties = _written(environment)
    cluster_id = environment.get(CLUSTER_ID)
    if cluster_id and None in _metas(named_directories(properties)).values():
        _format(cluster_id, file)


def _written(environment: Mapping[str, str]) -> tuple[Path, dict[str, str]]:
    """The file that was written, and its properties. Raises KafkaError, StartRefusedError."""
    file = path_of_properties(environment)
    text = _text_of(file)
    if text is None:
        raise StartRefusedError(f"There is no {file}: run /etc/confluent/docker/configure first.")
    return file, parse_properties(text)


def _format(cluster_id: str, file: Path) -> None:
    """Format the directories that are new. Raises StartRefusedError."""
    arguments = ("--ignore-formatted", f"--cluster-id={cluster_id}", "--config", str(file))
    try:
        done = subprocess.run(
            ["tierlog", "format", *arguments],
            stderr=subprocess.PIPE,
            text=True,
            timeout=_FORMAT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise StartRefusedError(
            f"The log directories were not formatted within {_FORMAT_S:.0f} s: look at the"
            " disk of the volume."
        ) from None
    if done.returncode != 0:
        raise StartRefusedError(done.stderr.strip() or "The log directories were not formatted.")
    sys.stderr.write(done.stderr)


def become_tierlog(environment: Mapping[str, str]) -> NoReturn:
    """Become `tierlog serve`, which prints Kafka's lines when it is ready.

    Raises KafkaError, StartRefusedError, OSError.
    """
    file, properties = _written(environment)
    announced = [f"--announce={line}" for line in lines_when_ready(properties)]
    levels = log_level_options(environment)
    # A first process has no default actions: what comes now waits until tierlog listens to it.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    os.execvp("tierlog", ["tierlog", "serve", "--config", str(file), *levels, *announced])


def run_or_refuse(step: Callable[[], None]) -> int:
    """Run a step of the start; 0, or 1 and one message on stderr if the start is refused."""
    # A first process has no default actions: without a handler, this signal would be lost.
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(143))
    try:
        step()
    except (StartRefusedError, KafkaError) as refused:
        message = refused.message if isinstance(refused, KafkaError) else str(refused)
        print(f"tierlog: {message}", file=sys.stderr)
        return 1
    except OSError as error:
        print(
            f"tierlog: {error.filename}: {error.strerror}; the image runs as user {os.getuid()},"
            " who must be able to write there.",
            file=sys.stderr,
        )
        return 1
    return 0
