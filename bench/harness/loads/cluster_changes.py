"""A stream of changes of metadata at all brokers of a cluster, and what must have become of each.

Nothing is sent again, so that each change has one outcome. Only what was answered counts: a change
without an answer may be there, and a refusal that may come from a leader that has lost its lead
(NOT_CONTROLLER, a timeout) proves nothing either.
"""

import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, Self

from ....clients.errors import ErrorCode
from ....clients.protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ....clients.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ....clients.protocol.schema import Message
from ....replication.metadata.metadata_records import ConfigRecord, TopicRecord
from ..measurement_error import MeasurementError
from ..requests.wire import Wire, WireError, create_topic

SETTING = "retention.ms"
_TOPIC_RESOURCE = 2
_CREATE_VERSION = 7
_ALTER_VERSION = 1
_ANSWER_WITHIN_S = 20.0
_SERVER_TIMEOUT_MS = 10_000
_RECONNECT_S = 0.02
_PAUSE_S = 0.05
"""Between two changes of a thread."""
_CONFIGS_A_TOPIC = 5
_FIRST_VALUE = 1_000_000_000
_TOO_MANY_REPLICAS = 99

DECIDED = frozenset(
    {
        ErrorCode.INVALID_REPLICATION_FACTOR,
        ErrorCode.INVALID_CONFIG,
        ErrorCode.INVALID_REQUEST,
    }
)
"""The refusals of changes that can never be made."""


class Outcome(Enum):
    """What is known of a change."""

    ACKNOWLEDGED = "acknowledged"
    REFUSED = "refused"
    UNKNOWN = "unknown"


class Kind(Enum):
    """The kinds of changes."""

    TOPIC = "a new topic"
    CONFIG = "a topic's setting"


class Change(NamedTuple):
    """One change: of `topic`, and for a setting to which value; when it began and ended."""

    kind: Kind
    topic: str
    value: str
    outcome: Outcome
    began: float
    ended: float
    said: str = ""

    @property
    def subject(self) -> str:
        return f"{self.topic} {self.value}".strip()


class ChangeStream:
    """One thread a broker, each with its own topics; a thread whose broker is gone asks others.

    with ChangeStream([node.bootstrap for node in cluster.brokers], "a") as stream:
        ...
    wrong = wrong_changes(stream.history, records)
    """

    def __init__(self, brokers: Sequence[str], name: str) -> None:
        """`name` is in the names of its topics."""
        self._brokers = list(brokers)
        self._name = name
        self._ends = threading.Event()
        self._lock = threading.Lock()
        self._history: list[Change] = []
        self._threads = [
            threading.Thread(target=self._work, args=(at,), name=f"changes-{at}")
            for at in range(len(brokers))
        ]

    @property
    def history(self) -> list[Change]:
        """All changes so far, in the order of their ends."""
        with self._lock:
            return list(self._history)

    def acknowledged_since(self, moment: float) -> bool:
        """Whether a change that began after that moment (`time.monotonic`) is acknowledged."""
        return any(
            entry.began > moment and entry.outcome is Outcome.ACKNOWLEDGED for entry in self.history
        )

    def wait_for_acknowledgement(self, timeout_s: float) -> None:
        """Wait until a change that begins from now on is acknowledged; or MeasurementError."""
        began = time.monotonic()
        while not self.acknowledged_since(began):
            if time.monotonic() - began > timeout_s:
                last = [f"{entry.kind.value}: {entry.said}" for entry in self.history[-5:]]
                raise MeasurementError(f"No change was acknowledged within {timeout_s:g} s: {last}")
            time.sleep(0.01)

    def __enter__(self) -> Self:
        with Wire(self._brokers[0]) as wire:
            for at in range(len(self._brokers)):
                create_topic(wire, _settings_topic(self._name, at), 1, {})
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        for thread in self._threads:
            thread.join()

    def _work(self, at: int) -> None:
        broker = _Broker(self._brokers, at)
        number = 0
        while not self._ends.is_set():
            change = _change(broker, self._name, at, number)
            with self._lock:
                self._history.append(change)
            number += 1
            self._ends.wait(_PAUSE_S)
        broker.close()


class _Broker:
    """A connection to one broker after the other."""

    def __init__(self, brokers: Sequence[str], at: int) -> None:
        self._brokers = brokers
        self._at = at
        self._wire: Wire | None = None

    def ask(self, request: Message, version: int, expected: type[Message]) -> Message:
        """Send a request once. Raises WireError, after which the next broker is asked."""
        try:
            if self._wire is None:
                self._wire = Wire(self._brokers[self._at % len(self._brokers)], _ANSWER_WITHIN_S)
            return self._wire.ask(request, version, expected)
        except WireError:
            self.close()
            self._at += 1
            time.sleep(_RECONNECT_S)
            raise

    def close(self) -> None:
        if self._wire is not None:
            self._wire.close()
            self._wire = None


def _settings_topic(name: str, at: int) -> str:
    return f"settings-{name}-{at}"


def _change(broker: _Broker, name: str, at: int, number: int) -> Change:
    """Make the change of that number; some can never be made, and must be refused."""
    began = time.monotonic()
    kind, topic, value = Kind.CONFIG, _settings_topic(name, at), str(_FIRST_VALUE + number)
    try:
        match number % (2 * _CONFIGS_A_TOPIC):
            case 0:
                kind, topic, value = Kind.TOPIC, f"changes-{name}-{at}-{number}", ""
                code = _create(broker, topic, 1)
            case 5:
                kind, topic, value = Kind.TOPIC, f"refused-{name}-{at}-{number}", ""
                code = _create(broker, topic, _TOO_MANY_REPLICAS)
            case 7:
                value = str(-_FIRST_VALUE - number)
                code = _set(broker, topic, value)
            case _:
                code = _set(broker, topic, value)
    except WireError as error:
        ended = time.monotonic()
        return Change(kind, topic, value, Outcome.UNKNOWN, began, ended, str(error))
    outcome = Outcome.REFUSED if code in DECIDED else Outcome.UNKNOWN
    if code is ErrorCode.NONE:
        outcome = Outcome.ACKNOWLEDGED
    return Change(kind, topic, value, outcome, began, time.monotonic(), code.name)


def _create(broker: _Broker, topic: str, replicas: int) -> ErrorCode:
    creatable = CreatableTopic(name=topic, num_partitions=1, replication_factor=replicas)
    request = CreateTopicsRequest(topics=[creatable], timeout_ms=_SERVER_TIMEOUT_MS)
    answer = broker.ask(request, _CREATE_VERSION, CreateTopicsResponse)
    assert isinstance(answer, CreateTopicsResponse)
    return ErrorCode(answer.topics[0].error_code)


def _set(broker: _Broker, topic: str, value: str) -> ErrorCode:
    setting = AlterableConfig(name=SETTING, config_operation=0, value=value)
    resource = AlterConfigsResource(
        resource_type=_TOPIC_RESOURCE, resource_name=topic, configs=[setting]
    )
    request = IncrementalAlterConfigsRequest(resources=[resource])
    answer = broker.ask(request, _ALTER_VERSION, IncrementalAlterConfigsResponse)
    assert isinstance(answer, IncrementalAlterConfigsResponse)
    return ErrorCode(answer.responses[0].error_code)


@dataclass(slots=True)
class _Written:
    """What the metadata log has of topics and of the setting."""

    topics: Counter[str] = field(default_factory=Counter[str])
    settings: Counter[str] = field(default_factory=Counter[str])
    order: dict[str, list[str]] = field(default_factory=dict[str, list[str]])


def _written(records: Iterable[Message]) -> _Written:
    written = _Written()
    for record in records:
        if isinstance(record, TopicRecord):
            written.topics[record.name] += 1
        elif isinstance(record, ConfigRecord) and record.name == SETTING:
            value = record.value or ""
            written.settings[f"{record.resource_name} {value}"] += 1
            written.order.setdefault(record.resource_name, []).append(value)
    return written


def wrong_changes(history: Iterable[Change], records: Iterable[Message]) -> list[str]:
    """Check each change against the committed records of the whole log; one sentence a violation.

    What was acknowledged is there once, in its order; what was refused is not there; nothing is
    there twice.
    """
    written = _written(records)
    wrong: list[str] = []
    acknowledged: dict[str, list[str]] = {}
    for change in history:
        times = (written.topics if change.kind is Kind.TOPIC else written.settings)[change.subject]
        least, most = {
            Outcome.ACKNOWLEDGED: (1, 1),
            Outcome.REFUSED: (0, 0),
            Outcome.UNKNOWN: (0, 1),
        }[change.outcome]
        if not least <= times <= most:
            wrong.append(f"{change.subject} was {change.outcome.value} and is there {times} times.")
        if change.kind is Kind.CONFIG and change.outcome is Outcome.ACKNOWLEDGED:
            acknowledged.setdefault(change.topic, []).append(change.value)
    for topic, values in acknowledged.items():
        there = [value for value in written.order.get(topic, ()) if value in set(values)]
        if not wrong and there != values:
            wrong.append(f"The settings of {topic} are in another order.")
    return wrong
