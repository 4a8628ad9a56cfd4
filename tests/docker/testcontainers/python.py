"""The ways of Testcontainers for Python."""

import re

from tierlog.tests.docker.testcontainers.library import Library
from tierlog.tests.docker.testcontainers.steps import (
    BROKER,
    CONTROLLER_TOO,
    KRAFT,
    NO_ZOOKEEPER,
    STARTED,
    WITHOUT_ROLES,
    add_format,
    waiting,
    zookeeper,
)

_PYTHON = "/tc-start.sh"
_PYTHONS_CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qk"
_PYTHONS_START = (
    "export KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://{host}:{9093},BROKER://$(hostname -i):9092\n"
    ". /etc/confluent/docker/bash-config\n"
    "/etc/confluent/docker/configure\n"
    "/etc/confluent/docker/launch"
)
_PYTHON_ENVIRONMENT = {
    **BROKER,
    "KAFKA_BROKER_ID": "1",
    "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "1",
    "KAFKA_LOG_FLUSH_INTERVAL_MESSAGES": "10000000",
    "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
}
PYTHON_WAYS = (
    Library(
        "Python",
        "testcontainers-python testcontainers/community/kafka/__init__.py",
        {**_PYTHON_ENVIRONMENT, **WITHOUT_ROLES},
        ("sh", "-c", waiting(_PYTHON, "sh ")),
        _PYTHON,
        f"#!/bin/bash\n{zookeeper('zookeeper.properties')}"
        "export KAFKA_ZOOKEEPER_CONNECT='localhost:2181'\n" + _PYTHONS_START,
        STARTED,
        module="python",
        port=9093,
        cluster_id=None,
    ),
    Library(
        "Python, with_kraft()",
        "the same",
        {
            **_PYTHON_ENVIRONMENT,
            **KRAFT,
            "CLUSTER_ID": _PYTHONS_CLUSTER_ID,
            "KAFKA_LISTENERS": CONTROLLER_TOO,
        },
        ("sh", "-c", waiting(_PYTHON, "sh ")),
        _PYTHON,
        f"#!/bin/bash\n{NO_ZOOKEEPER}{add_format(_PYTHONS_CLUSTER_ID)}{_PYTHONS_START}",
        re.compile(r".*Kafka Server started.*"),
        module="python",
        port=9093,
        cluster_id=_PYTHONS_CLUSTER_ID,
    ),
)
