"""Records stream from a topic to a table to a topic, while broker and job are killed at random.

What the producers were promised is afterwards in the table and in the second topic, each record
once and in the order of the first topic; what they aborted is in neither. A job needs longer to
start than a segment to fill and leave the disk, so it reads much of it from the tier.
"""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import Self, cast

import confluent_kafka
import pytest
from pyspark.sql import DataFrame, SparkSession

from tierlog.bench.harness.processes.tierlog_node import TierlogNode
from tierlog.bench.harness.requests.admin import create_topic
from tierlog.tests.pipeline.spark.stream_job import FINISH, SOURCE, TABLE, TARGET
from tierlog.tests.pipeline.spark.tiers import (
    TOPIC_CONFIG,
    TierPlace,
    broker_on,
    wait_until_it_has_left_the_disk,
)
from tierlog.tests.waiting import wait_until

SECONDS = int(os.environ.get("TIERLOG_STREAM_SECONDS", "20"))
"""How long broker and job are killed: TIERLOG_STREAM_SECONDS=600 for ten minutes."""

pytestmark = [
    pytest.mark.long,
    pytest.mark.requires("java"),
    pytest.mark.timeout(SECONDS * 3 + 600),
]

PARTITIONS = 2
RECORD_BYTES = 700
AT_ONCE = 25
EACH_S = 0.1
"""Each of the two senders sends so many records so often."""


class Sender(threading.Thread):
    """An idempotent producer, from before the first kill until after the last."""

    def __init__(self, bootstrap: str, numbers: "count[int]", **settings: str) -> None:
        super().__init__()
        self.acknowledged: list[int] = []
        self.failure: BaseException | None = None
        self._numbers = numbers
        self._stopping = threading.Event()
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
                **settings,
            }
        )

    def run(self) -> None:
        try:
            self.prepare()
            while not self._stopping.wait(EACH_S):
                self.send()
            assert self._producer.flush(120) == 0
        except BaseException as error:
            self.failure = error
            raise

    def prepare(self) -> None:
        """What comes before the first record."""

    def send(self) -> None:
        """Some records; those that are promised to be there go into `acknowledged`."""
        self.produce()
        self._producer.poll(0)
        while len(self._producer) > 2_000:
            self._producer.poll(0.05)

    def produce(self) -> list[int]:
        """Hand over some records, half of them to each partition; their numbers."""
        numbers = [next(self._numbers) for _ in range(AT_ONCE)]
        for number in numbers:
            self._producer.produce(
                SOURCE,
                f"{number}:".ljust(RECORD_BYTES, ".").encode(),
                key=f"k{number}",
                partition=number % PARTITIONS,
                headers=[("n", str(number).encode())],
                on_delivery=self.on_delivery,
            )
        return numbers

    def on_delivery(self, error: object, message: confluent_kafka.Message) -> None:
        """The broker has answered, or never will."""
        assert error is None, error
        key = cast("bytes", message.key())
        self.acknowledged.append(int(key[1:]))

    def stop(self) -> None:
        """Send no more, and wait for the answers."""
        self._stopping.set()
        self.join()
        if self.failure is not None:
            raise self.failure


class TransactionalSender(Sender):
    """The same in transactions, of which it aborts about each fourth."""

    def __init__(self, bootstrap: str, numbers: "count[int]") -> None:
        super().__init__(bootstrap, numbers, **{"transactional.id": "sender"})
        self.aborted: list[int] = []
        self._chance = random.Random("which transactions are aborted")

    def prepare(self) -> None:
        self._producer.init_transactions(60)

    def send(self) -> None:
        self._producer.begin_transaction()
        numbers = self.produce()
        if self._chance.random() < 0.25:
            self._producer.flush(60)
            is_kept = False
        else:
            is_kept = self._has_committed()
        if is_kept:
            self.acknowledged += numbers
        else:
            self._abort()
            self.aborted += numbers

    def on_delivery(self, error: object, message: confluent_kafka.Message) -> None:
        """It is the transaction that is promised."""

    def _has_committed(self) -> bool:
        while True:
            try:
                self._producer.commit_transaction(60)
            except confluent_kafka.KafkaException as failure:
                error = cast("confluent_kafka.KafkaError", failure.args[0])
                if error.txn_requires_abort():
                    return False
                if not error.retriable():
                    raise
            else:
                return True

    def _abort(self) -> None:
        while True:
            try:
                self._producer.abort_transaction(60)
            except confluent_kafka.KafkaException as failure:
                if not cast("confluent_kafka.KafkaError", failure.args[0]).retriable():
                    raise
            else:
                return


class Job:
    """`stream_job.py` in processes of its own, one after the other."""

    def __init__(self, bootstrap: str, directory: Path) -> None:
        self.directory = directory
        self.kills = 0
        self.failures = 0
        self.log = directory / "job.log"
        self._command = [sys.executable, "-m", "tierlog.tests.pipeline.spark.stream_job"]
        self._command += [bootstrap, str(directory)]
        # What is killed does not tidy up.
        scratch = directory / "scratch"
        scratch.mkdir(parents=True)
        self._environment = {**os.environ, "TMPDIR": str(scratch), "SPARK_LOCAL_DIRS": str(scratch)}

    def start(self) -> None:
        self._begun = time.monotonic()
        self._at_work_since: float | None = None
        self._commits_before = self._commits()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdout=log, stderr=log, env=self._environment, start_new_session=True
            )

    def kill(self) -> None:
        """End Python and the JVM at once; what its workers have under way may still come."""
        self.kills += 1
        self._end()

    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def revive(self) -> bool:
        """Whether it is at work; one that has failed begins again, as a supervisor would do it."""
        if self._process.poll() == 0:
            return False
        if self.has_ended():
            self.failures += 1
            self._end()
            self.start()
        return True

    def finish(self) -> None:
        """Let it take what is on its way, and end."""
        (self.directory / FINISH).touch()
        wait_until(lambda: not self.revive(), 300 + SECONDS, lambda: self.log.read_text()[-3000:])

    def seconds(self) -> float:
        """Since this process was started."""
        return time.monotonic() - self._begun

    def seconds_at_work(self) -> float:
        """Since it was seen to have finished a micro-batch; 0 before."""
        if self._at_work_since is None and self._commits() > self._commits_before:
            self._at_work_since = time.monotonic()
        return 0.0 if self._at_work_since is None else time.monotonic() - self._at_work_since

    def _commits(self) -> int:
        return len(list(self.directory.glob("into-*/commits/[0-9]*")))

    def _end(self) -> None:
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            assert self.has_ended()
        self._process.wait()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end()


def kill_again_and_again(node: TierlogNode, job: Job) -> int:
    """At random, for SECONDS and until each was hit; how often it was the broker.

    Most of the time the job may get on before it is killed: a slow machine would start it for ever.
    """
    chance = random.Random("broker and job are killed")
    pause = threading.Event()
    begun = time.monotonic()
    broker_at, kills = chance.uniform(2, 6), 0
    life, is_early = chance.uniform(1, 4), False
    while (now := time.monotonic() - begun) < SECONDS or not (kills and job.kills):
        job.revive()
        if (job.seconds() if is_early else job.seconds_at_work()) > life:
            job.kill()
            job.start()
            life, is_early = chance.uniform(1, 50), chance.random() < 0.25
        if now > broker_at:
            node.kill()
            node.start()
            kills += 1
            broker_at = now + chance.uniform(3, 25)
        pause.wait(0.05)
    return kills


def numbers_in(rows: DataFrame) -> dict[int, list[int]]:
    """By partition, in their order, the numbers of records that are whole."""
    number = "CAST(substring_index(CAST(value AS STRING), ':', 1) AS BIGINT)"
    found = rows.selectExpr("partition", "offset", f"{number} AS number", "key", "value", "headers")
    whole = found.where(
        f"length(value) = {RECORD_BYTES} AND CAST(key AS STRING) = concat('k', number)"
        " AND size(headers) = 1 AND headers[0].key = 'n'"
        " AND CAST(headers[0].value AS STRING) = CAST(number AS STRING)"
    )
    numbers: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}
    for row in whole.select("partition", "number").orderBy("partition", "offset").collect():
        numbers[row[0]].append(row[1])
    return numbers


def assert_each_once(found: dict[int, list[int]], promised: Iterable[int], where: str) -> None:
    counted = Counter(each for numbers in found.values() for each in numbers)
    expected = set(promised)
    missing, more = expected - counted.keys(), counted.keys() - expected
    doubled = [each for each, times in counted.items() if times > 1]
    wrong = {"missing": sorted(missing), "unknown": sorted(more), "doubled": doubled}
    examples = {what: (len(numbers), numbers[:5]) for what, numbers in wrong.items() if numbers}
    assert examples == {}, where


def test_nothing_is_lost_or_doubled_between_topic_table_and_topic(
    spark: SparkSession, tmp_path: Path
) -> None:
    with broker_on(tmp_path, TierPlace((tmp_path / "remote").as_uri())) as node:
        for topic in (SOURCE, TARGET):
            create_topic(node.bootstrap, topic, TOPIC_CONFIG, partitions=PARTITIONS)
        numbers = count()
        transactional = TransactionalSender(node.bootstrap, numbers)
        senders = [Sender(node.bootstrap, numbers), transactional]
        for sender in senders:
            sender.start()
        with Job(node.bootstrap, tmp_path / "job") as job:
            try:
                wait_until(
                    lambda: job.seconds_at_work() > 0, 300, lambda: job.log.read_text()[-3000:]
                )
                wait_until_it_has_left_the_disk(node, SOURCE)
                broker_kills = kill_again_and_again(node, job)
            finally:
                for sender in senders:
                    sender.stop()
            job.finish()
        table = numbers_in(spark.read.format("delta").load(str(job.directory / TABLE)))
        stated = {
            "kafka.bootstrap.servers": node.bootstrap,
            "kafka.isolation.level": "read_committed",
            "subscribe": TARGET,
            "includeHeaders": "true",
        }
        copied = numbers_in(spark.read.format("kafka").options(**stated).load())
        promised = [each for sender in senders for each in sender.acknowledged]
        print(
            f"{len(promised)} records promised, {len(transactional.aborted)} aborted;"
            f" {broker_kills} kills of the broker, {job.kills} of the job,"
            f" which has failed {job.failures} times"
        )
        assert_each_once(table, promised, "table")
        assert_each_once(copied, promised, "topic")
        assert copied == table, "the order is another one"
        assert "Traceback" not in node.output
