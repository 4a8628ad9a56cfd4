"""Measures the disk work of a clean stop: `python -m tierlog.bench.micro.stop [partitions]`.

New logs of a few records each are closed on a real disk (a temporary directory), one after the
other and then in parallel, as a broker does. Each number is the best of three rounds.
"""

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor
from tempfile import TemporaryDirectory
from time import perf_counter

from ...clients.kafka_uuid import ZERO_UUID
from ...clients.record.batch import Record
from ...clients.record.builder import build_batch
from ...clients.topic_partition import TopicPartition
from ...replication.housekeeping.clean_stop import FLUSH_THREADS, close_logs
from ...storage.config import LogConfig
from ...storage.files import OsFiles
from ...storage.manager.log_manager import LogManager

ROUNDS = 3
RECORDS = 10


def open_logs(directory: str, partitions: int) -> LogManager:
    """Logs with records that are not yet flushed to the disk."""
    logs = LogManager(OsFiles(), [directory], LogConfig())
    logs.start(0)
    for partition in range(partitions):
        name = TopicPartition("bench", partition)
        log = logs.get_or_create_log(name, ZERO_UUID, LogConfig(), 0)
        for _ in range(RECORDS):
            log.append_as_leader(memoryview(build_batch([Record(0, 0, None, bytes(100))])), 0, 0)
    return logs


def seconds_to_stop(partitions: int, *, side_by_side: bool) -> float:
    """The shortest time of all rounds."""
    spent: list[float] = []
    for _ in range(ROUNDS):
        with TemporaryDirectory() as directory:
            logs = open_logs(directory, partitions)
            started = perf_counter()
            if side_by_side:
                with ThreadPoolExecutor(FLUSH_THREADS) as threads:
                    asyncio.run(close_logs(logs, threads, 0, 0))
            else:
                logs.shutdown(0)
            spent.append(perf_counter() - started)
    return min(spent)


def main() -> None:
    partitions = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    alone = seconds_to_stop(partitions, side_by_side=False)
    together = seconds_to_stop(partitions, side_by_side=True)
    print(
        f"{partitions} logs: {alone:.2f} s one after the other, "
        f"{together:.2f} s with {FLUSH_THREADS} threads"
    )


if __name__ == "__main__":
    main()
