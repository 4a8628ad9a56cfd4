"""A load that records which batches were acknowledged, and checks them after a crash.

Each batch has a unique number. A batch that the broker acknowledged with an offset must be at that
offset afterwards, with that number; a batch in flight when the broker died may or may not be there.
Only one request is in flight at a time, so only the last batch is uncertain.
"""

import threading
import time
from collections.abc import Iterator, Sequence
from itertools import cycle, islice
from typing import NamedTuple, Self, cast

from ....clients.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from ....clients.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ....clients.record.batch import Record, batches
from ....clients.record.builder import build_batch
from ..measurement_error import MeasurementError
from ..requests.wire import Wire, WireError, refuse
from .partition_load import FETCH_VERSION, PRODUCE_VERSION, SpreadTopic

_RECORD_BYTES = 1024
_NUMBER_BYTES = 8
_FETCH_BYTES = 16 << 20
_JOIN_S = 30.0


class Place(NamedTuple):
    """A partition of one of the topics."""

    topic: SpreadTopic
    partition: int


class AcknowledgedLoad:
    """Writes in a separate thread until the broker is gone. Use as a context manager."""

    def __init__(self, bootstrap: str, topics: Sequence[SpreadTopic], records_a_batch: int) -> None:
        self._wire = Wire(bootstrap)
        self._places = [Place(topic, at) for topic in topics for at in range(topic.partitions)]
        self._records = records_a_batch
        self._thread = threading.Thread(target=self._run, name="acknowledged-load")
        self._refused = ""
        self.acknowledged: dict[Place, dict[int, int]] = {place: {} for place in self._places}
        """The batch number at each offset."""
        self.acknowledged_bytes = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.join()
        self._wire.close()

    def join(self) -> None:
        """Wait until the load has ended because the broker is gone."""
        self._thread.join(_JOIN_S)

    def wait_for(self, nbytes: int, timeout_s: float) -> None:
        """Wait until `nbytes` are acknowledged. Raises MeasurementError if it takes too long."""
        deadline = time.monotonic() + timeout_s
        while self.acknowledged_bytes < nbytes:
            if not self._thread.is_alive() or time.monotonic() > deadline:
                raise MeasurementError(
                    f"{self.acknowledged_bytes} of {nbytes} bytes were acknowledged. "
                    + self._refused
                )
            time.sleep(0.005)

    def _run(self) -> None:
        try:
            for number, place in enumerate(cycle(self._places)):
                self._send(number, place)
        except WireError as error:
            self._refused = str(error)

    def _send(self, number: int, place: Place) -> None:
        value = number.to_bytes(_NUMBER_BYTES) + bytes(_RECORD_BYTES - _NUMBER_BYTES)
        now_ms = time.time_ns() // 1_000_000
        batch = build_batch(Record(at, now_ms, None, value) for at in range(self._records))
        partition = PartitionProduceData(index=place.partition, records=batch)
        request = ProduceRequest(
            acks=-1,
            timeout_ms=60_000,
            topic_data=[TopicProduceData(name=place.topic.name, partition_data=[partition])],
        )
        size = len(batch)
        answer = self._wire.ask(request, PRODUCE_VERSION, ProduceResponse)
        (took,) = answer.responses[0].partition_responses
        refuse("Produce", took.error_code)
        self.acknowledged[place][took.base_offset] = number
        self.acknowledged_bytes += size

    def check_nothing_is_lost(self, bootstrap: str) -> None:
        """Read everything. Raises MeasurementError if an acknowledged batch is missing or wrong."""
        assert not self._thread.is_alive()
        with Wire(bootstrap) as wire:
            for place, acknowledged in self.acknowledged.items():
                batch_numbers = dict(_numbers(wire, place, max(acknowledged, default=-1)))
                for offset, number in acknowledged.items():
                    if batch_numbers.get(offset) != number:
                        raise MeasurementError(
                            f"Batch {number} was acknowledged at offset {offset} of "
                            f"{place.topic.name}-{place.partition}, where batch "
                            f"{batch_numbers.get(offset)} is now."
                        )


def _numbers(wire: Wire, place: Place, last: int) -> Iterator[tuple[int, int]]:
    """The offset and number of every batch of a partition, up to offset `last`."""
    offset = 0
    while offset <= last:
        partition = FetchPartition(
            partition=place.partition, fetch_offset=offset, partition_max_bytes=_FETCH_BYTES
        )
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            topics=[FetchTopic(topic_id=place.topic.topic_id, partitions=[partition])],
        )
        answer = wire.ask(request, FETCH_VERSION, FetchResponse)
        refuse("Fetch", answer.error_code)
        (read,) = answer.responses[0].partitions
        refuse(f"Fetch of {place.topic.name}-{place.partition}", read.error_code)
        begun_at = offset
        for batch in batches(memoryview(cast("bytes", read.records or b""))):
            batch.ensure_valid()
            (first,) = islice(batch.records(), 1)
            yield batch.base_offset, int.from_bytes((first.value or b"")[:_NUMBER_BYTES])
            offset = batch.next_offset
        if offset == begun_at:
            return  # the log ends here
