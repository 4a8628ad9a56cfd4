"""What the image makes of its environment variables: the properties of a node, and its cluster id.

Two images have variables that begin with `KAFKA_`, and each has a rule of its own for the rest of
the name. Which rule holds follows from the entry point:

| variable | `/etc/kafka/docker` (apache/kafka) | `/etc/confluent/docker` (cp-kafka) |
|---|---|---|
| `_` | `.` | `.` |
| `__` | `_` | `-` |
| `___` | `-` | `_` |

So `KAFKA_NODE_ID=1` is `node.id=1` in both. The rules were read in `KafkaDockerWrapper` of Apache
Kafka 4.3.1, and in `dub` of Confluent's images.
"""

import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

from tierlog.broker.metrics.loggers import stated_levels
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
"""What Apache Kafka's image reads for its JVM and its logger: none is a property."""

NOT_PROPERTIES_OF_CONFLUENT = NOT_PROPERTIES | {
    f"{PREFIX}{name}"
    for name in ("ZOOKEEPER_CONNECT", "REST_BOOTSTRAP_SERVERS", "CONFLUENT_SUPPORT_METRICS_ENABLE")
}
"""Testcontainers states these for programs of Confluent's images that tierlog does not have."""

ROOT_LEVEL = f"{PREFIX}LOG4J_ROOT_LOGLEVEL"
LOGGER_LEVELS = f"{PREFIX}LOG4J_LOGGERS"

CLUSTER_ID = "CLUSTER_ID"
"""The id with which new directories are formatted."""
DATA_DIR = "TIERLOG_DATA_DIR"
METRICS_PORT = "9404"
NameRule: TypeAlias = Callable[[str], str | None]
"""The property that a variable states; None if it states none."""
_NAME = re.compile(r"[a-z0-9._-]+")
_ANY_HOST = "0.0.0.0"
_UNDERSCORES = re.compile(r"(?<=[^_])_{1,3}(?=[^_])")
_CONFLUENT_UNDERSCORES = {"_": ".", "__": "-", "___": "_"}


class StartRefusedError(Exception):
    """One message: what is wrong, and what to do."""


def property_name(variable: str) -> str | None:
    """A `NameRule`: that of Apache Kafka's image."""
    if not variable.startswith(PREFIX) or variable in NOT_PROPERTIES:
        return None
    name = variable.removeprefix(PREFIX).lower()
    return name.replace("_", ".").replace("...", "-").replace("..", "_") or None


def property_name_of_confluent(variable: str) -> str | None:
    """A `NameRule`: that of Confluent's images. More than three underscores stay as they are."""
    if not variable.startswith(PREFIX) or variable in NOT_PROPERTIES_OF_CONFLUENT:
        return None
    name = variable.removeprefix(PREFIX).lower()
    return _UNDERSCORES.sub(lambda match: _CONFLUENT_UNDERSCORES[match[0]], name) or None


def stated_properties(
    environment: Mapping[str, str], rule: NameRule = property_name
) -> dict[str, str]:
    """The properties that variables state, by name. Raises StartRefusedError."""
    stated: dict[str, str] = {}
    for variable in sorted(environment):
        name = rule(variable)
        value = environment[variable]
        if name == "advertised.listeners":
            # Testcontainers for .NET ends its list with a comma.
            value = value.removesuffix(",")
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
        each = advertised.split(",")
        # Where a port is missing, tierlog says so of the listener that was written.
        if all(address.rpartition(":")[2].strip().isdecimal() for address in each):
            defaults["listeners"] = ",".join(map(_on_any_host, each))
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


def planned_properties(
    environment: Mapping[str, str],
    mounted: str,
    directories: Mapping[str, str | None],
    rule: NameRule = property_name,
) -> str:
    """The text of the properties file, for directories with which the node can start.

    `mounted` is the text of the mounted file. `directories` are the log directories, each with the
    text of its `meta.properties`, or None if it is new. Raises StartRefusedError.
    """
    variables = stated_properties(environment, rule)
    stated = {**parse_properties(mounted), **variables}
    added = {**default_properties(stated, environment.get(DATA_DIR, "")), **variables}
    lines = [f"{name}={value}\n" for name, value in added.items()]
    # The empty line ends the file's last line even if it ends with a backslash.
    text = (mounted.rstrip("\n") + "\n\n" if mounted else "") + "".join(lines)
    cluster_id = environment.get(CLUSTER_ID, "")
    for directory, meta in directories.items():
        owner = parse_properties(meta or "").get("cluster.id", "")
        if cluster_id and owner and owner != cluster_id:
            raise StartRefusedError(
                f"{directory} belongs to the cluster {owner}, and CLUSTER_ID is {cluster_id}: set"
                f" CLUSTER_ID={owner}, or give this node an empty volume."
            )
    if None in directories.values() and not cluster_id and _is_member(stated):
        raise StartRefusedError(
            "CLUSTER_ID is not set: give all nodes of the cluster the same id, which"
            " `tierlog random-uuid` prints."
        )
    return text


def _roles(properties: Mapping[str, str]) -> set[str]:
    return {role.strip() for role in properties.get("process.roles", "").split(",")} - {""}


def _is_member(stated: Mapping[str, str]) -> bool:
    """Whether the node is one of several of its cluster, and so may not make up a cluster id."""
    roles = _roles(stated)
    voters = [part for part in stated.get("controller.quorum.voters", "").split(",") if part]
    return (
        len(roles) == 1
        or len(voters) > 1
        or bool(stated.get("controller.quorum.bootstrap.servers"))
    )


def log_directories(
    environment: Mapping[str, str], mounted: str, rule: NameRule = property_name
) -> list[str]:
    """Where the node keeps its logs."""
    stated = {**parse_properties(mounted), **stated_properties(environment, rule)}
    return named_directories(stated) or named_directories(
        {"log.dirs": environment.get(DATA_DIR, "")}
    )


def named_directories(properties: Mapping[str, str]) -> list[str]:
    """The log directories that properties name."""
    named = properties.get("log.dirs") or properties.get("log.dir") or ""
    return [part.strip() for part in named.split(",") if part.strip()]


def log_level_options(environment: Mapping[str, str]) -> list[str]:
    """The options of `tierlog serve` for the levels that variables of Kafka's images state.

    One has a level, the other `logger=level,…`: a name is that of a logger of tierlog, and others
    have no effect. Raises StartRefusedError.
    """
    root = environment.get(ROOT_LEVEL, "").strip()
    if "=" in root:
        raise StartRefusedError(f"{ROOT_LEVEL} is {root!r}: {LOGGER_LEVELS} has levels of loggers.")
    entries = [part.strip() for part in environment.get(LOGGER_LEVELS, "").split(",")]
    loggers = [entry for entry in entries if entry]
    for text in loggers:
        if "=" not in text:
            raise StartRefusedError(f"{LOGGER_LEVELS}: {text!r} names no logger: LOGGER=LEVEL.")
    stated = [(ROOT_LEVEL, root)] * bool(root) + [(LOGGER_LEVELS, logger) for logger in loggers]
    for variable, text in stated:
        try:
            stated_levels([text])
        except KafkaError as error:
            raise StartRefusedError(f"{variable}: {error.message}") from None
    return [f"--log-level={text}" for _, text in stated]


def lines_when_ready(properties: Mapping[str, str]) -> list[str]:
    """What Kafka's own images print once they accept clients, for who waits for it.

    Testcontainers waits for these lines: for the second of a node with roles in Java, Go and .NET,
    for the first in Python and Rust, and for the only one of a node without roles in Python.
    """
    node = properties.get("node.id") or properties.get("broker.id") or "1"
    roles = _roles(properties)
    if not roles:
        return [f"[KafkaServer id={node}] started"]
    started = f"[KafkaRaftServer nodeId={node}] Kafka Server started"
    unfenced = "The broker has been unfenced. Transitioning from RECOVERY to RUNNING."
    broker = [f"[BrokerLifecycleManager id={node}] {unfenced}"] if "broker" in roles else []
    return [started, *broker]
