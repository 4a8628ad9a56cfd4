"""What each library of Testcontainers does with an image of Kafka: its interface, word for word.

A library starts a container whose command waits for a script, copies the script into it once it
knows the published port, and waits for a line of the log. Each library names its own image, and so
the entry points of that image. Read in July to November 2026 in the libraries' sources, which the
column `source` names.

In the script, `{host}` and `{port}` are where clients reach the container, `{own}` is its name in
its own network.
"""

import re
from dataclasses import dataclass

_BROKER = {
    "KAFKA_INTER_BROKER_LISTENER_NAME": "BROKER",
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
}
_ONE_NODE = {
    **_BROKER,
    "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "1",
    "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
    "KAFKA_LOG_FLUSH_INTERVAL_MESSAGES": "9223372036854775807",
    "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
}
_PROTOCOLS = "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT"
_CONTROLLER = {
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": f"{_PROTOCOLS},CONTROLLER:PLAINTEXT",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
}
_VOTERS = {"KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9094"}
_ON_ANY_HOST = "PLAINTEXT://0.0.0.0:9093,BROKER://0.0.0.0:9092"
_RUNNING = "Transitioning from RECOVERY to RUNNING"
ALIAS = "broker"
"""The container's alias in a network."""
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
PYTHONS_CLUSTER_ID = "q1Sh+9cIRJq/sEBQ8vmkzg=="
"""Of 16 random bytes in the usual Base64, not in Kafka's."""


@dataclass(frozen=True, slots=True)
class Library:
    """One way in which a library starts a broker."""

    name: str
    source: str
    environment: dict[str, str]
    command: tuple[str, ...]
    script_path: str
    script: str
    awaited: re.Pattern[str]
    port: int = 9092
    """The port of the container that is published for clients."""
    cluster_id: str | None = CLUSTER_ID
    other_port: int | None = None
    """Another port that must accept connections before the library goes on."""


def script_of(library: Library, host: str, port: int, own: str) -> str:
    """The script that the library copies into the container."""
    places = {"{host}": host, "{port}": str(port), "{own}": own}
    return re.sub(r"\{(?:host|port|own)\}", lambda match: places[match[0]], library.script)


def _waiting(script: str, then: str) -> str:
    return f"while [ ! -f {script} ]; do sleep 0.1; done; {then}{script}"


_JAVA = "/tmp/testcontainers_start.sh"
_PYTHON = "/tc-start.sh"
_GO = "/usr/sbin/testcontainers_start.sh"
_NODE = "/testcontainers_start.sh"
_DOTNET = "/testcontainers.sh"
_RUST = "/opt/kafka/testcontainers_start.sh"
_ZOOKEEPER = (
    "echo 'clientPort=2181' > zookeeper.properties\n"
    "echo 'dataDir=/var/lib/zookeeper/data' >> zookeeper.properties\n"
    "echo 'dataLogDir=/var/lib/zookeeper/log' >> zookeeper.properties\n"
    "zookeeper-server-start zookeeper.properties &\n"
)
_FORMAT = "kafka-storage format --ignore-formatted -t {id} -c /etc/kafka/kafka.properties"
_NO_ZOOKEEPER = "sed -i '/KAFKA_ZOOKEEPER_CONNECT/d' /etc/confluent/docker/configure\n"
_PYTHONS_START = (
    "export KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://{host}:{port},BROKER://$(hostname -i):9092\n"
    ". /etc/confluent/docker/bash-config\n"
    "/etc/confluent/docker/configure\n"
    "/etc/confluent/docker/launch"
)
_PYTHON_ENVIRONMENT = {
    **_BROKER,
    "KAFKA_LISTENERS": _ON_ANY_HOST,
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": _PROTOCOLS,
    "KAFKA_BROKER_ID": "1",
    "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "1",
    "KAFKA_LOG_FLUSH_INTERVAL_MESSAGES": "10000000",
    "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
}
_NODE_ENVIRONMENT = {
    **_ONE_NODE,
    "KAFKA_LISTENERS": _ON_ANY_HOST,
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": _PROTOCOLS,
    "KAFKA_BROKER_ID": "1",
    "KAFKA_CONFLUENT_SUPPORT_METRICS_ENABLE": "false",
    "KAFKA_ADVERTISED_LISTENERS": "BROKER://localhost:9092",
}
_NODES_COMMAND = ("sh", "-c", f"echo 'Waiting for script...'; {_waiting(_NODE, '')}")
_NODES_LISTENERS = (
    "export KAFKA_ADVERTISED_LISTENERS=BROKER://{own}:9092,PLAINTEXT://{host}:{port}\n"
)
_JAVA_ENVIRONMENT = {
    **_ONE_NODE,
    **_CONTROLLER,
    "CLUSTER_ID": CLUSTER_ID,
    "KAFKA_LISTENERS": "PLAINTEXT://:9092,BROKER://:9093,CONTROLLER://:9094",
    "KAFKA_NODE_ID": "1",
    "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
}
_JAVAS_LISTENERS = (
    "#!/bin/bash\nexport KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://{host}:{port},BROKER://{own}:9093\n"
)

LIBRARIES = (
    Library(
        "Java, KafkaContainer",
        "testcontainers-java modules/kafka/…/org/testcontainers/kafka/KafkaContainer.java",
        _JAVA_ENVIRONMENT,
        ("sh", "-c", _waiting(_JAVA, "")),
        _JAVA,
        _JAVAS_LISTENERS + "/etc/kafka/docker/run \n",
        re.compile(_RUNNING),
    ),
    Library(
        "Java, KafkaContainer.withListener",
        "the same, and KafkaHelper.java beside it",
        {
            **_JAVA_ENVIRONMENT,
            "KAFKA_LISTENERS": (
                f"TC-0://{ALIAS}:19092,PLAINTEXT://:9092,BROKER://:9093,CONTROLLER://:9094"
            ),
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": (
                f"TC-0:PLAINTEXT,{_PROTOCOLS},CONTROLLER:PLAINTEXT"
            ),
        },
        ("sh", "-c", _waiting(_JAVA, "")),
        _JAVA,
        _JAVAS_LISTENERS.replace(
            "BROKER://{own}:9093", f"BROKER://{{own}}:9093,TC-0://{ALIAS}:19092"
        )
        + "/etc/kafka/docker/run \n",
        re.compile(_RUNNING),
    ),
    Library(
        "Java, ConfluentKafkaContainer",
        "testcontainers-java modules/kafka/…/kafka/ConfluentKafkaContainer.java",
        _JAVA_ENVIRONMENT,
        ("sh", "-c", _waiting(_JAVA, "")),
        _JAVA,
        _JAVAS_LISTENERS + "/etc/confluent/docker/run \n",
        re.compile(_RUNNING),
    ),
    Library(
        ".NET, an image whose name contains apache",
        "testcontainers-dotnet src/Testcontainers.Kafka/{KafkaBuilder,ApacheConfiguration}.cs",
        {**_JAVA_ENVIRONMENT, **_VOTERS, "KAFKA_BROKER_ID": "1"},
        ("/bin/sh", "-c", _waiting(_DOTNET, "")),
        _DOTNET,
        "#!/bin/bash\n"
        "export KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://{host}:{port},BROKER://{own}:9093,\n"
        "exec /etc/kafka/docker/run\n",
        re.compile(_RUNNING),
    ),
    Library(
        "Rust, apache",
        "testcontainers-rs-modules-community src/kafka/apache.rs",
        {
            **_BROKER,
            **_CONTROLLER,
            **_VOTERS,
            "KAFKA_LISTENERS": (
                "PLAINTEXT://0.0.0.0:9092,BROKER://0.0.0.0:9093,CONTROLLER://0.0.0.0:9094"
            ),
            "CLUSTER_ID": "5L6g3nShT-eMCtK--X86sw",
            "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:9092,BROKER://localhost:9092",
            "KAFKA_BROKER_ID": "1",
        },
        ("bash", "-c", _waiting(_RUST, f"chmod 755 {_RUST} && ")),
        _RUST,
        "#!/usr/bin/env bash\n"
        "export KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://{host}:{port},BROKER://localhost:9093\n"
        "/etc/kafka/docker/run \n",
        re.compile("Kafka Server started"),
        cluster_id="5L6g3nShT-eMCtK--X86sw",
    ),
    Library(
        "Python",
        "testcontainers-python modules/kafka/testcontainers/kafka/__init__.py",
        _PYTHON_ENVIRONMENT,
        ("sh", "-c", _waiting(_PYTHON, "sh ")),
        _PYTHON,
        f"#!/bin/bash\n{_ZOOKEEPER}export KAFKA_ZOOKEEPER_CONNECT='localhost:2181'\n"
        + _PYTHONS_START,
        re.compile(r".*\[KafkaServer id=\d+\] started.*"),
        port=9093,
        cluster_id=None,
    ),
    Library(
        "Python, with_kraft()",
        "the same",
        {
            **_PYTHON_ENVIRONMENT,
            **_CONTROLLER,
            **_VOTERS,
            "CLUSTER_ID": PYTHONS_CLUSTER_ID,
            "KAFKA_NODE_ID": "1",
            "KAFKA_LISTENERS": f"{_ON_ANY_HOST},CONTROLLER://0.0.0.0:9094",
        },
        ("sh", "-c", _waiting(_PYTHON, "sh ")),
        _PYTHON,
        f"#!/bin/bash\n{_NO_ZOOKEEPER}"
        f"echo '{_FORMAT.format(id=PYTHONS_CLUSTER_ID)}' >> /etc/confluent/docker/configure\n"
        + _PYTHONS_START,
        re.compile(r".*Kafka Server started.*"),
        port=9093,
        cluster_id=PYTHONS_CLUSTER_ID,
    ),
    Library(
        "Go",
        "testcontainers-go modules/kafka/kafka.go",
        {
            **_ONE_NODE,
            **_CONTROLLER,
            **_VOTERS,
            "KAFKA_LISTENERS": f"{_ON_ANY_HOST},CONTROLLER://0.0.0.0:9094",
            "KAFKA_REST_BOOTSTRAP_SERVERS": f"{_ON_ANY_HOST},CONTROLLER://0.0.0.0:9094",
            "KAFKA_BROKER_ID": "1",
            "KAFKA_NODE_ID": "1",
            "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
        },
        ("sh", "-c", _waiting(_GO, "bash ")),
        _GO,
        "#!/bin/bash\n"
        "source /etc/confluent/docker/bash-config\n"
        'export KAFKA_ADVERTISED_LISTENERS="PLAINTEXT://{host}:{port},BROKER://{own}:9092'
        '${EXTRA_ADVERTISED_LISTENERS:+,${EXTRA_ADVERTISED_LISTENERS}}"\n'
        "echo Starting Kafka KRaft mode\n"
        + _NO_ZOOKEEPER
        + "echo '"
        + _FORMAT.format(id='"$(kafka-storage random-uuid)"')
        + "' >> /etc/confluent/docker/configure\n"
        "echo '' > /etc/confluent/docker/ensure\n"
        "/etc/confluent/docker/configure\n"
        "/etc/confluent/docker/launch",
        re.compile(f".*{_RUNNING}.*"),
        port=9093,
        cluster_id=None,
    ),
    Library(
        "Node",
        "testcontainers-node packages/modules/kafka/src/kafka-container.ts",
        {**_NODE_ENVIRONMENT, "KAFKA_ZOOKEEPER_CONNECT": "localhost:2181"},
        _NODES_COMMAND,
        _NODE,
        f"#!/bin/bash\n{_NODES_LISTENERS}"
        f"echo '' > /etc/confluent/docker/ensure \n{_ZOOKEEPER}/etc/confluent/docker/run \n",
        re.compile(""),
        port=9093,
        cluster_id=None,
        other_port=2181,
    ),
    Library(
        "Node, withKraft()",
        "the same",
        {
            **_NODE_ENVIRONMENT,
            **_CONTROLLER,
            "CLUSTER_ID": CLUSTER_ID,
            "KAFKA_NODE_ID": "1",
            "KAFKA_LISTENERS": f"{_ON_ANY_HOST},CONTROLLER://0.0.0.0:9094",
            "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9094",
        },
        _NODES_COMMAND,
        _NODE,
        f"#!/bin/bash\n{_NODES_LISTENERS}/etc/confluent/docker/run \n",
        re.compile(""),
        port=9093,
    ),
)

KAFKAS_COMPOSE_FILE = {
    "KAFKA_NODE_ID": "1",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": (
        "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT"
    ),
    "KAFKA_ADVERTISED_LISTENERS": ("PLAINTEXT_HOST://localhost:9092,PLAINTEXT://broker:19092"),
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@broker:29093",
    "KAFKA_LISTENERS": "CONTROLLER://:29093,PLAINTEXT_HOST://:9092,PLAINTEXT://:19092",
    "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "CLUSTER_ID": CLUSTER_ID,
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
    "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
    "KAFKA_SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR": "1",
    "KAFKA_LOG_DIRS": "/tmp/kraft-combined-logs",
}
"""Of `docker/examples/docker-compose-files/single-node/plaintext` of Apache Kafka."""
