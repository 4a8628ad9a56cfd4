"""The persisted state of a voter: the epoch, its vote and the leader (`quorum-state`, KIP-595).

It is on the disk before anything is done in an epoch, so that no node votes twice in an epoch or
leads in a past one. Data version 0 is written for `kraft.version` 0 (static voters), data version 1
from `kraft.version` 1 on (Kafka's `ElectionState` and `FileQuorumStateStore`).
"""

import json
from typing import TYPE_CHECKING, NamedTuple, cast

from ...clients.errors import ErrorCode, KafkaError
from ...clients.kafka_uuid import ZERO_UUID, uuid_from_string, uuid_to_string
from ...storage.files import Files
from .voter_set import VoterKey

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

QUORUM_STATE_FILE = "quorum-state"

_NO_ID = -1


class ElectionState(NamedTuple):
    """What a node has done in the latest epoch that it knows."""

    epoch: int = 0
    leader_id: int | None = None
    voted_key: VoterKey | None = None
    """Who has this node's vote in the epoch."""
    voter_ids: tuple[int, ...] = ()
    """The static voters; only in data version 0, and only for people."""

    def is_voted(self, key: VoterKey) -> bool:
        """Whether this node has voted for the key. A vote without directory counts for its id."""
        voted = self.voted_key
        if voted is None or voted.id != key.id:
            return False
        return not voted.has_directory or voted.directory_id == key.directory_id

    def to_json(self, data_version: int) -> bytes:
        """The content of `quorum-state`."""
        voted = self.voted_key
        content: dict[str, object] = {
            "leaderId": _NO_ID if self.leader_id is None else self.leader_id,
            "leaderEpoch": self.epoch,
            "votedId": _NO_ID if voted is None else voted.id,
        }
        if data_version == 0:
            content = {
                "clusterId": "",
                **content,
                "appliedOffset": 0,
                "currentVoters": [{"voterId": voter_id} for voter_id in self.voter_ids],
            }
        else:
            directory_id = ZERO_UUID if voted is None else voted.directory_id
            content["votedDirectoryId"] = uuid_to_string(directory_id)
        content["data_version"] = data_version
        return json.dumps(content, separators=(",", ":")).encode()


def parse_election_state(content: bytes) -> ElectionState:
    """The state in the bytes of `quorum-state`, of either data version.

    Raises KafkaError(KAFKA_STORAGE_ERROR) if they hold none: a guessed epoch could be one that
    already had a leader.
    """
    try:
        # Anything after the JSON object is ignored, as by Kafka's parser.
        text = content.decode(errors="replace").lstrip()
        fields = cast("Mapping[str, object]", json.JSONDecoder().raw_decode(text)[0])
        version = int(cast("int", fields["data_version"]))
        if version not in (0, 1):
            raise ValueError(f"unknown data_version {version}")
        leader_id = int(cast("int", fields["leaderId"]))
        voted_id = int(cast("int", fields.get("votedId", _NO_ID)))
        directory = cast("str | None", fields.get("votedDirectoryId"))
        directory_id = ZERO_UUID if directory is None else uuid_from_string(directory)
        voters = cast("Sequence[Mapping[str, int]]", fields.get("currentVoters") or ())
        return ElectionState(
            epoch=int(cast("int", fields["leaderEpoch"])),
            leader_id=None if leader_id == _NO_ID else leader_id,
            voted_key=None if voted_id == _NO_ID else VoterKey(voted_id, directory_id),
            voter_ids=tuple(int(voter["voterId"]) for voter in voters),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR, f"It does not hold a quorum state: {error}."
        ) from error


def read_election_state(files: Files, path: str) -> ElectionState:
    """The persisted state, or that of a node that has never voted.

    Raises KafkaError(KAFKA_STORAGE_ERROR) for an unreadable file.
    """
    if not files.exists(path):
        return ElectionState()
    try:
        return parse_election_state(files.read(path))
    except (KafkaError, IsADirectoryError) as error:
        raise KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"{path} is damaged: it does not hold a quorum state.",
        ) from error


def write_election_state(files: Files, path: str, state: ElectionState, data_version: int) -> None:
    """Write the state; it is on the disk when this returns."""
    files.atomic_replace(path, state.to_json(data_version))
