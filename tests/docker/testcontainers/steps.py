"""The variables and the lines of scripts that several libraries have in common."""

import re

BROKER = {
    "KAFKA_INTER_BROKER_LISTENER_NAME": "BROKER",
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
}
ONE_NODE = {
    **BROKER,
    "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "1",
    "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
    "KAFKA_LOG_FLUSH_INTERVAL_MESSAGES": "9223372036854775807",
    "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
}
TRANSACTIONS = {"KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1"}
PROTOCOLS = "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT"
CONTROLLER = {
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": f"{PROTOCOLS},CONTROLLER:PLAINTEXT",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9094",
}
KRAFT = {**CONTROLLER, "KAFKA_NODE_ID": "1"}
ON_ANY_HOST = "PLAINTEXT://0.0.0.0:9093,BROKER://0.0.0.0:9092"
CONTROLLER_TOO = f"{ON_ANY_HOST},CONTROLLER://0.0.0.0:9094"
WITHOUT_ROLES = {
    "KAFKA_LISTENERS": ON_ANY_HOST,
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": PROTOCOLS,
}
RUNNING = "Transitioning from RECOVERY to RUNNING"
STARTED = re.compile(r".*\[KafkaServer id=\d+\] started.*")
STARTER = "/tmp/testcontainers_start.sh"
"""Of Java and Node."""
NO_ZOOKEEPER = "sed -i '/KAFKA_ZOOKEEPER_CONNECT/d' /etc/confluent/docker/configure\n"
NO_CHECKS = "echo '' > /etc/confluent/docker/ensure \n"
RUN = "/etc/confluent/docker/run \n"


def waiting(script: str, then: str) -> str:
    """What waits for the script."""
    return f"while [ ! -f {script} ]; do sleep 0.1; done; {then}{script}"


def zookeeper(file: str) -> str:
    """What starts the ZooKeeper of Confluent's image, by a properties file."""
    return (
        f"echo 'clientPort=2181' > {file}\n"
        f"echo 'dataDir=/var/lib/zookeeper/data' >> {file}\n"
        f"echo 'dataLogDir=/var/lib/zookeeper/log' >> {file}\n"
        f"zookeeper-server-start {file} &\n"
    )


def add_format(cluster_id: str, more: str = "") -> str:
    """What is added to `configure`."""
    command = f"kafka-storage format --ignore-formatted -t {cluster_id} -c"
    properties = f"/etc/kafka/kafka.properties{more}"
    return f"echo '{command} {properties}' >> /etc/confluent/docker/configure\n"
