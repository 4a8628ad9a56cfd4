"""A node without its sockets: a controller and its metadata log on a simulated disk."""

from collections.abc import Sequence
from concurrent.futures import Executor

import pytest

from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.runtime.supervisor import Supervisor
from tierlog.replication.control.brokers.broker_control import BrokerRegistration
from tierlog.replication.control.controller import Controller
from tierlog.replication.control.controller_config import ControllerConfig
from tierlog.replication.control.controller_loop import ControllerTools
from tierlog.replication.metadata.cluster_image import Endpoint
from tierlog.replication.metadata.metadata_log import open_metadata_log
from tierlog.replication.metadata.metadata_log_config import MetadataLogConfig
from tierlog.storage.directory.log_dir import LogDir
from tierlog.tests import wire
from tierlog.tests.simulation.environment import EPOCH_MS, SimulatedEnvironment
from tierlog.tests.simulation.files import SimulatedFiles
from tierlog.tests.simulation.loop import SimulatedLoop

NODE_ID = 1
DATA = "/data"
DIRECTORY_ID = Uuid(b"d" * 16)
CLUSTER_ID = "DKtQfi4zRE2QUDwqmEbbHA"


class LoopExecutor(Executor):
    """Never asked: the simulated loop runs an executor's work itself."""


def registration(
    incarnation: int = 1, directories: Sequence[Uuid] = (DIRECTORY_ID,)
) -> BrokerRegistration:
    return BrokerRegistration(
        NODE_ID,
        Uuid(bytes([incarnation]) * 16),
        [Endpoint("PLAINTEXT", "127.0.0.1", 9092, 0)],
        directories,
    )


def open_controller(
    loop: SimulatedLoop,
    files: SimulatedFiles,
    config: ControllerConfig | None = None,
    log_config: MetadataLogConfig | None = None,
) -> Controller:
    """A controller that has not been started, over whatever the disk holds."""
    if not files.is_directory(DATA):
        files.mkdirs(DATA)
        files.sync_dir("/")
    metadata_log = open_metadata_log(
        LogDir(files, DATA), NODE_ID, EPOCH_MS, config=log_config or MetadataLogConfig()
    )
    # Each life draws other ids.
    environment = SimulatedEnvironment(loop, str(files.disk.operations))
    return Controller(
        config or ControllerConfig(NODE_ID),
        CLUSTER_ID,
        environment,
        metadata_log,
        ControllerTools(LoopExecutor(), Supervisor(environment.random), pytest.fail),
    )


def creation(
    *names: str,
    partitions: int = 1,
    configs: dict[str, str] | None = None,
    validate_only: bool = False,
) -> wire.CreateTopicsRequest:
    """A request for topics with the broker's own replication factor."""
    stated = [
        wire.CreatableTopicConfig(name=name, value=value) for name, value in (configs or {}).items()
    ]
    return wire.CreateTopicsRequest(
        topics=[
            wire.CreatableTopic(
                name=name, num_partitions=partitions, replication_factor=-1, configs=stated
            )
            for name in names
        ],
        validate_only=validate_only,
    )


async def create(controller: Controller, *names: str, partitions: int = 1) -> None:
    """Create topics; it must work."""
    response = await controller.create_topics(creation(*names, partitions=partitions))
    assert [result.error_code for result in response.topics] == [0] * len(names), response


async def delete(controller: Controller, topic: str) -> None:
    """Delete a topic; it must work."""
    request = wire.DeleteTopicsRequest(topics=[wire.DeleteTopicState(name=topic)], timeout_ms=1_000)
    response = await controller.delete_topics(request)
    assert response.responses[0].error_code == 0
