"""Well-behaved clients of every kind, which measure how long they wait while others attack.

Run as `python -m tierlog.bench.harness.loads.hostile.healthy --bootstrap … --sasl … --seconds …
--patience …`. Each kind is one client that does the same again and again, with a pause in between:
produce 30 KB, produce 900 KB, fetch, look up an offset by time, and log in on a new connection with
requests that arrive in two segments; with `--status` also ask the status page whether it is
healthy. A wait that ends in an error counts as failed, with the time that it took. Acknowledged
records that are not in the log at the end count as lost. Prints one JSON object.
"""

import argparse
import http.client
import json
import sys
import threading
import time
from array import array
from collections.abc import Callable, Sequence

from .....clients.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from .....clients.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from .....clients.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from .....clients.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from .....clients.protocol.messages.sasl_handshake import (
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from .....clients.record.batch import Record
from .....clients.record.builder import build_batch
from .....clients.record.compression import CompressionType
from ...peers.sasl_listener import PASSWORD, USER
from ...requests.wire import Prepared, Wire, WireError, decoded, prepare
from ..client_process import leave_latencies

TOPICS = ("healthy-30kb", "healthy-900kb", "healthy-fetch", "healthy-look-up")
"""The topics that must be there, with one partition each."""

_SMALL, _LARGE, _FETCHED, _LOOKED_UP = TOPICS
_PAUSE_S = 0.02
_BETWEEN_SEGMENTS_S = 0.02
_PRODUCE_VERSION, _FETCH_VERSION, _LOOK_UP_VERSION = 7, 11, 7
_TIMEOUT_MS = 30_000
_LATEST = -1
_LAST_ANSWER_S = 120.0
"""How long the end of a log is waited for: the attack goes on, and this is not measured."""
_RECORDS = 100
_FIRST_MS = 1_700_000_000_000


class FailedError(Exception):
    """An answer says that something went wrong, or does not say what it must."""


class Kind:
    """One client, and what it has waited for."""

    def __init__(self, name: str, connect: Callable[[], "Deed"]) -> None:
        self.name = name
        self.pairs = array("d")
        self.failed = 0
        self._connect = connect

    def run(self, began: float, seconds: float) -> None:
        """Do the same again and again, on a new connection after each failure."""
        deed: Deed | None = None
        while (at := time.perf_counter() - began) < seconds:
            waited: float | None = None
            try:
                deed = deed or self._connect()
                waited = deed.wait_ms()
            except (WireError, FailedError, OSError, http.client.HTTPException):
                self.failed += 1
                if deed is not None:
                    deed.close()
                deed = None
            if waited is None:
                waited = (time.perf_counter() - began - at) * 1000
            self.pairs.extend((at, waited))
            time.sleep(_PAUSE_S)
        if deed is not None:
            deed.close()

    @property
    def worst_ms(self) -> float:
        return max(self.pairs[1::2], default=0.0)


class Deed:
    """What a client does; with a connection of its own until it is closed."""

    def wait_ms(self) -> float:
        """Do it once; returns how long it waited. Raises WireError or FailedError."""
        raise NotImplementedError

    def close(self) -> None:
        """Give up the connection."""


class _Asking(Deed):
    """Sends the same request again and again."""

    def __init__(self, wire: Wire, prepared: Prepared) -> None:
        self._wire = wire
        self._prepared = prepared

    def wait_ms(self) -> float:
        began = time.perf_counter()
        self._wire.send(self._prepared)
        answer = self._wire.receive()
        waited = (time.perf_counter() - began) * 1000
        self.check(answer)
        return waited

    def check(self, answer: memoryview) -> None:
        """Raises FailedError if this is not the right answer."""
        raise NotImplementedError

    def close(self) -> None:
        self._wire.close()


class Producing(_Asking):
    """Produces the same record with acks=all; `acknowledged` has the offsets."""

    def __init__(self, wire: Wire, topic: str, records: bytes, acknowledged: set[int]) -> None:
        partition = PartitionProduceData(index=0, records=records)
        topics = [TopicProduceData(name=topic, partition_data=[partition])]
        request = ProduceRequest(acks=-1, timeout_ms=_TIMEOUT_MS, topic_data=topics)
        super().__init__(wire, prepare(request, _PRODUCE_VERSION))
        self._acknowledged = acknowledged

    def check(self, answer: memoryview) -> None:
        (topic,) = decoded(answer, self._prepared.header, ProduceResponse).responses
        (partition,) = topic.partition_responses
        if partition.error_code or partition.base_offset in self._acknowledged:
            raise FailedError(f"a record was answered with {partition}")
        self._acknowledged.add(partition.base_offset)


class Fetching(_Asking):
    """Fetches the first record of a topic."""

    def __init__(self, wire: Wire) -> None:
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        topics = [FetchTopic(topic=_FETCHED, partitions=[partition])]
        request = FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=1 << 20, topics=topics)
        super().__init__(wire, prepare(request, _FETCH_VERSION))

    def check(self, answer: memoryview) -> None:
        (topic,) = decoded(answer, self._prepared.header, FetchResponse).responses
        (partition,) = topic.partitions
        if partition.error_code or not partition.records:
            raise FailedError(f"a fetch was answered with error code {partition.error_code}")


class LookingUp(_Asking):
    """Looks up the offset of a time; the batch is compressed."""

    def __init__(self, wire: Wire, topic: str, timestamp: int, offset: int | None) -> None:
        partition = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        topics = [ListOffsetsTopic(name=topic, partitions=[partition])]
        request = ListOffsetsRequest(replica_id=-1, topics=topics)
        super().__init__(wire, prepare(request, _LOOK_UP_VERSION))
        self._expected = offset
        self.offset = -1

    def check(self, answer: memoryview) -> None:
        (topic,) = decoded(answer, self._prepared.header, ListOffsetsResponse).topics
        (partition,) = topic.partitions
        self.offset = partition.offset
        if partition.error_code or self._expected not in (None, partition.offset):
            raise FailedError(f"a look-up was answered with {partition}")


class LoggingIn(Deed):
    """Logs in on a new connection; each request comes in two segments."""

    def __init__(self, bootstrap: str, patience_s: float) -> None:
        self._bootstrap = bootstrap
        self._patience_s = patience_s
        token = f"\0{USER}\0{PASSWORD}".encode()
        self._handshake = prepare(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        self._token = prepare(SaslAuthenticateRequest(auth_bytes=token), 2)

    def wait_ms(self) -> float:
        began = time.perf_counter()
        with Wire(self._bootstrap, self._patience_s) as wire:
            handshake = decoded(
                self._in_segments(wire, self._handshake, 9),
                self._handshake.header,
                SaslHandshakeResponse,
            )
            answer = decoded(
                self._in_segments(wire, self._token, 20),
                self._token.header,
                SaslAuthenticateResponse,
            )
        if handshake.error_code or answer.error_code:
            raise FailedError(f"a login was answered with {answer}")
        return (time.perf_counter() - began - 2 * _BETWEEN_SEGMENTS_S) * 1000

    @staticmethod
    def _in_segments(wire: Wire, prepared: Prepared, at: int) -> memoryview:
        wire.send(Prepared(prepared.frame[:at], prepared.header))
        time.sleep(_BETWEEN_SEGMENTS_S)
        wire.send(Prepared(prepared.frame[at:], prepared.header))
        return wire.receive()


class Probing(Deed):
    """Asks the status page whether the broker is healthy, as an orchestrator does."""

    def __init__(self, address: str, patience_s: float) -> None:
        self._address = address
        self._patience_s = patience_s

    def wait_ms(self) -> float:
        began = time.perf_counter()
        connection = http.client.HTTPConnection(self._address, timeout=self._patience_s)
        try:
            connection.request("GET", "/healthz")
            if (status := connection.getresponse().status) != http.client.OK:
                raise FailedError(f"the probe was answered with {status}")
        finally:
            connection.close()
        return (time.perf_counter() - began) * 1000


class Order:
    """The task of this process."""

    def __init__(self, stated: argparse.Namespace) -> None:
        self.bootstrap: str = stated.bootstrap
        self.sasl: str = stated.sasl
        self.status: str | None = stated.status
        self.seconds: float = stated.seconds
        self.patience_s: float = stated.patience
        self.acknowledged: dict[str, set[int]] = {_SMALL: set(), _LARGE: set()}

    def wire(self) -> Wire:
        return Wire(self.bootstrap, self.patience_s)

    def kinds(self) -> list[Kind]:
        """Every client."""
        made = [
            self._producing("produce_30kb", _SMALL, 30_000),
            self._producing("produce_900kb", _LARGE, 900_000),
            Kind("fetch", lambda: Fetching(self.wire())),
            Kind("look_up", self._looking_up),
            Kind("login", lambda: LoggingIn(self.sasl, self.patience_s)),
        ]
        if (address := self.status) is not None:
            made.append(Kind("probe", lambda: Probing(address, self.patience_s)))
        return made

    def _producing(self, name: str, topic: str, size: int) -> Kind:
        records = bytes(build_batch([Record(0, _FIRST_MS, None, bytes(size))]))
        return Kind(name, lambda: Producing(self.wire(), topic, records, self.acknowledged[topic]))

    def _looking_up(self) -> LookingUp:
        middle = _RECORDS // 2
        return LookingUp(self.wire(), _LOOKED_UP, _FIRST_MS + middle, middle)

    def fill(self) -> None:
        """Produce what is fetched and looked up, unless it is there. Raises WireError."""
        value = bytes(1_000)
        records = [Record(0, _FIRST_MS + number, None, value) for number in range(_RECORDS)]
        packed = build_batch(records, compression=CompressionType.GZIP)
        for topic, batch in ((_FETCHED, build_batch(records[:30])), (_LOOKED_UP, packed)):
            with self.wire() as wire:
                if not end_of(wire, topic):
                    Producing(wire, topic, bytes(batch), set()).wait_ms()

    def lost(self) -> int:
        """How many acknowledged records are not in the log. Raises WireError."""
        count = 0
        for topic, offsets in self.acknowledged.items():
            with Wire(self.bootstrap, _LAST_ANSWER_S) as wire:
                end = end_of(wire, topic)
            count += sum(offset >= end for offset in offsets)
        return count


def end_of(wire: Wire, topic: str) -> int:
    """The end offset of a topic's only partition."""
    look_up = LookingUp(wire, topic, _LATEST, None)
    look_up.wait_ms()
    return look_up.offset


def run(order: Order) -> tuple[dict[str, float], "array[float]"]:
    """Let all clients work at the same time; returns the figures, and what each waited for."""
    order.fill()
    kinds = order.kinds()
    began = time.perf_counter()
    threads = [threading.Thread(target=kind.run, args=(began, order.seconds)) for kind in kinds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    figures: dict[str, float] = {"failed": sum(kind.failed for kind in kinds)}
    for kind in kinds:
        figures[f"{kind.name}_worst_ms"] = kind.worst_ms
        figures[f"{kind.name}_failed"] = kind.failed
    figures["lost"] = order.lost()
    pairs = array("d")
    for kind in kinds:
        pairs.extend(kind.pairs)
    return figures, pairs


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser("healthy")
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--sasl", required=True)
    parser.add_argument("--status")
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--patience", type=float, required=True)
    figures, pairs = run(Order(parser.parse_args(arguments)))
    leave_latencies(pairs)
    print(json.dumps(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
