"""Every way in which a library of Testcontainers starts a broker, and Kafka's own compose file.

`source` of a way names the file of the library's source. Those of a `module` are compared with the
newest published ones (`test_published.py`), the others were read in July to November 2026.
"""

from tierlog.tests.docker.testcontainers.go import GO_WAYS
from tierlog.tests.docker.testcontainers.java import JAVA_WAYS
from tierlog.tests.docker.testcontainers.library import CLUSTER_ID
from tierlog.tests.docker.testcontainers.node import NODE_WAYS
from tierlog.tests.docker.testcontainers.others import OTHER_WAYS
from tierlog.tests.docker.testcontainers.python import PYTHON_WAYS

LIBRARIES = (*JAVA_WAYS, *PYTHON_WAYS, *GO_WAYS, *NODE_WAYS, *OTHER_WAYS)

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
