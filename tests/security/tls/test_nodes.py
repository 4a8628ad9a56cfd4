"""A cluster whose nodes speak nothing but TLS, each with a certificate: quorum, replicas, tier."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from tierlog.bench.harness.processes.live_files import live_paths
from tierlog.bench.harness.requests.probe import free_port
from tierlog.clients.kafka_uuid import Uuid
from tierlog.storage.directory.log_dir import LogDir, MetaProperties
from tierlog.storage.files import OsFiles
from tierlog.tests.broker_process import BrokerThread
from tierlog.tests.security.three_nodes import (
    VALUES,
    Settings,
    node_properties,
    running,
    write_letters,
)
from tierlog.tests.security.tls.certificates import (
    broker_certificate,
    write_authority,
    write_identity,
)
from tierlog.tests.waiting import wait_until


def node(folder: Path, node_id: int, controllers: list[int]) -> BrokerThread:
    """A broker; the first ones are controllers too."""
    directory = folder / f"node-{node_id}"
    directory.mkdir()
    meta = MetaProperties("5L6g3nShT-eMCtK--X86sw", node_id, Uuid(bytes([node_id]) * 16))
    LogDir(OsFiles(), str(directory)).write_meta_properties(meta)
    properties = node_properties(folder, node_id, controllers, "SSL")
    properties["ssl.client.auth"] = "required"
    return BrokerThread(directory, properties)


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    """What a client needs, and three nodes behind it."""
    write_authority(tmp_path)
    identity = str(write_identity(tmp_path, "broker", broker_certificate()))
    controllers = [free_port(), free_port()]
    threads = [node(tmp_path, node_id, controllers) for node_id in (1, 2, 3)]
    with running(threads):
        yield {
            "bootstrap.servers": f"127.0.0.1:{threads[2].port}",
            "security.protocol": "SSL",
            "ssl.ca.location": str(tmp_path / "ca-ours.pem"),
            "ssl.certificate.location": identity,
            "ssl.key.location": identity,
        }


@pytest.mark.long
def test_records_are_replicated_committed_and_tiered(settings: Settings, tmp_path: Path) -> None:
    write_letters(settings, min_in_sync=3)
    group = {"group.id": "readers", "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, **group})
    consumer.subscribe(["letters"])
    values: list[bytes] = []
    while len(values) < len(VALUES):
        for message in consumer.consume(len(VALUES) - len(values), 30):
            assert message.error() is None, message.error()
            values.append(message.value() or b"")
    consumer.close()
    assert sorted(values) == VALUES
    wait_until(
        lambda: bool(list(live_paths(tmp_path / "tier", "**/*.log"))), 60, "a segment is tiered"
    )
