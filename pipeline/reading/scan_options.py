"""The options of `spark.read.format("tierlog")`, parsed into one value.

    path                          fsspec URL of the tier, as the broker's rsm.config.url
    storage.<name>                an option of the tier's file system, as rsm.config.option.<name>
    topic                         one name, or several separated by commas
    partition                     one number, or several; all if not given
    startingOffsets               earliest, latest or JSON {"topic": {"0": 23, "1": -2}}
    startingTimestamp             milliseconds, for every partition
    startingOffsetsByTimestamp    JSON {"topic": {"0": 1700000000000}}
    endingOffsets, endingTimestamp, endingOffsetsByTimestamp      the same; exclusive
    startingOffsetsByTimestampStrategy   error or latest, if no record is that recent
    topicIds                      JSON {"topic": "its id"}: a topic with another id ends the query
    isolation                     read_uncommitted or read_committed
    failOnDataLoss                true or false: whether missing offsets fail the query
    columns                       the columns to read, separated by commas; default all
    includeHeaders                true or false: whether the default columns include headers
    maxPartitionBytes             about how many bytes of segments a task reads
    maxOffsetsPerTrigger          streams: about the most offsets in a micro-batch

Names, formats and defaults are those of Spark's Kafka source where it has the same option, but
includeHeaders is true by default. So in JSON -2 is earliest and -1 latest, a batch starts at the
earliest offset and a stream at the latest, offsets as JSON must name every partition, and an
impossible bound of a batch (starting at latest, ending at earliest) is rejected. Case does not
matter in option names, because Spark passes them in lower case.
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
from .row_filter import RowFilter

EARLIEST = -2
LATEST = -1

PARTITION_BYTES = 128 * 1024 * 1024
"""The default of Spark's own file sources."""

STORAGE_PREFIX = "storage."

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

_NAMES = frozenset(
    {
        *("path", "topic", "topicids", "partition", "isolation", "failondataloss"),
        *("columns", "includeheaders"),
        *("startingoffsets", "startingtimestamp", "startingoffsetsbytimestamp"),
        *("endingoffsets", "endingtimestamp", "endingoffsetsbytimestamp"),
        *("startingoffsetsbytimestampstrategy", "maxpartitionbytes", "maxoffsetspertrigger"),
    }
)


TopicIds: TypeAlias = Mapping[str, Uuid]
"""Ids by topic name; a topic whose id is unknown is not in it."""


class ScanError(Exception):
    """A scan cannot continue. The message is one plain line that names the problem."""


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
    storage_options: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    partitions: frozenset[int] = frozenset()
    """All if empty."""
    topic_ids: TopicIds = field(default_factory=dict[str, Uuid])
    """The scan ends if one of these topics has another id."""
    starting: Bound = Bound(EARLIEST)
    ending: Bound = Bound(LATEST)
    later_start_is_latest: bool = False
    """Whether a starting time after every record means latest; otherwise it is an error."""
    is_read_committed: bool = False
    fail_on_data_loss: bool = True
    columns: tuple[str, ...] = tuple(COLUMNS)
    max_partition_bytes: int = PARTITION_BYTES
    max_offsets_per_trigger: int | None = None
    row_filter: RowFilter = field(default_factory=RowFilter)
    """The bounds from the query's own conditions."""

    @property
    def location(self) -> RemoteUrl:
        """The tier's location. Raises ScanError if the path is invalid."""
        url = f"file://{self.path}" if self.path.startswith("/") else self.path
        properties = {f"option.{name}": value for name, value in self.storage_options.items()}
        try:
            return remote_url({**properties, "url": url})
        except KafkaError as error:
            reason = error.message.partition("rsm.config: ")[2] or error.message
            raise ScanError(f"The option path={self.path!r} names no tier: {reason}") from None


def scan_options(stated: Mapping[str, str], *, streaming: bool = False) -> ScanOptions:
    """Parse the options of a Spark read. Raises ScanError, which names the option."""
    options = {name.lower(): value for name, value in stated.items()}
    for name in options:
        if name not in _NAMES and not name.startswith(STORAGE_PREFIX):
            raise ScanError(f"format('tierlog') has no option {name!r}")
    for name in ("path", "topic"):
        if not options.get(name, "").strip():
            raise ScanError(f"format('tierlog') needs the option {name!r}")
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
    parsed = ScanOptions(
        path=options["path"].strip(),
        topics=tuple(dict.fromkeys(_words(options["topic"]))),
        storage_options={
            name.removeprefix(STORAGE_PREFIX): value
            for name, value in options.items()
            if name.startswith(STORAGE_PREFIX)
        },
        partitions=frozenset(
            _number("partition", word, at_least=0) for word in _words(options.get("partition", ""))
        ),
        topic_ids=_topic_ids(options.get("topicids", "{}")),
        starting=starting,
        ending=ending,
        later_start_is_latest=_one_of(
            options, "startingoffsetsbytimestampstrategy", "error", "latest"
        ),
        is_read_committed=_one_of(options, "isolation", "read_uncommitted", "read_committed"),
        fail_on_data_loss=_one_of(options, "failondataloss", "false", "true", default=True),
        columns=columns_option(options),
        max_partition_bytes=_number(
            "maxPartitionBytes", options.get("maxpartitionbytes", str(PARTITION_BYTES)), at_least=1
        ),
        max_offsets_per_trigger=(
            _number("maxOffsetsPerTrigger", options["maxoffsetspertrigger"], at_least=1)
            if "maxoffsetspertrigger" in options
            else None
        ),
    )
    _ = parsed.location
    return parsed


def columns_option(stated: Mapping[str, str]) -> tuple[str, ...]:
    """The columns selected by the options of a Spark read. Raises ScanError."""
    options = {name.lower(): value for name, value in stated.items()}
    has_headers = _one_of(options, "includeheaders", "false", "true", default=True)
    if "columns" not in options:
        return tuple(name for name in COLUMNS if has_headers or name != HEADERS)
    if "includeheaders" in options:
        raise ScanError("The options columns and includeHeaders exclude each other")
    names = {name.lower(): name for name in COLUMNS}
    columns = tuple(dict.fromkeys(_words(options["columns"].lower())))
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
    except (ValueError, TypeError, AttributeError):
        raise ScanError(
            f'The option topicIds={text!r} is not JSON of the form {{"topic": "id"}}'
        ) from None


def _words(text: str) -> list[str]:
    return [word for part in text.split(",") if (word := part.strip())]


def _number(name: str, text: str, *, at_least: int) -> int:
    if re.fullmatch(r"-?[0-9]{1,18}", text.strip()) and int(text) >= at_least:
        return int(text)
    raise ScanError(f"The option {name}={text!r} is not a whole number of at least {at_least}")


def _one_of(
    options: Mapping[str, str], name: str, no: str, yes: str, *, default: bool = False
) -> bool:
    text = options.get(name, yes if default else no).strip().lower()
    if text not in (no, yes):
        raise ScanError(f"The option {name}={options[name]!r} is neither {no} nor {yes}")
    return text == yes


def _is_anywhere(bound: Bound, offset: int) -> bool:
    return not bound.by_time and (bound.everywhere == offset or offset in bound.each.values())


def _bound(options: Mapping[str, str], side: str, usual: int) -> Bound:
    """One bound. As in Spark's Kafka source, a single time is preferred to times as JSON, and both
    to offsets."""
    time = options.get(f"{side}timestamp")
    if time is not None:
        return Bound(_number(f"{side}Timestamp", time, at_least=0), by_time=True)
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
    except (ValueError, TypeError, AttributeError):
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
