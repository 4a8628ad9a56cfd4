"""The way of Testcontainers for Go."""

import re

from tierlog.tests.docker.testcontainers.library import Library
from tierlog.tests.docker.testcontainers.steps import (
    CONTROLLER_TOO,
    KRAFT,
    NO_ZOOKEEPER,
    ONE_NODE,
    RUNNING,
    TRANSACTIONS,
    add_format,
    waiting,
)

_GO = "/usr/sbin/testcontainers_start.sh"
_ENVIRONMENT = {
    **ONE_NODE,
    **TRANSACTIONS,
    **KRAFT,
    "KAFKA_LISTENERS": CONTROLLER_TOO,
    "KAFKA_REST_BOOTSTRAP_SERVERS": CONTROLLER_TOO,
    "KAFKA_BROKER_ID": "1",
}
_SCRIPT = (
    "#!/bin/bash\n"
    "source /etc/confluent/docker/bash-config\n"
    "export KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://{host}:{9093},BROKER://{own}:9092\n"
    "echo Starting Kafka KRaft mode\n"
    + NO_ZOOKEEPER
    + add_format('"$(kafka-storage random-uuid)"')
    + "echo '' > /etc/confluent/docker/ensure\n"
    "/etc/confluent/docker/configure\n"
    "/etc/confluent/docker/launch"
)
GO_WAYS = tuple(
    Library(
        name,
        "testcontainers-go modules/kafka/kafka.go",
        {**_ENVIRONMENT, **more},
        ("sh", "-c", waiting(_GO, "bash ")),
        _GO,
        _SCRIPT,
        re.compile(f".*{RUNNING}.*"),
        module="go",
        port=9093,
        cluster_id=None,
    )
    for name, more in (
        ("Go", {}),
        # What formats draws an id all the same.
        ("Go, WithClusterID", {"CLUSTER_ID": "test-cluster"}),
    )
)
