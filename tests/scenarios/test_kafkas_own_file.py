"""The server.properties that Apache Kafka 4 ships starts a broker here, and a client works with it.

Only what must differ on a machine that runs tests is changed: the ports, and where the data is.
"""

from itertools import islice
from pathlib import Path

import pytest

from tierlog.bench.harness.requests.probe import free_port
from tierlog.tests.broker_process import BrokerProcess
from tierlog.tests.scenarios.foreign_clients import CLIENTS

SHIPPED = """\
# Comments, blank lines and commented settings are part of the shape.
process.roles=broker,controller

node.id=1

controller.quorum.bootstrap.servers=localhost:{controller_port}

listeners=PLAINTEXT://:{port},CONTROLLER://:{controller_port}
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:{port},CONTROLLER://localhost:{controller_port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,\
SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL

num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600

log.dirs={directory}
num.partitions=1
num.recovery.threads.per.data.dir=1

offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1

#log.flush.interval.messages=10000
#log.flush.interval.ms=1000

log.retention.hours=168
#log.retention.bytes=1073741824
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""

VALUES = [b"%06d" % number for number in range(2_000)]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*_text is deprecated:DeprecationWarning")  # kafka-python's
@pytest.mark.parametrize("name", CLIENTS)
def test_the_file_that_kafka_ships_serves_a_client(name: str, tmp_path: Path) -> None:
    client, port = CLIENTS[name], free_port()
    (tmp_path / "server.properties").write_text(
        SHIPPED.format(port=port, controller_port=free_port(), directory=tmp_path / "logs")
    )
    with BrokerProcess(["--config", "server.properties"], tmp_path) as broker:
        assert broker.bootstrap == f"localhost:{port}"
        assert broker.ready_line.endswith("no remote tier")
        # Nobody creates the topic: the file leaves auto.create.topics.enable as it is.
        assert client.produce(broker.bootstrap, "first", VALUES) == len(VALUES)
        read = islice(client.read(broker.bootstrap, "first", "readers"), len(VALUES))
        assert list(read) == list(enumerate(VALUES))
        assert broker.stop() == 0
    lines = broker.log.read_text().splitlines()
    idle, is_open = (line for line in lines if " WARNING " in line)
    assert idle.endswith(
        " 2 of Kafka's properties have no effect here: num.network.threads, num.io.threads"
    )
    assert f"reaches PLAINTEXT://:{port} or CONTROLLER://:" in is_open
    assert "Traceback" not in "".join(lines)
