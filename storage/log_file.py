"""The names of a log's files and directories (Kafka's `LogFileUtils`, `UnifiedLog`).

The files of a segment are named after its base offset in 20 digits: `00000000000000000123.log`. The
directory of a partition is `topic-0`. A directory `topic-0.<id>-delete` will be deleted, and
`topic-0.<id>-future` holds a log that is being copied from another log directory. A log whose topic
id may be wrong is renamed to `topic-0.<id>-stray`, which only an operator may delete.
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
    """The offset in a file's name. Raises ValueError if the name does not start with one."""
    digits, dot, _ = name.partition(".")
    if not dot or not (digits.isascii() and digits.isdigit()):
        raise ValueError(f"file name {name!r} does not start with an offset")
    return int(digits)


def has_offset_name(name: str) -> bool:
    """Whether the file's name starts with an offset."""
    digits, dot, _ = name.partition(".")
    return bool(dot) and digits.isascii() and digits.isdigit()


def partition_directory_name(topic_partition: TopicPartition) -> str:
    """The directory name of a partition's log."""
    return f"{topic_partition.topic}-{topic_partition.partition}"


def deleted_directory_name(topic_partition: TopicPartition, unique_id: str) -> str:
    """The directory name of a log to be deleted, within the file system's length limit."""
    suffix = f"-{topic_partition.partition}.{unique_id}{DELETE_DIRECTORY_SUFFIX}"
    return topic_partition.topic[: MAX_NAME_LENGTH - len(suffix)] + suffix


def stray_directory_name(topic_partition: TopicPartition, unique_id: str) -> str:
    """The directory name of a stray log, within the file system's length limit."""
    suffix = f"-{topic_partition.partition}.{unique_id}{STRAY_DIRECTORY_SUFFIX}"
    return topic_partition.topic[: MAX_NAME_LENGTH - len(suffix)] + suffix


def future_directory_name(topic_partition: TopicPartition, unique_id: str) -> str:
    """The directory name of a log that is being copied from another log directory."""
    name = partition_directory_name(topic_partition)
    return f"{name}.{unique_id}{FUTURE_DIRECTORY_SUFFIX}"


def parse_future_directory(name: str) -> TopicPartition | None:
    """The partition of a `-future` directory; None for other names."""
    if not name.endswith(FUTURE_DIRECTORY_SUFFIX):
        return None
    return parse_partition_directory(name.removesuffix(FUTURE_DIRECTORY_SUFFIX).rpartition(".")[0])


def parse_partition_directory(name: str) -> TopicPartition | None:
    """The partition of a log directory such as `topic-0`; None for other names."""
    if name.endswith((DELETE_DIRECTORY_SUFFIX, STRAY_DIRECTORY_SUFFIX, FUTURE_DIRECTORY_SUFFIX)):
        return None
    topic, dash, partition = name.rpartition("-")
    if not (topic and dash and partition.isascii() and partition.isdigit()):
        return None
    return TopicPartition(topic, int(partition))
