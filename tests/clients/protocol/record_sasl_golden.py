"""Records what real clients say to log in to a real Kafka, and how they set SCRAM credentials.

    python -m tierlog.tests.clients.protocol.record_sasl_golden

Like `record_golden.py`, with a SASL_PLAINTEXT listener behind the proxy. The passwords are of no
other use.
"""

import tempfile
from importlib import import_module
from pathlib import Path

from tierlog.bench.harness.processes.kafka_peer import KafkaNode, run_tool
from tierlog.bench.harness.requests.probe import free_port
from tierlog.clients.protocol.api import APIS, Api, ApiKey

from .golden import Golden
from .record_golden import CLIENTS, KAFKA, Recorder

SASL_APIS: dict[int, Api] = {
    key: APIS[key]
    for key in (
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    )
}
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


def server_properties(port: int, plaintext_port: int, proxy_port: int) -> dict[str, str]:
    controller_port = free_port()
    return {
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "listeners": (
            f"PLAINTEXT://127.0.0.1:{plaintext_port},SASL://127.0.0.1:{port},"
            f"CONTROLLER://127.0.0.1:{controller_port}"
        ),
        "advertised.listeners": (
            f"PLAINTEXT://127.0.0.1:{plaintext_port},SASL://127.0.0.1:{proxy_port}"
        ),
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"
        ),
        "listener.name.sasl.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "listener.name.sasl.plain.sasl.jaas.config": f'{MODULE} required user_golden="golden";',
        "listener.name.sasl.scram-sha-256.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
    }


def librdkafka(bootstrap: str, mechanism: str) -> None:
    admins = import_module("confluent_kafka.admin")
    login = {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": "golden",
        "sasl.password": "golden",
    }
    admin = admins.AdminClient(login)
    kind = admins.ScramMechanism.SCRAM_SHA_256
    info = admins.ScramCredentialInfo(kind, 4096)
    for change in (
        admins.UserScramCredentialUpsertion("golden", info, b"golden"),
        admins.UserScramCredentialUpsertion("other", info, b"golden"),
        admins.UserScramCredentialDeletion("other", kind),
    ):
        for future in admin.alter_user_scram_credentials([change]).values():
            future.result()
    admin.describe_user_scram_credentials(["golden"])["golden"].result()


def kafka_python(bootstrap: str) -> None:
    kafka = import_module("kafka")
    admin = kafka.KafkaAdminClient(
        bootstrap_servers=bootstrap,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="SCRAM-SHA-256",
        sasl_plain_username="golden",
        sasl_plain_password="golden",
    )
    admin.list_topics()
    admin.close()


def java(bootstrap: str, directory: Path) -> None:
    login = directory / "login.properties"
    login.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={MODULE} required username="golden" password="golden";\n'
    )
    configs = ("kafka-configs", "--bootstrap-server", bootstrap, "--command-config", str(login))
    entity = ("--entity-type", "users", "--entity-name", "golden")
    change = "SCRAM-SHA-512=[iterations=4096,password=golden]"
    run_tool(*configs, "--alter", *entity, "--add-config", change)
    run_tool(*configs, "--describe", *entity)


def record() -> None:
    proxy_port, port, plaintext_port = free_port(), free_port(), free_port()
    recorder = Recorder(proxy_port, port, SASL_APIS)
    bootstrap = f"127.0.0.1:{proxy_port}"
    librdkafka_name, kafka_python_name, *_ = CLIENTS
    with tempfile.TemporaryDirectory() as directory:
        properties = server_properties(port, plaintext_port, proxy_port)
        node = KafkaNode(Path(directory), properties=properties, port=plaintext_port, heap="400m")
        with node:
            recorder.client = librdkafka_name
            librdkafka(bootstrap, "PLAIN")
            librdkafka(bootstrap, "SCRAM-SHA-256")
            recorder.client = kafka_python_name
            kafka_python(bootstrap)
            recorder.client = KAFKA
            java(bootstrap, Path(directory))
    # librdkafka ends this request with a byte too many, which no other reader would write again.
    del recorder.kept[ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, "request", librdkafka_name]
    for (key, version, direction, client), frame in sorted(recorder.kept.items()):
        Golden(key, version, direction == "request", client, frame).write()


if __name__ == "__main__":
    record()
