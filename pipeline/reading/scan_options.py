"""The options of `spark.read.format("tierlog")`, parsed into one value.

    path                          fsspec URL of the tier, as the broker's rsm.config.url
    storage.<name>                an option of the tier's file system, as rsm.config.option.<name>
    topic, subscribe, subscribePattern, assign, partition    what to read (`topic_choice.py`)
    startingOffsets               earliest, latest or JSON {"topic": {"0": 23, "1": -2}}
    startingTimestamp             milliseconds, for every partition
    startingOffsetsByTimestamp    JSON {"topic": {"0": 1700000000000}}
    endingOffsets, endingTimestamp, endingOffsetsByTimestamp      the same; exclusive
    startingOffsetsByTimestampStrategy   error or latest, if no record is that recent
    topicIds                      JSON {"topic": "its id"}: a topic with another id ends the query
    isolation                     read_uncommitted or read_committed
    failOnDataLoss                true or false: whether missing offsets fail the query
    mayBeCompacted                true or false: whether offsets that are missing inside a segment,
                                  as after a compaction, are no loss
    columns                       the columns to read, separated by commas; default all
    includeHeaders                true or false: whether the default columns include headers
    maxPartitionBytes             about how many bytes of segments a task reads
    minPartitions                 about how many tasks there are at least
    maxRecordsPerPartition        the most offsets in a task
    maxOffsetsPerTrigger          streams: about the most offsets in a micro-batch
    minOffsetsPerTrigger          streams: wait for so many offsets, but not longer than
    maxTriggerDelay               this, as 15m, 30s or 250ms

Names, formats and defaults are those of Spark's Kafka source where it has the same option, but
includeHeaders is true by default. So in JSON -2 is earliest and -1 latest, a batch starts at the
earliest offset and a stream at the latest, offsets as JSON must name every partition, and an
impossible bound of a batch (starting at latest, ending at earliest) is rejected. Case does not
matter in option names, because Spark passes them in lower case.

Of the options for a Kafka consumer, `kafka.isolation.level` means the same as `isolation`. The
others are about connections, groups and polls, which a scan of a tier does not have: they are
refused, so that no option looks as if it did something.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, cast

from ...clients.errors import KafkaError
from ...clients.kafka_uuid import Uuid, uuid_from_string, uuid_to_string
from ...clients.topic_partition import TopicPartition
from ...tiering.store.remote_url import RemoteUrl, remote_url
from .option_values import (
    ScanError as ScanError,
    duration_ms,
    number_if_stated,
    one_of,
    whole_number,
    words,
)
from .row_filter import RowFilter
from .topic_choice import STRATEGIES, topic_choice

EARLIEST = -2
LATEST = -1

TRIGGER_DELAY_MS = 15 * 60_000
"""The default of Spark's Kafka source."""

PARTITION_BYTES = 128 * 1024 * 1024
"""The default of Spark's own file sources."""

STORAGE_PREFIX = "storage."

_USER_INFO = re.compile("//.*@", re.DOTALL)
"""What may hold a password."""

_KAFKA_ISOLATION = "kafka.isolation.level"

HEADERS = "headers"

COLUMNS: Mapping[str, str] = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    HEADERS: "array<struct<key:string,value:binary>>",
}
"""The columns of Spark's Kafka source: names and Spark SQL types."""

NULLABLE = frozenset({"key", "value", HEADERS})
"""The columns that may be null; every record has the others."""

_STATED_NAMES = (
    *("path", *STRATEGIES, "partition", "topicIds", "isolation", _KAFKA_ISOLATION),
    *("failOnDataLoss", "mayBeCompacted", "columns", "includeHeaders"),
    *("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp"),
    *("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"),
    *("startingOffsetsByTimestampStrategy", "maxPartitionBytes", "minPartitions"),
    *("maxRecordsPerPartition", "maxOffsetsPerTrigger", "minOffsetsPerTrigger"),
    "maxTriggerDelay",
)
_NAMES = frozenset(name.lower() for name in _STATED_NAMES)

_CONSUMER_NAMES = ("kafka.", "kafkaconsumer.", "fetchoffset.", "groupidprefix")
"""How the names of the Kafka source's options begin that are for its consumers alone."""


TopicIds: TypeAlias = Mapping[str, Uuid]
"""Ids by topic name; a topic whose id is unknown is not in it."""


@dataclass(frozen=True, slots=True)
class Bound:
    """The start or end of a scan: an offset or a time, for all partitions or for each."""

    everywhere: int | None
    """EARLIEST, LATEST or, by time, milliseconds; None if each partition has its own."""
    each: Mapping[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])
    by_time: bool = False


@dataclass(frozen=True, slots=True)
class ScanOptions:
    """The parsed options of a scan."""

    path: str = field(repr=False)
    topics: tuple[str, ...]
    """The names; with a pattern, those that the tier's listing has shown (`tier_topics.py`)."""
    storage_options: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    partitions: frozenset[int] = frozenset()
    """Of each topic; all if empty."""
    assigned: frozenset[TopicPartition] = frozenset()
    """Only these partitions; all of the topics if empty."""
    topic_pattern: str | None = None
    """The topics are those whose whole names match it, whenever the scan lists the tier."""
    topic_ids: TopicIds = field(default_factory=dict[str, Uuid])
    """The scan ends if one of these topics has another id."""
    starting: Bound = Bound(EARLIEST)
    ending: Bound = Bound(LATEST)
    later_start_is_latest: bool = False
    """Whether a starting time after every record means latest; otherwise it is an error."""
    is_read_committed: bool = False
    fail_on_data_loss: bool = True
    may_be_compacted: bool = False
    """Offsets that are missing between two batches of a segment are no loss."""
    columns: tuple[str, ...] = tuple(COLUMNS)
    max_partition_bytes: int = PARTITION_BYTES
    min_partitions: int | None = None
    """About the fewest tasks."""
    max_records_per_partition: int | None = None
    """The most offsets of a task."""
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = TRIGGER_DELAY_MS
    """The longest wait for `min_offsets_per_trigger`."""
    row_filter: RowFilter = field(default_factory=RowFilter)
    """The bounds from the query's own conditions."""

    def chooses(self, partition: TopicPartition) -> bool:
        """Whether a partition of one of the topics is to be read."""
        if self.assigned:
            return partition in self.assigned
        return not self.partitions or partition.partition in self.partitions

    @property
    def location(self) -> RemoteUrl:
        """The tier's location. Raises ScanError if the path is invalid."""
        url = f"file://{self.path}" if self.path.startswith("/") else self.path
        properties = {f"option.{name}": value for name, value in self.storage_options.items()}
        try:
            return remote_url({**properties, "url": url})
        except KafkaError as error:
            reason = error.message.partition("rsm.config: ")[2] or error.message
            shown = _USER_INFO.sub("//***@", self.path)
            raise ScanError(f"The option path={shown!r} names no tier: {reason}") from None


def scan_options(stated: Mapping[str, str], *, streaming: bool = False) -> ScanOptions:
    """Parse the options of a Spark read. Raises ScanError, which names the option."""
    options = {name.lower(): value for name, value in stated.items()}
    _check_option_names(options)
    if not options.get("path", "").strip():
        raise ScanError("format('tierlog') needs the option 'path'")
    choice = topic_choice(options)
    starting, ending = _bounds(options, streaming=streaming)
    at_least, at_most = (
        number_if_stated(options, f"{name}OffsetsPerTrigger") for name in ("min", "max")
    )
    if at_least is not None and at_most is not None and at_least > at_most:
        raise ScanError(
            f"The value of minOffsetsPerTrigger ({at_least}) is higher than "
            f"maxOffsetsPerTrigger ({at_most})"
        )
    parsed = ScanOptions(
        path=options["path"].strip(),
        topics=choice.topics,
        storage_options={
            name.removeprefix(STORAGE_PREFIX): value
            for name, value in options.items()
            if name.startswith(STORAGE_PREFIX)
        },
        partitions=choice.partitions,
        assigned=choice.assigned,
        topic_pattern=choice.pattern,
        topic_ids=_topic_ids(options.get("topicids", "{}")),
        starting=starting,
        ending=ending,
        later_start_is_latest=one_of(
            options, "startingOffsetsByTimestampStrategy", "error", "latest"
        ),
        is_read_committed=_is_read_committed(options),
        fail_on_data_loss=one_of(options, "failOnDataLoss", "false", "true", default=True),
        may_be_compacted=one_of(options, "mayBeCompacted", "false", "true"),
        columns=columns_option(options),
        max_partition_bytes=number_if_stated(options, "maxPartitionBytes") or PARTITION_BYTES,
        min_partitions=number_if_stated(options, "minPartitions"),
        max_records_per_partition=number_if_stated(options, "maxRecordsPerPartition"),
        max_offsets_per_trigger=at_most,
        min_offsets_per_trigger=at_least,
        max_trigger_delay_ms=duration_ms(
            "maxTriggerDelay", options.get("maxtriggerdelay", f"{TRIGGER_DELAY_MS}ms")
        ),
    )
    _ = parsed.location
    return parsed


def _check_option_names(options: Mapping[str, str]) -> None:
    for name in options:
        if name in _NAMES or name.startswith(STORAGE_PREFIX):
            continue
        if name.startswith(_CONSUMER_NAMES):
            raise ScanError(
                f"format('tierlog') has no option {name!r}: it reads the tier and contacts no "
                "broker, so leave out the options of a Kafka consumer, except "
                f"{_KAFKA_ISOLATION}"
            )
        names = ", ".join(sorted((*_STATED_NAMES, f"{STORAGE_PREFIX}<name>"), key=str.lower))
        raise ScanError(f"format('tierlog') has no option {name!r}; it has {names}")


def _is_read_committed(options: Mapping[str, str]) -> bool:
    levels = {
        one_of(options, name, "read_uncommitted", "read_committed")
        for name in ("isolation", _KAFKA_ISOLATION)
        if name in options
    }
    if len(levels) > 1:
        raise ScanError(f"The options isolation and {_KAFKA_ISOLATION} contradict each other")
    return True in levels


def _bounds(options: Mapping[str, str], *, streaming: bool) -> tuple[Bound, Bound]:
    """The start and the end of the scan. Raises ScanError."""
    if streaming and any(name.startswith("ending") for name in options):
        raise ScanError(
            "A stream has no end: endingOffsets and endingOffsetsByTimestamp are for batch "
            "reads only"
        )
    starting = _bound(options, "starting", LATEST if streaming else EARLIEST)
    ending = _bound(options, "ending", LATEST)
    if not streaming and _is_anywhere(starting, LATEST):
        raise ScanError("startingOffsets: a batch cannot begin at 'latest'")
    if _is_anywhere(ending, EARLIEST):
        raise ScanError("endingOffsets: a scan cannot end at 'earliest'")
    if starting.by_time == ending.by_time:
        for partition, first in starting.each.items():
            end = ending.each.get(partition, LATEST)
            if first > end >= 0:
                raise ScanError(
                    f"The scan of {partition} begins at {first}, which is beyond its end {end}"
                )
    return starting, ending


def columns_option(stated: Mapping[str, str]) -> tuple[str, ...]:
    """The columns selected by the options of a Spark read. Raises ScanError."""
    options = {name.lower(): value for name, value in stated.items()}
    has_headers = one_of(options, "includeHeaders", "false", "true", default=True)
    if "columns" not in options:
        return tuple(name for name in COLUMNS if has_headers or name != HEADERS)
    if "includeheaders" in options:
        raise ScanError("The options columns and includeHeaders exclude each other")
    names = {name.lower(): name for name in COLUMNS}
    columns = tuple(dict.fromkeys(words(options["columns"].lower())))
    for word in columns or ("",):
        if word not in names:
            raise ScanError(
                f"The option columns={options['columns']!r}: {word!r} is not one of "
                f"{', '.join(COLUMNS)}"
            )
    return tuple(names[word] for word in columns)


def _topic_ids(text: str) -> TopicIds:
    try:
        return topic_ids_from_json(json.loads(text))
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise ScanError(
            f'The option topicIds={text!r} is not JSON of the form {{"topic": "id"}}'
        ) from None


def _is_anywhere(bound: Bound, offset: int) -> bool:
    return not bound.by_time and (bound.everywhere == offset or offset in bound.each.values())


def _bound(options: Mapping[str, str], side: str, usual: int) -> Bound:
    """One bound. As in Spark's Kafka source, a single time is preferred to times as JSON, and both
    to offsets."""
    time = options.get(f"{side}timestamp")
    if time is not None:
        return Bound(whole_number(f"{side}Timestamp", time, at_least=0), by_time=True)
    times = options.get(f"{side}offsetsbytimestamp")
    if times is not None:
        return Bound(None, _by_partition(f"{side}OffsetsByTimestamp", times, 0), by_time=True)
    text = options.get(f"{side}offsets", "").strip()
    if not text:
        return Bound(usual)
    name = f"{side}Offsets"
    if text.lower() in ("earliest", "latest"):
        return Bound(EARLIEST if text.lower() == "earliest" else LATEST)
    return Bound(None, _by_partition(name, text, EARLIEST))


def _by_partition(name: str, text: str, at_least: int) -> dict[TopicPartition, int]:
    """Numbers by partition, from JSON of the form {"topic": {"0": 23}}."""
    try:
        return offsets_from_json(json.loads(text), at_least)
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise ScanError(
            f"The option {name}={text!r} is not 'earliest', 'latest' or JSON of the form "
            '{"topic": {"0": 23, "1": -2}}'
            if name.endswith("Offsets")
            else f'The option {name}={text!r} is not JSON of the form {{"topic": {{"0": 1700}}}}'
        ) from None


def offsets_from_json(content: object, at_least: int = 0) -> dict[TopicPartition, int]:
    """Numbers by topic and partition. Raises ValueError, TypeError or AttributeError."""
    offsets: dict[TopicPartition, int] = {}
    for topic, partitions in cast("dict[str, dict[str, int]]", content).items():
        for partition, number in partitions.items():
            # In Python, a JSON true is also an int.
            if type(number) is not int or number < at_least:
                raise ValueError(number)
            offsets[TopicPartition(topic, int(partition))] = number
    return offsets


def offsets_to_json(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """Offsets in the form that `offsets_from_json` reads, sorted."""
    by_topic: dict[str, dict[str, int]] = {}
    for partition, number in sorted(offsets.items()):
        by_topic.setdefault(partition.topic, {})[str(partition.partition)] = number
    return by_topic


def topic_ids_from_json(content: object) -> TopicIds:
    """Ids by topic. Raises ValueError, TypeError or AttributeError."""
    return {
        topic: uuid_from_string(text) for topic, text in cast("dict[str, str]", content).items()
    }


def topic_ids_to_json(topic_ids: TopicIds) -> dict[str, str]:
    """Ids in the form that `topic_ids_from_json` reads, sorted."""
    return {topic: uuid_to_string(each) for topic, each in sorted(topic_ids.items())}
