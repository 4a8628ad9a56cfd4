"""Reads and writes Kafka's checkpoints, small text files (`CheckpointFile`).

A file is always replaced as a whole. The first line is the version, the second line the number of
entries; each further line is one entry:

    0
    2
    orders 0 1500          topic, partition, offset     (offset checkpoints of a log directory)
    0 0                    epoch, start offset          (leader-epoch-checkpoint of a log)

`partition.metadata` has the topic id of a log, so that a re-created topic does not inherit its
predecessor's files.
"""

from collections.abc import Iterable, Mapping, Sequence

from ..clients.kafka_uuid import Uuid, uuid_from_string, uuid_to_string
from ..clients.topic_partition import TopicPartition
from .files import Files

RECOVERY_POINT_FILE = "recovery-point-offset-checkpoint"
LOG_START_FILE = "log-start-offset-checkpoint"
HIGH_WATERMARK_FILE = "replication-offset-checkpoint"
CLEANER_OFFSET_FILE = "cleaner-offset-checkpoint"
LEADER_EPOCH_FILE = "leader-epoch-checkpoint"
PARTITION_METADATA_FILE = "partition.metadata"

_EPOCH_MAX = 2**31 - 1
_OFFSET_MAX = 2**63 - 1
_SHOWN = 40
"""How many characters of unexpected content an error message shows."""

_VERSION = 0


class MalformedCheckpointError(Exception):
    """A checkpoint file does not have the expected format."""


def _write(files: Files, path: str, lines: Sequence[str]) -> None:
    content = "".join(f"{line}\n" for line in (str(_VERSION), str(len(lines)), *lines))
    files.atomic_replace(path, content.encode("utf-8"))


def _read(files: Files, path: str) -> list[list[str]]:
    """The entries of a checkpoint, split into words; empty if the file is missing or empty."""
    try:
        content = files.read(path)
    except FileNotFoundError:
        return []
    return _entries(content, path) if content else []


def _entries(content: bytes, name: str) -> list[list[str]]:
    try:
        lines = content.decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise MalformedCheckpointError(f"{name} is not text.") from error
    if not lines or lines[0] != str(_VERSION):
        version = lines[0] if lines else ""
        raise MalformedCheckpointError(f"{name} has the unknown version {version[:_SHOWN]!r}.")
    entries = [line.split() for line in lines[2:]]
    if len(lines) < 2 or lines[1] != str(len(entries)):
        raise MalformedCheckpointError(
            f"{name} does not hold the number of entries that its header states."
        )
    return entries


def write_offset_checkpoint(files: Files, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Replace an offset checkpoint of a log directory, durably."""
    _write(files, path, [f"{tp.topic} {tp.partition} {offset}" for tp, offset in offsets.items()])


def read_offset_checkpoint(files: Files, path: str) -> dict[TopicPartition, int]:
    """The offsets in the file; empty if the file is missing.

    Raises MalformedCheckpointError for any content that Kafka does not write.
    """
    offsets: dict[TopicPartition, int] = {}
    for words in _read(files, path):
        try:
            topic, partition, offset = words
            key = TopicPartition(topic, int(partition))
            offsets[key] = int(offset)
            if offsets[key] < 0:
                raise ValueError("the offset is negative")
        except ValueError as error:
            raise MalformedCheckpointError(f"{path} is malformed in the line {words}.") from error
    return offsets


def format_epochs(epochs: Iterable[tuple[int, int]]) -> bytes:
    """A leader epoch checkpoint as bytes, the form that is also copied to the remote tier."""
    lines = [f"{epoch} {start}" for epoch, start in epochs]
    content = "".join(f"{line}\n" for line in (str(_VERSION), str(len(lines)), *lines))
    return content.encode("utf-8")


def write_epoch_checkpoint(
    files: Files, path: str, epochs: Iterable[tuple[int, int]], *, durable: bool = True
) -> None:
    """Replace the (epoch, start offset) list of a log."""
    files.atomic_replace(path, format_epochs(epochs), durable=durable)


def read_epoch_checkpoint(files: Files, path: str) -> list[tuple[int, int]]:
    """The (epoch, start offset) list of a log; empty if the file is missing."""
    return _epochs(_read(files, path), path)


def parse_epochs(content: bytes) -> list[tuple[int, int]]:
    """The (epoch, start offset) list of a checkpoint that came from the remote tier.

    Raises MalformedCheckpointError, also if the epochs or offsets are not ascending: a search of
    such a list might never end.
    """
    name = "the leader epoch checkpoint"
    epochs = _epochs(_entries(content, name), name)
    previous = (-1, -1)
    for epoch, start in epochs:
        if not (previous[0] < epoch <= _EPOCH_MAX and max(previous[1], 0) <= start <= _OFFSET_MAX):
            raise MalformedCheckpointError(f"{name} holds leader epochs that are out of order.")
        previous = (epoch, start)
    return epochs


def _epochs(entries: list[list[str]], name: str) -> list[tuple[int, int]]:
    try:
        return [(int(epoch), int(start)) for epoch, start in entries]
    except ValueError as error:
        raise MalformedCheckpointError(f"{name} holds a line that is not two numbers.") from error


def write_partition_metadata(
    files: Files, path: str, topic_id: Uuid, *, durable: bool = True
) -> None:
    """Write the topic id that a log directory belongs to."""
    content = f"version: {_VERSION}\ntopic_id: {uuid_to_string(topic_id)}"
    files.atomic_replace(path, content.encode("ascii"), durable=durable)


def read_partition_metadata(files: Files, path: str) -> Uuid | None:
    """The topic id in `partition.metadata`; None if the file is missing."""
    try:
        lines = files.read(path).decode("utf-8", "replace").splitlines()
    except FileNotFoundError:
        return None
    fields: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(": ")
        fields[name] = value
    if fields.get("version") != str(_VERSION):
        raise MalformedCheckpointError(f"{path} has an unknown version.")
    try:
        return uuid_from_string(fields.get("topic_id", ""))
    except ValueError as error:
        raise MalformedCheckpointError(f"{path} does not hold a topic id.") from error
