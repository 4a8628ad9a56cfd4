"""The two files that a formatted directory has before its first start (Kafka's `Formatter`).

    bootstrap.checkpoint                    in every log directory: the features of a new cluster
    __cluster_metadata-0/
      00000000000000000000-0000000000.checkpoint
                                            dynamic voters: the first ones, and kraft.version 1

Both have the form of a snapshot. A directory of static voters has only the first.
"""

from collections.abc import Sequence

from ...clients.errors import KafkaError
from ...clients.protocol.codec import encode_bytes
from ...clients.protocol.messages.quorum_records import KRaftVersionRecord
from ...clients.protocol.schema import Message
from ...clients.record.control import ControlRecordType
from ...storage.directory.log_dir import LogDirError
from ...storage.files import Files
from ..quorum.control_records import decode_voters, encode_voters
from ..raft.voter_set import VoterSet
from .snapshot_format import (
    SNAPSHOT_SUFFIX,
    QuorumRecord,
    SnapshotContent,
    SnapshotDamagedError,
    SnapshotId,
    snapshot_batches,
)

BOOTSTRAP_FILE = "bootstrap.checkpoint"
DYNAMIC_VOTERS = 1
"""The `kraft.version` whose voters are records."""

_FIRST = SnapshotId(0, 0)
FIRST_SNAPSHOT_FILE = f"{_FIRST}{SNAPSHOT_SUFFIX}"


def bootstrap_snapshot(records: Sequence[Message], now_ms: int) -> bytes:
    """The content of `bootstrap.checkpoint`: the first records of a new cluster."""
    return b"".join(snapshot_batches(_FIRST, records, last_timestamp_ms=0, now_ms=now_ms))


def read_bootstrap(files: Files, directory: str) -> list[Message] | None:
    """The first records of a new cluster, as the log directory was formatted; None without them.

    Raises OSError, or LogDirError if the file cannot be read.
    """
    path = f"{directory}/{BOOTSTRAP_FILE}"
    if not files.exists(path):
        return None
    try:
        content = SnapshotContent(_FIRST, files.read(path))
        return [record for batch in content.records() for record in batch]
    except (SnapshotDamagedError, KafkaError) as error:
        raise LogDirError(
            f"{path} cannot be read, {error}: format the directory again, or restore the file."
        ) from error


def first_snapshot(voters: VoterSet, now_ms: int) -> bytes:
    """The content of the first snapshot of a metadata log with dynamic voters."""
    version = KRaftVersionRecord(version=0, kraft_version=DYNAMIC_VOTERS)
    quorum = [
        QuorumRecord(ControlRecordType.KRAFT_VERSION, encode_bytes(version, 0)),
        QuorumRecord(ControlRecordType.KRAFT_VOTERS, encode_voters(voters)),
    ]
    batches = snapshot_batches(_FIRST, (), last_timestamp_ms=now_ms, now_ms=now_ms, quorum=quorum)
    return b"".join(batches)


def read_first_snapshot(files: Files, directory: str) -> SnapshotContent | None:
    """The first snapshot in the directory of a metadata log, if it was formatted with one.

    Raises OSError, or LogDirError if it is damaged.
    """
    path = f"{directory}/{FIRST_SNAPSHOT_FILE}"
    if not files.exists(path):
        return None
    try:
        return SnapshotContent(_FIRST, files.read(path))
    except SnapshotDamagedError as error:
        raise LogDirError(
            f"{path} is damaged, {error}: format the directory again, or restore the file."
        ) from error


def recorded_voters(quorum: Sequence[QuorumRecord]) -> VoterSet | None:
    """The voters in control records; None if there are none. Raises KafkaError."""
    for kind, value in quorum:
        if kind is ControlRecordType.KRAFT_VOTERS:
            return decode_voters(value)
    return None
