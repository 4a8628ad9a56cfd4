"""The ways of Testcontainers for Node."""

from tierlog.tests.docker.testcontainers.library import CLUSTER_ID, Library, Login
from tierlog.tests.docker.testcontainers.steps import (
    CONTROLLER_TOO,
    KRAFT,
    NO_CHECKS,
    NO_ZOOKEEPER,
    ONE_NODE,
    PROTOCOLS,
    RUN,
    STARTER,
    WITHOUT_ROLES,
    add_format,
    waiting,
    zookeeper,
)

SECRETS = "/etc/kafka/secrets"
KEY_STORE, TRUST_STORE = "server.keystore.pfx", "server.truststore.pfx"
_NODE_ENVIRONMENT = {
    **ONE_NODE,
    "KAFKA_BROKER_ID": "1",
    "KAFKA_CONFLUENT_SUPPORT_METRICS_ENABLE": "false",
    "KAFKA_ADVERTISED_LISTENERS": "BROKER://localhost:9092",
}
_NODE_KRAFT_ENVIRONMENT = {
    **_NODE_ENVIRONMENT,
    **KRAFT,
    "CLUSTER_ID": CLUSTER_ID,
    "KAFKA_LISTENERS": CONTROLLER_TOO,
}
_NODES_COMMAND = ("sh", "-c", f"echo 'Waiting for script...'; {waiting(STARTER, '')}")
_NODES_LISTENERS = (
    "#!/bin/bash\nexport KAFKA_ADVERTISED_LISTENERS=BROKER://{own}:9092,PLAINTEXT://{host}:{9093}\n"
)
_NODES_LOGIN = Login(9096, "app-user", "userPassword", "SCRAM-SHA-256", "of both stores")
_NODES_SECURE_ENVIRONMENT = {
    **_NODE_KRAFT_ENVIRONMENT,
    "KAFKA_LISTENERS": f"SECURE://0.0.0.0:{_NODES_LOGIN.port},{CONTROLLER_TOO}",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": f"{PROTOCOLS},SECURE:SASL_SSL,CONTROLLER:PLAINTEXT",
    "KAFKA_SSL_PROTOCOL": "TLSv1.2",
    "KAFKA_SSL_KEYSTORE_LOCATION": f"{SECRETS}/{KEY_STORE}",
    "KAFKA_SSL_KEYSTORE_PASSWORD": _NODES_LOGIN.store_password,
    "KAFKA_SSL_KEYSTORE_TYPE": "PKCS12",
    "KAFKA_SASL_ENABLED_MECHANISMS": _NODES_LOGIN.mechanism,
    f"KAFKA_LISTENER_NAME_SECURE_{_NODES_LOGIN.mechanism}_SASL_JAAS_CONFIG": (
        "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    ),
    "KAFKA_SSL_TRUSTSTORE_LOCATION": f"{SECRETS}/{TRUST_STORE}",
    "KAFKA_SSL_TRUSTSTORE_PASSWORD": _NODES_LOGIN.store_password,
    "KAFKA_SSL_TRUSTSTORE_TYPE": "PKCS12",
}
_ADDED_USER = (
    f' --add-scram "{_NODES_LOGIN.mechanism}='
    f'[name={_NODES_LOGIN.user},password={_NODES_LOGIN.password}]"'
)
NODE_WAYS = (
    Library(
        "Node, a tag below 8.0.0",
        "testcontainers-node packages/modules/kafka/src/kafka-container.ts",
        {**_NODE_ENVIRONMENT, **WITHOUT_ROLES, "KAFKA_ZOOKEEPER_CONNECT": "localhost:2181"},
        _NODES_COMMAND,
        STARTER,
        _NODES_LISTENERS + NO_CHECKS + zookeeper("zookeeper.properties") + RUN,
        None,
        module="node",
        port=9093,
        cluster_id=None,
        other_port=2181,
    ),
    Library(
        "Node, a tag of 8.0.0 or newer, or withKraft()",
        "the same",
        _NODE_KRAFT_ENVIRONMENT,
        _NODES_COMMAND,
        STARTER,
        _NODES_LISTENERS + RUN,
        None,
        module="node",
        port=9093,
    ),
    Library(
        "Node, withKraft() and a tag below 7.4.0",
        "the same",
        _NODE_KRAFT_ENVIRONMENT,
        _NODES_COMMAND,
        STARTER,
        _NODES_LISTENERS + NO_CHECKS + NO_ZOOKEEPER + add_format(f'"{CLUSTER_ID}"') + RUN,
        None,
        module="node",
        port=9093,
    ),
    Library(
        "Node, withSaslSslListener()",
        "the same, in KRaft mode; it copies both stores into the container before the start",
        _NODES_SECURE_ENVIRONMENT,
        _NODES_COMMAND,
        STARTER,
        _NODES_LISTENERS.rstrip("\n")
        + f",SECURE://{{host}}:{{{_NODES_LOGIN.port}}}\n"
        + add_format(f'"{CLUSTER_ID}"', _ADDED_USER)
        + RUN,
        None,
        module="node",
        port=9093,
        other_port=_NODES_LOGIN.port,
        login=_NODES_LOGIN,
    ),
)
