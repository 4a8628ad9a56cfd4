"""How the files and directories of a log are named (Kafka's `LogFileUtils`, `UnifiedLog`).

A segment's files carry its base offset in twenty digits: `00000000000000000123.log` and so on. A
partition's directory is `topic-0`; `topic-0.<id>-delete` is on its way out, and
`topic-0.<id>-future` on its way in, from another log directory. `topic-0.<id>-stray` is set aside,
because its topic id cannot be trusted; only a person removes it.
"""

from ..clients.topic_partition import TopicPartition

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TXN_INDEX_SUFFIX = ".txnindex"
SNAPSHOT_SUFFIX = ".snapshot"
DELETED_SUFFIX = ".deleted"
CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
DELETE_DIRECTORY_SUFFIX = "-delete"
STRAY_DIRECTORY_SUFFIX = "-stray"
FUTURE_DIRECTORY_SUFFIX = "-future"

MAX_NAME_LENGTH = 255


def file_path(directory: str, offset: int, suffix: str) -> str:
    """The path of a segment's file."""
    return f"{directory}/{offset:020d}{suffix}"


def snapshot_path(directory: str, offset: int) -> str:
    """The path of the producer snapshot taken at `offset`."""
    return f"{directory}/{offset:020d}{SNAPSHOT_SUFFIX}"


def offset_of(name: str) -> int:
    """The offset that a file is named after. ValueError if it is not one of ours."""
    digits, dot, _ = name.partition(".")
    if not dot or not (digits.isascii() and digits.isdigit()):
        raise ValueError(f"{name!r} is not named after an offset")
    return int(digits)


def has_offset_name(name: str) -> bool:
    """Whether the file is named after an offset."""
    digits, dot, _ = name.partition(".")
    return bool(dot) and digits.isascii() and digits.isdigit()


def partition_directory_name(topic_partition: TopicPartition) -> str:
    """The directory of a partition's log."""
    return f"{topic_partition.topic}-{topic_partition.partition}"


def deleted_directory_name(topic_partition: TopicPartition, unique_id: str) -> str:
    """The directory of a log on its way out; never longer than a file system allows."""
    suffix = f"-{topic_partition.partition}.{unique_id}{DELETE_DIRECTORY_SUFFIX}"
    return topic_partition.topic[: MAX_NAME_LENGTH - len(suffix)] + suffix


def stray_directory_name(topic_partition: TopicPartition, unique_id: str) -> str:
    """The directory of a log that is set aside; never longer than a file system allows."""
    suffix = f"-{topic_partition.partition}.{unique_id}{STRAY_DIRECTORY_SUFFIX}"
    return topic_partition.topic[: MAX_NAME_LENGTH - len(suffix)] + suffix


def future_directory_name(topic_partition: TopicPartition, unique_id: str) -> str:
    """The directory of a log that is being copied from another log directory."""
    name = partition_directory_name(topic_partition)
    return f"{name}.{unique_id}{FUTURE_DIRECTORY_SUFFIX}"


def parse_future_directory(name: str) -> TopicPartition | None:
    """The partition that is being copied into a directory of this name; None for others."""
    if not name.endswith(FUTURE_DIRECTORY_SUFFIX):
        return None
    return parse_partition_directory(name.removesuffix(FUTURE_DIRECTORY_SUFFIX).rpartition(".")[0])


def parse_partition_directory(name: str) -> TopicPartition | None:
    """The partition whose log lives in a directory of this name; None for other directories."""
    if name.endswith((DELETE_DIRECTORY_SUFFIX, STRAY_DIRECTORY_SUFFIX, FUTURE_DIRECTORY_SUFFIX)):
        return None
    topic, dash, partition = name.rpartition("-")
    if not (topic and dash and partition.isascii() and partition.isdigit()):
        return None
    return TopicPartition(topic, int(partition))
