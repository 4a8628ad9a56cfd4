"""What a produced batch costs below the protocol: `python -m tierlog.bench.micro.append`.

Appends through the replica manager beside appends to the log itself, and fetches of what was
appended, on a real disk (a temporary directory). CPU time of this process, best of five rounds.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from tempfile import TemporaryDirectory
from time import process_time

from ...clients.environment import SystemEnvironment
from ...clients.kafka_uuid import Uuid
from ...clients.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ...clients.record.batch import Record
from ...clients.record.builder import build_batch
from ...clients.topic_partition import TopicIdPartition, TopicPartition
from ...replication.append_data import AppendEntry, AppendRequest
from ...replication.broker_control import BrokerRegistration
from ...replication.cluster_image import Endpoint
from ...replication.controller import Controller
from ...replication.controller_config import ControllerConfig
from ...replication.fetch_data import FetchParams, FetchPartition
from ...replication.metadata_log import open_metadata_log
from ...replication.replica_manager import ReplicaManager, ReplicaManagerConfig
from ...storage.config import LogConfig
from ...storage.files import OsFiles
from ...storage.log_manager import LogManager

ROUNDS = 5
CALLS = 1_000
PARTITION = TopicPartition("bench", 0)
_AT_ZERO = bytes(8)


def cpu_us_per_call(call: Callable[[], object]) -> float:
    """The least CPU time of one call over the rounds, in microseconds."""
    spent: list[float] = []
    for _ in range(ROUNDS):
        started = process_time()
        for _ in range(CALLS):
            call()
        spent.append(process_time() - started)
    return min(spent) / CALLS * 1e6


def measure(replicas: ReplicaManager, topic_id: Uuid, batch_bytes: int) -> None:
    """Print one line: batches of one record of this size."""
    batch = memoryview(build_batch([Record(0, 0, None, bytes(batch_bytes))]))
    log = replicas.partition(PARTITION).log
    epoch = replicas.partition(PARTITION).leader_epoch

    def append(acks: int) -> None:
        # Appending stamps the offset into the batch; a produced one begins at 0.
        batch[0:8] = _AT_ZERO
        replicas.append_records(AppendRequest([AppendEntry(PARTITION, batch)], acks))

    def append_to_log() -> None:
        batch[0:8] = _AT_ZERO
        log.append_as_leader(batch, epoch, 0)

    all_us = cpu_us_per_call(lambda: append(-1))
    one_us = cpu_us_per_call(lambda: append(1))
    log_us = cpu_us_per_call(append_to_log)
    log.update_high_watermark(log.log_end_offset)
    asked = [FetchPartition(TopicIdPartition(topic_id, *PARTITION), 0, 1 << 20)]
    fetch_us = cpu_us_per_call(lambda: replicas.fetch(FetchParams(), asked))
    columns = (all_us, one_us, log_us, fetch_us)
    print(f"{batch_bytes:10}" + "".join(f"{column:12.1f}" for column in columns))


async def main() -> None:
    environment = SystemEnvironment()
    with TemporaryDirectory() as directory, ThreadPoolExecutor(1, "fsync") as executor:
        logs = LogManager(OsFiles(), [directory], LogConfig())
        (meta,) = logs.open_directories("bench", 1, environment.random_uuid)
        now_ms = environment.wall_clock_ms()
        metadata_log = open_metadata_log(logs.log_dirs[0], 1, now_ms)
        controller = Controller(ControllerConfig(1), "bench", environment, metadata_log, executor)
        endpoint = Endpoint("PLAINTEXT", "127.0.0.1", 9092, 0)
        directories = [meta.directory_id]
        controller.start(BrokerRegistration(1, environment.random_uuid(), [endpoint], directories))
        logs.start(now_ms)
        config = ReplicaManagerConfig(1)
        replicas = ReplicaManager(config, environment, logs, lambda: controller.image)
        controller.subscribe(replicas.publish)
        topic = CreatableTopic(name=PARTITION.topic, num_partitions=1, replication_factor=1)
        created = await controller.create_topics(CreateTopicsRequest(topics=[topic]))
        print(f"{'us, bytes':>10}{'acks=all':>12}{'acks=1':>12}{'log alone':>12}{'fetch':>12}")
        for batch_bytes in (100, 16 << 10, 128 << 10):
            measure(replicas, created.topics[0].topic_id, batch_bytes)
        await replicas.stop()
        await controller.stop()
        logs.shutdown(environment.wall_clock_ms())


if __name__ == "__main__":
    asyncio.run(main())
