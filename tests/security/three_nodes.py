"""Clusters of three secured nodes: their properties, their start, and letters in their tier."""

from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path

from confluent_kafka import Producer

from tierlog.tests.broker_process import BrokerThread

VALUES = [b"%04d" % number * 4_000 for number in range(300)]

Settings = dict[str, str | int | float | bool]
"""What a client needs."""


def node_properties(
    folder: Path, node_id: int, controllers: Sequence[int], protocol: str
) -> dict[str, str]:
    """Of a broker; the first ones are controllers too, at the ports in `controllers`."""
    listeners = ["NODES://127.0.0.1:0"]
    is_controller = node_id <= len(controllers)
    if is_controller:
        listeners.append(f"CONTROL://127.0.0.1:{controllers[node_id - 1]}")
    voters = [f"{index + 1}@127.0.0.1:{port}" for index, port in enumerate(controllers)]
    return {
        "process.roles": "broker,controller" if is_controller else "broker",
        "node.id": str(node_id),
        "controller.quorum.voters": ",".join(voters),
        "controller.listener.names": "CONTROL",
        "inter.broker.listener.name": "NODES",
        "listener.security.protocol.map": f"NODES:{protocol},CONTROL:{protocol}",
        "listeners": ",".join(listeners),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "broker.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca-ours.pem"),
        "rsm.config.url": f"file://{folder}/tier",
        "remote.log.manager.task.interval.ms": "100",
        "log.initial.task.delay.ms": "0",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "3",
        "transaction.state.log.min.isr": "1",
        "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
    }


@contextmanager
def running(nodes: Sequence[BrokerThread]) -> Generator[None]:
    """Start all at once: of several voters none can lead alone."""
    with ExitStack() as started, ThreadPoolExecutor(len(nodes)) as pool:
        for begun in [pool.submit(started.enter_context, each) for each in nodes]:
            begun.result(60)
        yield


def write_letters(settings: Mapping[str, str | int | float | bool], min_in_sync: int) -> None:
    """Create the tiered topic `letters` with three replicas, and commit `VALUES` to it."""
    admins = import_module("confluent_kafka.admin")
    topic = admins.NewTopic(
        "letters",
        3,
        3,
        config={
            "min.insync.replicas": str(min_in_sync),
            "remote.storage.enable": "true",
            "segment.bytes": "1048576",
        },
    )
    admin = admins.AdminClient(dict(settings))
    admin.create_topics([topic])["letters"].result(30)
    producer = Producer({**settings, "transactional.id": "writer"})
    producer.init_transactions(30)
    producer.begin_transaction()
    for number, value in enumerate(VALUES):
        producer.produce("letters", value, partition=number % 3)
    producer.commit_transaction(30)
