#!/usr/bin/env python3
"""The entry point of the image: environment variables become a properties file, and tierlog starts.

The variables are those of Apache Kafka's image, and mean the same: `KAFKA_` is taken off once, the
rest becomes lower case, `_` a dot, `__` an underscore and `___` a hyphen, so that
`KAFKA_NODE_ID=1` is `node.id=1`. A file `server.properties` in the mounted configuration directory
comes first, and a variable overrides it. `CLUSTER_ID` formats directories that are new. Arguments
`NAME=VALUE` are further variables.

    docker run -e KAFKA_NODE_ID=1 -e CLUSTER_ID=... tierlog

Exit code 1 and one sentence if the start is refused; otherwise this becomes `tierlog serve`.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tierlog.clients.errors import KafkaError
from tierlog.clients.properties import parse_properties

PREFIX = "KAFKA_"
NOT_PROPERTIES = frozenset(
    f"{PREFIX}{name}"
    for name in (
        *("VERSION", "OPTS", "HEAP_OPTS", "JMX_OPTS", "JMX_HOSTNAME"),
        *("JVM_PERFORMANCE_OPTS", "GC_LOG_OPTS", "LOG4J_OPTS", "LOG4J_ROOT_LOGLEVEL"),
        *("LOG4J_LOGGERS", "TOOLS_LOG4J_LOGLEVEL"),
    )
)
"""What Apache Kafka's image reads for its JVM and its logger: tierlog has neither."""

CONFIG_DIR = "TIERLOG_CONFIG_DIR"
MOUNTED_CONFIG_DIR = "TIERLOG_MOUNTED_CONFIG_DIR"
DATA_DIR = "TIERLOG_DATA_DIR"
FILE = "server.properties"
META_FILE = "meta.properties"
METRICS_PORT = "9404"
_NAME = re.compile(r"[a-z0-9._-]+")
_FORMAT_S = 60.0
_ANY_HOST = "0.0.0.0"


class StartRefusedError(Exception):
    """One sentence: what is wrong, and what to do."""


class Start(NamedTuple):
    """What is to be done before `tierlog serve`."""

    text: str
    """The properties file."""
    format_as: str | None
    """The cluster id with which new directories are formatted; None if there is nothing to do."""


def property_name(variable: str) -> str | None:
    """The property that a variable states; None if it states none."""
    if not variable.startswith(PREFIX) or variable in NOT_PROPERTIES:
        return None
    name = variable.removeprefix(PREFIX).lower()
    return name.replace("_", ".").replace("...", "-").replace("..", "_") or None


def stated_properties(environment: Mapping[str, str]) -> dict[str, str]:
    """The properties that variables state, by name. Raises StartRefusedError."""
    stated: dict[str, str] = {}
    for variable in sorted(environment):
        name = property_name(variable)
        value = environment[variable]
        if name is None or (name == "advertised.listeners" and not value):
            continue
        _check_writable(variable, name, value)
        stated[name] = value
    return stated


def _check_writable(variable: str, name: str, value: str) -> None:
    """Refuse what would be another property, or a part of one, in the file.

    Raises StartRefusedError, which never has the value: it may be a secret.
    """
    if not _NAME.fullmatch(name):
        raise StartRefusedError(
            f"{variable!r} names no property: after {PREFIX} come letters, digits and _."
        )
    if "\n" in value or "\r" in value:
        raise StartRefusedError(f"{variable} has several lines: a property has one.")
    if (len(value) - len(value.rstrip("\\"))) % 2:
        raise StartRefusedError(
            f"{variable} ends with a backslash, which would join the next property to it: write"
            " the backslash twice."
        )
    if not _is_utf8(value):
        raise StartRefusedError(f"{variable} is not UTF-8 text.")


def _is_utf8(value: str) -> bool:
    """Other bytes of a variable are surrogates, which cannot be encoded."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def default_properties(stated: Mapping[str, str], data_dir: str) -> dict[str, str]:
    """What the image adds to the stated properties."""
    defaults = {"log.dirs": data_dir, "tierlog.metrics.port": METRICS_PORT}
    advertised = stated.get("advertised.listeners", "")
    if "listeners" not in stated and advertised:
        defaults["listeners"] = ",".join(map(_on_any_host, advertised.split(",")))
    elif "listeners" not in stated:
        defaults["listeners"] = f"PLAINTEXT://{_ANY_HOST}:9092"
        defaults["advertised.listeners"] = "PLAINTEXT://localhost:9092"
    if "log.dir" in stated:
        del defaults["log.dirs"]
    return {name: value for name, value in defaults.items() if name not in stated}


def _on_any_host(listener: str) -> str:
    """`NAME://host:port` with the host that accepts connections to any address."""
    name, _, address = listener.strip().partition("://")
    return f"{name}://{_ANY_HOST}:{address.rpartition(':')[2]}"


def planned_start(
    environment: Mapping[str, str], mounted: str, directories: Mapping[str, str | None]
) -> Start:
    """What to write and to format.

    `mounted` is the text of the mounted file. `directories` are the log directories, each with the
    text of its `meta.properties`, or None if it is new. Raises StartRefusedError.
    """
    variables = stated_properties(environment)
    stated = {**parse_properties(mounted), **variables}
    added = {**default_properties(stated, environment.get(DATA_DIR, "")), **variables}
    lines = [f"{name}={value}\n" for name, value in added.items()]
    # The empty line ends the file's last line even if it ends with a backslash.
    text = (mounted.rstrip("\n") + "\n\n" if mounted else "") + "".join(lines)
    cluster_id = environment.get("CLUSTER_ID", "")
    for directory, meta in directories.items():
        owner = parse_properties(meta or "").get("cluster.id", "")
        if cluster_id and owner and owner != cluster_id:
            raise StartRefusedError(
                f"{directory} belongs to the cluster {owner}, and CLUSTER_ID is {cluster_id}: set"
                f" CLUSTER_ID={owner}, or give this node an empty volume."
            )
    is_new = None in directories.values()
    if is_new and not cluster_id and _is_member(stated):
        raise StartRefusedError(
            "CLUSTER_ID is not set: give all nodes of the cluster the same id, which"
            " `tierlog random-uuid` prints."
        )
    return Start(text, cluster_id if is_new and cluster_id else None)


def _is_member(stated: Mapping[str, str]) -> bool:
    """Whether the node is one of several of its cluster, and so may not make up a cluster id."""
    roles = {role.strip() for role in stated.get("process.roles", "").split(",")} - {""}
    voters = [each for each in stated.get("controller.quorum.voters", "").split(",") if each]
    return (
        len(roles) == 1
        or len(voters) > 1
        or bool(stated.get("controller.quorum.bootstrap.servers"))
    )


def log_directories(environment: Mapping[str, str], mounted: str) -> list[str]:
    """Where the node keeps its logs."""
    stated = {**parse_properties(mounted), **stated_properties(environment)}
    named = stated.get("log.dirs") or stated.get("log.dir") or environment.get(DATA_DIR, "")
    return [each.strip() for each in named.split(",") if each.strip()]


def _text_of(path: Path) -> str | None:
    """The text of a file; None if there is none. Raises StartRefusedError, OSError."""
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise StartRefusedError(f"{path} is not UTF-8 text.") from None


def _prepare(environment: Mapping[str, str]) -> Path:
    """Write the properties file and format new directories; returns the file."""
    folder = environment.get(MOUNTED_CONFIG_DIR)
    mounted = (_text_of(Path(folder) / FILE) if folder else None) or ""
    names = log_directories(environment, mounted)
    start = planned_start(
        environment, mounted, {name: _text_of(Path(name) / META_FILE) for name in names}
    )
    file = Path(environment.get(CONFIG_DIR, "/tmp/tierlog")) / FILE
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file.touch(mode=0o600)
    file.write_text(start.text, "utf-8")
    if start.format_as is not None:
        arguments = ("--ignore-formatted", "--cluster-id", start.format_as, "--config", str(file))
        try:
            done = subprocess.run(["tierlog", "format", *arguments], timeout=_FORMAT_S, check=False)
        except subprocess.TimeoutExpired:
            raise StartRefusedError(
                f"The log directories were not formatted within {_FORMAT_S:.0f} s: look at the"
                " disk of the volume."
            ) from None
        if done.returncode != 0:
            raise StartRefusedError("The log directories could not be formatted: see above.")
    return file


def main(arguments: Sequence[str]) -> int:
    """Become `tierlog serve`; returns the exit code if that is refused."""
    # A first process has no default actions: without a handler, this signal would be lost.
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(143))
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if not (name and equals):
            print(f"tierlog: {argument} is not of the form NAME=VALUE.", file=sys.stderr)
            return 1
        os.environ[name] = value
    try:
        file = _prepare(os.environ)
    except (StartRefusedError, KafkaError) as refused:
        sentence = refused.message if isinstance(refused, KafkaError) else str(refused)
        print(f"tierlog: {sentence}", file=sys.stderr)
        return 1
    except OSError as error:
        print(
            f"tierlog: {error.filename}: {error.strerror}; the image runs as user 1000, who must"
            " be able to write there.",
            file=sys.stderr,
        )
        return 1
    os.execvp("tierlog", ["tierlog", "serve", "--config", str(file)])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
