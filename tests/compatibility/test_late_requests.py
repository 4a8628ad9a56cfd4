"""With an epoch a transaction no late request touches another one (KIP-890).

Kafka's own client copies a topic in small transactions through a proxy that delays and repeats its
EndTxn and TxnOffsetCommit requests: at the end the copy is exactly the original.
"""

from pathlib import Path

import pytest

from ..broker_process import BrokerProcess
from ..waiting import wait_until
from .copier import Options
from .exactly_once_clients import JAVA, PARTITIONS, Reader, Writer, copying
from .late_requests import LateRequests

RECORDS = 12_000
A_BATCH = 20
LATE_REQUESTS = 1_000


@pytest.mark.requires("java", "mvn")
def test_no_late_request_tears_a_transaction(tmp_path: Path) -> None:
    settings = {"transaction.state.log.num.partitions": "3", "offsets.topic.num.partitions": "1"}
    with BrokerProcess.on(tmp_path, settings) as first:
        port = first.port
        Writer(first.bootstrap, ("source", "target")).write(RECORDS)
    with LateRequests(port) as proxy:
        listeners = {
            "listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy.port}",
        }
        with BrokerProcess.on(tmp_path, settings | listeners) as broker:
            options = Options(
                client=JAVA,
                bootstrap=f"127.0.0.1:{proxy.port}",
                source="source",
                target="target",
                group="copier",
                batch=A_BATCH,
            )
            reader = Reader(options["bootstrap"], "target")
            log = tmp_path / "copier.log"
            with copying(options, log) as process:

                def is_done() -> bool:
                    assert process.poll() is None, log.read_text()[-2_000:]
                    return reader.read(0.1) >= RECORDS

                wait_until(is_done, 240, lambda: log.read_text()[-2_000:])
            proxy.settle()
            reader.read(1)
            reader.close()
            assert "Traceback" not in broker.log.read_text()
    assert proxy.copies >= LATE_REQUESTS
    for partition, values in enumerate(reader.values):
        assert values == list(range(partition, RECORDS, PARTITIONS))
