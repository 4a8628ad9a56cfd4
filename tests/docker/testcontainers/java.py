"""The ways of Testcontainers for Java."""

import re

from tierlog.tests.docker.testcontainers.library import ALIAS, CLUSTER_ID, Library
from tierlog.tests.docker.testcontainers.steps import (
    CONTROLLER_TOO,
    KRAFT,
    NO_CHECKS,
    NO_ZOOKEEPER,
    ONE_NODE,
    PROTOCOLS,
    RUN,
    RUNNING,
    STARTED,
    STARTER,
    TRANSACTIONS,
    WITHOUT_ROLES,
    add_format,
    waiting,
    zookeeper,
)

_SOURCE = "testcontainers-java modules/kafka/…/org/testcontainers/"
_JAVAS_COMMAND = ("sh", "-c", waiting(STARTER, ""))
JAVA_ENVIRONMENT = {
    **ONE_NODE,
    **TRANSACTIONS,
    **KRAFT,
    "CLUSTER_ID": CLUSTER_ID,
    "KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:9092,BROKER://0.0.0.0:9093,CONTROLLER://0.0.0.0:9094",
}
_JAVAS_LISTENERS = (
    "#!/bin/bash\nexport KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://{host}:{9092},BROKER://{own}:9093\n"
)
_OLD_JAVAS_LISTENERS = (
    "#!/bin/bash\nexport KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://{host}:{9093},BROKER://{own}:9092\n"
)
_OLD_JAVA_ENVIRONMENT = {**ONE_NODE, **TRANSACTIONS, "KAFKA_BROKER_ID": "1"}
JAVA_WAYS = (
    Library(
        "Java, KafkaContainer",
        f"{_SOURCE}kafka/KafkaContainer.java",
        JAVA_ENVIRONMENT,
        _JAVAS_COMMAND,
        STARTER,
        _JAVAS_LISTENERS + "/etc/kafka/docker/run \n",
        re.compile(f".*{RUNNING}.*"),
        module="java",
    ),
    Library(
        "Java, KafkaContainer.withListener",
        "the same, and KafkaHelper.java beside it, which joins the members of a set",
        {
            **JAVA_ENVIRONMENT,
            "KAFKA_LISTENERS": (
                f"TC-0://{ALIAS}:19092,CONTROLLER://0.0.0.0:9094,BROKER://0.0.0.0:9093,"
                "PLAINTEXT://0.0.0.0:9092"
            ),
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": (
                f"TC-0:PLAINTEXT,CONTROLLER:PLAINTEXT,{PROTOCOLS}"
            ),
        },
        _JAVAS_COMMAND,
        STARTER,
        _JAVAS_LISTENERS.replace(
            "BROKER://{own}:9093", f"BROKER://{{own}}:9093,TC-0://{ALIAS}:19092"
        )
        + "/etc/kafka/docker/run \n",
        re.compile(f".*{RUNNING}.*"),
        module="java",
    ),
    Library(
        "Java, ConfluentKafkaContainer",
        f"{_SOURCE}kafka/ConfluentKafkaContainer.java",
        JAVA_ENVIRONMENT,
        _JAVAS_COMMAND,
        STARTER,
        _JAVAS_LISTENERS + RUN,
        re.compile(f".*{RUNNING}.*"),
        module="java",
    ),
    Library(
        "Java, the deprecated KafkaContainer",
        f"{_SOURCE}containers/KafkaContainer.java",
        {
            **_OLD_JAVA_ENVIRONMENT,
            **WITHOUT_ROLES,
            "KAFKA_ZOOKEEPER_CONNECT": "localhost:2181",
        },
        _JAVAS_COMMAND,
        STARTER,
        _OLD_JAVAS_LISTENERS + NO_CHECKS + zookeeper("/tmp/zookeeper.properties") + RUN,
        STARTED,
        module="java",
        port=9093,
        cluster_id=None,
    ),
    Library(
        "Java, the deprecated KafkaContainer.withKraft",
        "the same; an image whose tag is below 7.4.0 starts without checks, too",
        {
            **_OLD_JAVA_ENVIRONMENT,
            **KRAFT,
            "CLUSTER_ID": CLUSTER_ID,
            "KAFKA_LISTENERS": CONTROLLER_TOO,
        },
        _JAVAS_COMMAND,
        STARTER,
        _OLD_JAVAS_LISTENERS + NO_ZOOKEEPER + add_format(f'"{CLUSTER_ID}"') + RUN,
        re.compile(f".*{RUNNING}.*"),
        module="java",
        port=9093,
    ),
)
