"""Leader replicas on a real disk, without sockets: the parts that handle a produced batch.

The parts are the broker's own, assembled as in `broker.py`.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import NamedTuple

from ...clients.errors import KafkaError
from ...clients.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ...clients.runtime.environment import SystemEnvironment
from ...clients.runtime.supervisor import Supervisor
from ...clients.topic_partition import TopicIdPartition, TopicPartition
from ...replication.control.brokers.broker_control import BrokerRegistration
from ...replication.control.controller import Controller
from ...replication.control.controller_config import ControllerConfig
from ...replication.control.controller_loop import ControllerTools
from ...replication.leader.replica_manager import ReplicaManager, ReplicaManagerConfig
from ...replication.metadata.cluster_image import Endpoint
from ...replication.metadata.metadata_log import open_metadata_log
from ...storage.config import LogConfig
from ...storage.files import OsFiles
from ...storage.manager.log_manager import LogManager

_log = logging.getLogger(__name__)

TOPIC = "bench"


class OneReplica(NamedTuple):
    """The replicas of a broker, and the partitions of its topic."""

    replicas: ReplicaManager
    partitions: list[TopicIdPartition]


def is_led(replicas: ReplicaManager, topic_partition: TopicPartition) -> bool:
    """Whether this broker leads the partition."""
    try:
        return replicas.partition(topic_partition).is_leader
    except KafkaError:
        return False


@asynccontextmanager
async def one_replica(directory: str, partitions: int = 1) -> AsyncGenerator[OneReplica]:
    """Open the replicas of a topic with this many partitions; all is stopped at the end."""
    environment = SystemEnvironment()
    with ThreadPoolExecutor(1, "fsync") as executor:
        logs = LogManager(OsFiles(), [directory], LogConfig())
        (meta,) = logs.directories.open(TOPIC, 1, environment.random_uuid)
        now_ms = environment.wall_clock_ms()
        metadata_log = open_metadata_log(logs.log_dirs[0], 1, now_ms)
        supervisor = Supervisor(environment.random)
        config = ControllerConfig(1)
        tools = ControllerTools(executor, supervisor, _log.critical)
        controller = Controller(config, TOPIC, environment, metadata_log, tools)
        endpoint = Endpoint("PLAINTEXT", "127.0.0.1", 9092, 0)
        directories = [meta.directory_id]
        controller.start(BrokerRegistration(1, environment.random_uuid(), [endpoint], directories))
        logs.start(now_ms)
        replicas = ReplicaManager(
            ReplicaManagerConfig(1), environment, logs, lambda: controller.image
        )
        controller.subscribe(replicas.publish)
        topic = CreatableTopic(name=TOPIC, num_partitions=partitions, replication_factor=1)
        created = await controller.create_topics(CreateTopicsRequest(topics=[topic]))
        topic_id = created.topics[0].topic_id
        named = [
            TopicIdPartition(topic_id, *TopicPartition(TOPIC, index)) for index in range(partitions)
        ]
        for partition in named:
            # The last of many partitions are created while other tasks run.
            while not is_led(replicas, partition.topic_partition):  # noqa: ASYNC110 (there is no event)
                await asyncio.sleep(0)
        yield OneReplica(replicas, named)
        await replicas.stop()
        await controller.stop()
        logs.shutdown(environment.wall_clock_ms())
