"""How each client's program is built and run."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from tierlog.bench.harness.loads.defaults.programs import built_from
from tierlog.bench.harness.processes.kafka_peer import KAFKA_VERSION, RECIPE, kafka_jars

HERE = Path(__file__).parent
_JAVA_FLAGS = ("-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")

Command = Callable[[], list[str]]


def _python(module: str) -> Command:
    return lambda: [sys.executable, "-m", f"tierlog.tests.clients.security.{module}"]


def _java() -> list[str]:
    compile_it = ("javac", "-d", ".", "-cp", f"{kafka_jars()}/*", "SecurityClient.java")
    folder = built_from(HERE / "java", "security-java", compile_it)
    logging = f"-Dlog4j2.configurationFile={RECIPE / 'log4j2.properties'}"
    # The client's own jar first: it holds nearly every class.
    classes = f"{kafka_jars()}/kafka-clients-{KAFKA_VERSION}.jar:{folder}:{kafka_jars()}/*"
    return ["java", *_JAVA_FLAGS, logging, "-cp", classes, "SecurityClient"]


def _go(client: str) -> Command:
    def command() -> list[str]:
        folder = built_from(HERE / "go", "security-go", ("go", "build", "-o", "security", "."))
        return [str(folder / "security"), client]

    return command


def _node() -> list[str]:
    install = ("npm", "ci", "--no-audit", "--no-fund")
    return ["node", str(built_from(HERE / "node", "security-node", install) / "security.mjs")]


PROCESSES: Mapping[str, int] = {
    "confluent-kafka": 3,
    "kafka-python": 4,
    "aiokafka": 2,
    "kafka-clients": 2,
    "sarama": 3,
}
"""How many share the orders of a client that waits long in some; one of all others."""

TOOLCHAINS: Mapping[str, tuple[str, ...]] = {
    "franz-go": ("go",),
    "sarama": ("go",),
    "kafkajs": ("node",),
}
"""What a client needs beside Python and Java."""

PROGRAMS: Mapping[str, Command] = {
    "confluent-kafka": _python("confluent_program"),
    "kafka-python": _python("kafka_python_program"),
    "aiokafka": _python("aiokafka_program"),
    "kafka-clients": _java,
    "franz-go": _go("franz-go"),
    "sarama": _go("sarama"),
    "kafkajs": _node,
}
