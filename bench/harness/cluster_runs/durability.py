"""One chaos run: producers of several libraries, faults, and a reader that misses nothing."""

import contextlib
import math
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from confluent_kafka import Consumer, KafkaException, TopicPartition

from ..checker.acknowledged import Acknowledged, ReadBack, shortened, wrong_records
from ..faults.chaos_cluster import REPLICAS, ChaosCluster, chaos_cluster
from ..faults.fault_runner import Chaos, Drawn, Fired
from ..loads.acknowledged.producers import producing
from ..loads.acknowledged.steady_producers import Stated
from ..measurement_error import MeasurementError
from ..processes.cluster import Kind
from ..requests.admin import create_topic
from .in_sync import InSync, InSyncWatch

PARTITIONS = 3
RATE = 150
RECORD_BYTES = 512
INTERVAL_S = 10.0

_IN_SYNC_WITHIN_S = 180.0
_READ_WITHIN_S = 300.0
_READ_AT_ONCE = 5_000
_ASK_S = 30.0
_POLL_S = 0.5


@dataclass(slots=True)
class Run:
    """What a chaos run has shown, once everything acknowledged was read back."""

    acknowledged: Mapping[str, Acknowledged]
    """By client."""
    faults: Sequence[Fired]
    in_sync: Sequence[InSync]
    ended_by_themselves: Sequence[str]

    def count(self, name: str) -> int:
        """How often the fault of that name has fired."""
        return sum(fault.name == name for fault in self.faults)

    def unavailable_s(self, client: str) -> list[float]:
        """For each fault, the longest time without an acknowledgement of some partition."""
        return self.acknowledged[client].longest_gaps_s([fault.began for fault in self.faults])

    def back_in_sync_s(self) -> list[float]:
        """For each fault after which its nodes came back into every ISR, the seconds from the
        moment when the node was started, went on or was reached again."""
        times: list[float] = []
        for fault in self.faults:
            at = back_in_sync_at(fault, self.in_sync)
            if at is not None:
                times.append(at - fault.returned)
        return times


def back_in_sync_at(
    fault: Fired, history: Sequence[InSync], until: float = math.inf
) -> float | None:
    """When a fault's nodes were in every ISR again; None if they never left it, or never were.

    What leaves an ISR after `until` has left for another reason.
    """
    nodes = frozenset(fault.nodes)
    has_left = False
    for seen in history:
        if seen.at < fault.began:
            continue
        if not nodes <= seen.nodes:
            if seen.at >= until and not has_left:
                return None
            has_left = True
        elif has_left and seen.at >= fault.returned > 0:
            return seen.at
    return None


def run(
    directory: Path, kind: Kind, clients: Sequence[str], seconds: float, seed: str = "chaos"
) -> Run:
    """Start a cluster, produce under faults for so long, heal it, and read everything back.

    Raises MeasurementError if a client fails or a record is lost, doubled or out of order;
    NotUpError if the cluster does not recover.
    """
    with chaos_cluster(directory, kind) as made:
        stated: list[tuple[str, Stated]] = []
        for client in clients:
            topic = f"chaos-{client}"
            create_topic(
                made.cluster.bootstrap, topic, partitions=PARTITIONS, replication_factor=REPLICAS
            )
            stated.append(
                (client, Stated(made.cluster.bootstrap, topic, PARTITIONS, RATE, RECORD_BYTES))
            )
        done = _under_faults(made, stated, directory, seconds, seed)
        check_all(dict(stated), done.acknowledged)
        return done


def _under_faults(
    made: ChaosCluster,
    stated: Sequence[tuple[str, Stated]],
    directory: Path,
    seconds: float,
    seed: str,
) -> Run:
    topics = [each.topic for _, each in stated]
    interval_s = min(INTERVAL_S, seconds / 6)
    schedule = Drawn(random.Random(seed), interval_s, longest_s=max(1.0, seconds / 6))
    with InSyncWatch(made.cluster, topics) as watch, producing(stated, directory) as producers:
        chaos = Chaos(made.cluster, made.links, schedule, seed)
        with chaos:
            time.sleep(seconds)
        watch.wait_for_all(_IN_SYNC_WITHIN_S)
        acknowledged = {producer.name: producer.stop() for producer in producers}
        watch.wait_for_all(_IN_SYNC_WITHIN_S)
    if chaos.errors:
        raise MeasurementError(f"A fault could not be done: {chaos.errors[0]}")
    return Run(acknowledged, chaos.faults, watch.history, chaos.ended_by_themselves)


def check_all(stated: Mapping[str, Stated], acknowledged: Mapping[str, Acknowledged]) -> None:
    """Read back what each client was acknowledged.

    Raises MeasurementError if a record is lost, doubled or out of order.
    """
    wrong: list[str] = []
    for client, each in stated.items():
        read = read_back(each.bootstrap, each.topic, each.partitions)
        wrong += [f"{client}: {one}" for one in wrong_records(acknowledged[client], read)]
    if wrong:
        raise MeasurementError(shortened(wrong))


def read_back(bootstrap: str, topic: str, partitions: int) -> dict[int, list[ReadBack]]:
    """Everything in a topic, from offset 0 on, once. Raises MeasurementError."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "read-back",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
            # Nodes that are gone are no news here.
            "log_level": 2,
        }
    )
    with contextlib.closing(consumer):
        places = [TopicPartition(topic, each, 0) for each in range(partitions)]
        ends = {place.partition: _end(consumer, place) for place in places}
        read: dict[int, list[ReadBack]] = {each: [] for each in range(partitions)}
        consumer.assign(places)
        deadline = time.monotonic() + _READ_WITHIN_S
        while any(_position(consumer, place) < ends[place.partition] for place in places):
            if time.monotonic() > deadline:
                raise MeasurementError(f"{topic} was not read within {_READ_WITHIN_S:g} s.")
            for message in consumer.consume(_READ_AT_ONCE, 1.0):
                error = message.error()
                if error is not None:
                    if error.retriable() or error.name() == "_TRANSPORT":
                        continue
                    raise MeasurementError(f"{topic} cannot be read: {error.str()}.")
                number = int((message.value() or b"").split(maxsplit=1)[0])
                partition, offset = cast("int", message.partition()), cast("int", message.offset())
                read[partition].append(ReadBack(offset, number))
    return read


def _end(consumer: Consumer, place: TopicPartition) -> int:
    """The high watermark of a partition, however often the client has to look for its leader."""
    deadline = time.monotonic() + _READ_WITHIN_S
    while True:
        try:
            return consumer.get_watermark_offsets(place, timeout=_ASK_S)[1]
        except KafkaException as error:
            if time.monotonic() > deadline:
                raise MeasurementError(
                    f"Partition {place.partition} of {place.topic} cannot be read: {error}."
                ) from None
            time.sleep(_POLL_S)


def _position(consumer: Consumer, place: TopicPartition) -> int:
    """The offset after the last record or marker that was read."""
    (position,) = consumer.position([place])
    return max(0, position.offset)
