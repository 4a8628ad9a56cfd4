"""Records `tests/golden/protocol`: what real clients say to a real Kafka, and what it answers.

    python -m tierlog.tests.clients.protocol.record_golden

Starts Apache Kafka (needs Java and Maven), puts a recording proxy before it, and sends
confluent-kafka, kafka-python and Kafka's own tools through an everyday life: create a topic, write,
read in a group, look at everything, delete. Of each (API, version, direction, client) one frame is
kept, the longest that is not long. Nothing but the APIs that we serve is kept.
"""

import importlib.metadata
import json
import socket
import struct
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path

from tierlog.bench.harness.processes.kafka_peer import KafkaNode, run_tool
from tierlog.bench.harness.requests.probe import free_port
from tierlog.clients.protocol.api import SERVED, Api, ApiKey

from .golden import FOLDER, Golden

LONGEST = 1500
KAFKA = "java-4.3.1"
BETWEEN_BROKERS = {(ApiKey.ADD_PARTITIONS_TO_TXN, 5), (ApiKey.WRITE_TXN_MARKERS, 2)}
"""What the Kafka says to itself, through its advertised address."""
TOPIC = "golden"


class Recorder:
    """A proxy that forwards everything and keeps frames of some APIs."""

    def __init__(self, port: int, target_port: int, apis: Mapping[int, Api] = SERVED) -> None:
        self.client = "nobody"
        self.kept: dict[tuple[int, int, str, str], bytes] = {}
        self._target_port = target_port
        self._apis = apis
        self._listener = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            try:
                upstream = socket.create_connection(("127.0.0.1", self._target_port))
            except ConnectionRefusedError:
                # The node is down, and so is its proxy.
                connection.close()
                continue
            listening = Conversation(self.client, self.kept, self._apis)
            for source, target, note in (
                (connection, upstream, listening.request),
                (upstream, connection, listening.response),
            ):
                threading.Thread(target=_pump, args=(source, target, note), daemon=True).start()


class Conversation:
    """One connection: knows which request a response answers."""

    def __init__(
        self, client: str, kept: dict[tuple[int, int, str, str], bytes], apis: Mapping[int, Api]
    ) -> None:
        self._client = client
        self._kept = kept
        self._apis = apis
        self._asked: dict[int, tuple[int, int]] = {}

    def request(self, frame: bytes) -> None:
        key, version, correlation_id = struct.unpack_from(">hhi", frame)
        self._asked[correlation_id] = key, version
        self._keep(key, version, "request", frame)

    def response(self, frame: bytes) -> None:
        (correlation_id,) = struct.unpack_from(">i", frame)
        self._keep(*self._asked.pop(correlation_id), "response", frame)

    def _keep(self, key: int, version: int, direction: str, frame: bytes) -> None:
        api = self._apis.get(key)
        if api is None or not api.serves(version):
            return
        client = KAFKA if (key, version) in BETWEEN_BROKERS else self._client
        place = key, version, direction, client
        best = self._kept.get(place)
        if best is None or len(best) < len(frame) <= LONGEST or len(frame) < len(best) > LONGEST:
            self._kept[place] = frame


def _pump(source: socket.socket, target: socket.socket, note: Callable[[bytes], None]) -> None:
    try:
        with source.makefile("rb") as stream:
            while size := stream.read(4):
                frame = stream.read(struct.unpack(">i", size)[0])
                note(frame)
                target.sendall(size + frame)
    except OSError:
        print("a connection ended roughly", file=sys.stderr)
    finally:
        for side in (source, target):
            side.close()


def confluent_kafka(bootstrap: str) -> None:
    # Imported by name: their types are incomplete, and nothing here depends on them.
    client, admins = import_module("confluent_kafka"), import_module("confluent_kafka.admin")
    topic = f"{TOPIC}-librdkafka"
    server = {"bootstrap.servers": bootstrap}
    admin = admins.AdminClient(server)
    new_topic = admins.NewTopic(topic, 2, config={"segment.bytes": "1048576"})
    admin.create_topics([new_topic])[topic].result()
    admin.create_partitions([admins.NewPartitions(topic, 3)])[topic].result()
    producer = client.Producer({**server, "enable.idempotence": True})
    for number in range(6):
        producer.produce(topic, f"value-{number}".encode(), f"key-{number}".encode())
    producer.flush()
    reading = {**server, "auto.offset.reset": "earliest", "session.timeout.ms": 6000}
    for _ in range(2):
        consumer = client.Consumer(
            {**reading, "group.id": "golden-librdkafka", "group.instance.id": "one"}
        )
        consumer.subscribe([topic])
        deadline = time.monotonic() + 8
        while time.monotonic() < deadline:
            if consumer.poll(0.2) is not None:
                consumer.commit(asynchronous=False)
        consumer.committed([client.TopicPartition(topic, 0)])
        consumer.close()
    newer = {"group.protocol": "consumer", "auto.offset.reset": "earliest"}
    for topics in ([topic], [f"^{topic}"]):
        consumer = client.Consumer({**server, **newer, "group.id": "golden-consumers"})
        consumer.subscribe(topics)
        deadline = time.monotonic() + 8
        while time.monotonic() < deadline:
            consumer.poll(0.2)
        consumer.close()
    _transactions(bootstrap, topic)
    leaver = client.Consumer({**reading, "group.id": "golden-leaver"})
    leaver.subscribe([topic])
    leaver.poll(5)
    leaver.close()
    resource = admins.ConfigResource(admins.ResourceType.TOPIC, topic)
    admin.describe_configs([resource])[resource].result()
    changed = admins.ConfigResource(
        admins.ResourceType.TOPIC, topic, set_config={"segment.bytes": "2097152"}
    )
    admin.alter_configs([changed])[changed].result()
    partition = client.TopicPartition(topic, 0)
    admin.list_offsets({partition: admins.OffsetSpec.latest()})[partition].result()
    admin.describe_cluster().result()
    _entry(bootstrap)
    admin.list_consumer_groups().result()
    admin.describe_consumer_groups(["golden-librdkafka"])["golden-librdkafka"].result()
    admin.delete_consumer_groups(["golden-leaver"])["golden-leaver"].result()
    admin.delete_topics([topic])[topic].result()


def _entry(bootstrap: str) -> None:
    """An access control entry, which a broker without an authorizer refuses."""
    admins = import_module("confluent_kafka.admin")
    admin = admins.AdminClient({"bootstrap.servers": bootstrap})
    entry = admins.AclBinding(
        admins.ResourceType.TOPIC,
        TOPIC,
        admins.ResourcePatternType.LITERAL,
        "User:golden",
        "*",
        admins.AclOperation.READ,
        admins.AclPermissionType.ALLOW,
    )
    refusal = admin.create_acls([entry])[entry].exception()
    assert refusal is not None


def _transactions(bootstrap: str, topic: str) -> None:
    """One transaction with offsets that is committed, one that is aborted."""
    client = import_module("confluent_kafka")
    server = {"bootstrap.servers": bootstrap}
    producer = client.Producer({**server, "transactional.id": "golden-librdkafka"})
    consumer = client.Consumer({**server, "group.id": "golden-transactions"})
    producer.init_transactions(30)
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        producer.produce(topic, b"in a transaction")
        offsets = [client.TopicPartition(topic, 0, 1)]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
        end(30)
    consumer.close()


def kafka_python(bootstrap: str) -> None:
    warnings.simplefilter("ignore")
    client, admins = import_module("kafka"), import_module("kafka.admin")
    topic = f"{TOPIC}-kafka-python"
    partition = client.TopicPartition(topic, 0)
    admin = admins.KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics([admins.NewTopic(topic, 2, 1)])
    producer = client.KafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True)
    for number in range(6):
        producer.send(topic, f"value-{number}".encode(), key=f"key-{number}".encode())
    producer.flush()
    for _ in range(2):
        consumer = client.KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id="golden-kafka-python",
            auto_offset_reset="earliest",
            consumer_timeout_ms=6000,
        )
        for _message in consumer:
            consumer.commit()
        consumer.committed(partition)
        consumer.end_offsets([partition])
        consumer.close()
    admin.describe_configs([admins.ConfigResource(admins.ConfigResourceType.TOPIC, topic)])
    admin.describe_cluster()
    admin.describe_topics([topic])
    admin.list_groups()
    admin.describe_groups(["golden-kafka-python"])
    admin.delete_groups(["golden-kafka-python"])
    admin.delete_topics([topic])


def java_tools(bootstrap: str) -> None:
    topic = f"{TOPIC}-java"
    server = ("--bootstrap-server", bootstrap)
    run_tool(
        "kafka-topics",
        *server,
        "--create",
        "--topic",
        topic,
        "--partitions",
        "2",
        "--config",
        "segment.bytes=1048576",
    )
    run_tool("kafka-topics", *server, "--alter", "--topic", topic, "--partitions", "3")
    run_tool("kafka-topics", *server, "--describe", "--topic", topic)
    run_tool(
        "kafka-console-producer",
        *server,
        "--topic",
        topic,
        stdin="".join(f"value-{number}\n" for number in range(6)),
    )
    for _ in range(2):
        run_tool(
            "kafka-console-consumer",
            *server,
            "--topic",
            topic,
            "--group",
            "golden-java",
            "--from-beginning",
            "--timeout-ms",
            "6000",
            check=False,
        )
        run_tool("kafka-console-producer", *server, "--topic", topic, stdin="one more\n")
    run_tool(
        "kafka-configs",
        *server,
        "--describe",
        "--entity-type",
        "topics",
        "--entity-name",
        topic,
        "--all",
    )
    run_tool("kafka-get-offsets", *server, "--topic", topic)
    groups = ("kafka-consumer-groups", *server)
    group = ("--group", "golden-java")
    run_tool(*groups, "--list", "--state", "stable,empty", "--type", "classic")
    run_tool(*groups, "--describe", *group)
    run_tool(*groups, "--delete-offsets", *group, "--topic", topic)
    run_tool(*groups, "--delete", *group)
    java_consumer_group(server, topic)
    run_tool("kafka-cluster", "list-endpoints", *server, check=False)
    java_partition_tools(server, topic)
    java_config_tools(server, topic)
    java_acl_tool(server, topic)
    run_tool("kafka-topics", *server, "--delete", "--topic", topic)


def java_consumer_group(server: tuple[str, str], topic: str) -> None:
    """A group of the consumer protocol."""
    group = ("--group", "golden-java-consumers")
    reading = ("kafka-console-consumer", *server, "--topic", topic, *group, "--from-beginning")
    protocol = ("--command-property", "group.protocol=consumer")
    run_tool(*reading, *protocol, "--timeout-ms", "6000", check=False)
    run_tool("kafka-consumer-groups", *server, "--describe", *group, "--members", "--verbose")


def java_partition_tools(server: tuple[str, str], topic: str) -> None:
    """What admins do with partitions: from moving to asking who writes."""
    partition = ("--topic", topic, "--partition", "0")
    asked = json.dumps({"topic": topic, "partition": 0, "offset": 1, "replicas": [1]})
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "asked.json"
        file.write_text(f'{{"version": 1, "partitions": [{asked}]}}')
        run_tool("kafka-delete-records", *server, "--offset-json-file", str(file))
        moving = ("kafka-reassign-partitions", *server)
        run_tool(*moving, "--reassignment-json-file", str(file), "--execute")
        run_tool(*moving, "--list")
        elsewhere = json.dumps({**json.loads(asked), "log_dirs": ["/nowhere"]})
        file.write_text(f'{{"version": 1, "partitions": [{elsewhere}]}}')
        run_tool(*moving, "--reassignment-json-file", str(file), "--execute", check=False)
    run_tool("kafka-log-dirs", *server, "--describe")
    run_tool("kafka-leader-election", *server, "--election-type", "preferred", *partition)
    run_tool("kafka-metadata-quorum", *server, "describe", "--status")
    run_tool("kafka-transactions", *server, "describe-producers", *partition)
    java_transactions(server, topic)
    run_tool("kafka-cluster", "unregister", *server, "--id", "77", check=False)


def java_transactions(server: tuple[str, str], topic: str) -> None:
    """A transactional producer, and who looks after it."""
    producing = ("--topic", topic, "--num-records", "5", "--record-size", "10")
    how = ("--throughput", "-1", "--transactional-id", "golden-java")
    run_tool("kafka-producer-perf-test", *server, *producing, *how)
    transactions = ("kafka-transactions", *server)
    run_tool(*transactions, "list")
    run_tool(*transactions, "describe", "--transactional-id", "golden-java")
    partition = ("--topic", topic, "--partition", "0")
    marker = ("--producer-id", "77", "--producer-epoch", "0", "--coordinator-epoch", "0")
    run_tool(*transactions, "abort", *partition, *marker)


def java_config_tools(server: tuple[str, str], topic: str) -> None:
    """What admins set: configurations, quotas, features."""
    configs = ("kafka-configs", *server)
    entity = ("--entity-type", "topics", "--entity-name", topic)
    run_tool(*configs, "--alter", *entity, "--add-config", "retention.ms=86400000")
    clients = ("--entity-type", "clients", "--entity-name", "golden")
    run_tool(*configs, "--alter", *clients, "--add-config", "producer_byte_rate=1048576")
    run_tool(*configs, "--describe", *clients)
    run_tool("kafka-client-metrics", *server, "--list")
    upgrade = ("upgrade", "--feature", "group.version=1", "--dry-run")
    run_tool("kafka-features", *server, *upgrade, check=False)


def java_acl_tool(server: tuple[str, str], topic: str) -> None:
    """What admins ask of a broker without an authorizer, in vain."""
    entry = ("--allow-principal", "User:golden", "--operation", "read", "--topic", topic)
    for asked in (("--list",), ("--add", *entry), ("--remove", "--force", *entry)):
        run_tool("kafka-acls", *server, *asked, check=False)


CLIENTS = {
    f"confluent-kafka-{importlib.metadata.version('confluent-kafka')}": confluent_kafka,
    f"kafka-python-{importlib.metadata.version('kafka-python')}": kafka_python,
    KAFKA: java_tools,
}


def record() -> None:
    proxy_port, port = free_port(), free_port()
    recorder = Recorder(proxy_port, port)
    advertised = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy_port}"}
    with tempfile.TemporaryDirectory() as directory:
        node = KafkaNode(Path(directory), properties=advertised, port=port, heap="400m")
        with node:
            for name, live in CLIENTS.items():
                recorder.client = name
                live(f"127.0.0.1:{proxy_port}")
    FOLDER.mkdir(parents=True, exist_ok=True)
    for (key, version, direction, client), frame in sorted(recorder.kept.items()):
        Golden(key, version, direction == "request", client, frame).write()


if __name__ == "__main__":
    record()
