"""The ways of libraries whose published source no test reads."""

import re

from tierlog.tests.docker.testcontainers.java import JAVA_ENVIRONMENT
from tierlog.tests.docker.testcontainers.library import Library
from tierlog.tests.docker.testcontainers.steps import BROKER, CONTROLLER, RUNNING, waiting

_DOTNET = "/testcontainers.sh"
_RUST = "/opt/kafka/testcontainers_start.sh"
OTHER_WAYS = (
    Library(
        ".NET, an image whose name contains apache",
        "testcontainers-dotnet src/Testcontainers.Kafka/{KafkaBuilder,ApacheConfiguration}.cs",
        {
            **JAVA_ENVIRONMENT,
            "KAFKA_LISTENERS": "PLAINTEXT://:9092,BROKER://:9093,CONTROLLER://:9094",
            "KAFKA_BROKER_ID": "1",
        },
        ("/bin/sh", "-c", waiting(_DOTNET, "")),
        _DOTNET,
        "#!/bin/bash\n"
        "export KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://{host}:{9092},BROKER://{own}:9093,\n"
        "exec /etc/kafka/docker/run\n",
        re.compile(RUNNING),
    ),
    Library(
        "Rust, apache",
        "testcontainers-rs-modules-community src/kafka/apache.rs",
        {
            **BROKER,
            **CONTROLLER,
            "KAFKA_LISTENERS": (
                "PLAINTEXT://0.0.0.0:9092,BROKER://0.0.0.0:9093,CONTROLLER://0.0.0.0:9094"
            ),
            "CLUSTER_ID": "5L6g3nShT-eMCtK--X86sw",
            "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:9092,BROKER://localhost:9092",
            "KAFKA_BROKER_ID": "1",
        },
        ("bash", "-c", waiting(_RUST, f"chmod 755 {_RUST} && ")),
        _RUST,
        "#!/usr/bin/env bash\n"
        "export KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://{host}:{9092},BROKER://localhost:9093\n"
        "/etc/kafka/docker/run \n",
        re.compile("Kafka Server started"),
        cluster_id="5L6g3nShT-eMCtK--X86sw",
    ),
)
