"""The metadata quorum's persisted state, and its election with a single voter (KIP-595).

`quorum-state` holds the epoch, this node's vote and the leader. It is on the disk before anything
is done in an epoch, so that no node votes twice in an epoch or leads in a past one. A single voter
always wins: the epoch rises by one at every start, and the node's own vote is the majority.
"""

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from ...clients.errors import ErrorCode, KafkaError
from ...clients.protocol.messages.leader_change_message import (
    LeaderChangeMessage as LeaderChangeMessage,
    Voter as Voter,
)
from ...storage.files import Files

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NO_VOTE = -1
UNKNOWN_LEADER = -1

QUORUM_STATE_FILE = "quorum-state"


@dataclass(frozen=True, slots=True)
class QuorumState:
    """The state that a voter must persist."""

    leader_epoch: int = 0
    leader_id: int = UNKNOWN_LEADER
    voted_id: int = NO_VOTE
    voters: tuple[int, ...] = ()

    def elected(self, node_id: int) -> "QuorumState":
        """The state after winning the election of the next epoch as the only voter."""
        assert self.voters in ((), (node_id,)), "more voters take more than one vote"
        return replace(
            self,
            leader_epoch=self.leader_epoch + 1,
            leader_id=node_id,
            voted_id=NO_VOTE,
            voters=(node_id,),
        )

    def to_json(self) -> bytes:
        """The content of `quorum-state`, data version 0 (static voters)."""
        content = {
            "clusterId": "",
            "leaderId": self.leader_id,
            "leaderEpoch": self.leader_epoch,
            "votedId": self.voted_id,
            "appliedOffset": 0,
            "currentVoters": [{"voterId": voter} for voter in self.voters],
            "data_version": 0,
        }
        return json.dumps(content, separators=(",", ":")).encode()


def read_quorum_state(files: Files, path: str) -> QuorumState:
    """The persisted state, or that of a node that has never voted.

    Raises KafkaError(KAFKA_STORAGE_ERROR) for an unreadable file: a guessed epoch could be one that
    already had a leader.
    """
    if not files.exists(path):
        return QuorumState()
    try:
        # Anything after the JSON object is ignored, as by Kafka's parser.
        text = files.read(path).decode(errors="replace").lstrip()
        content = cast("Mapping[str, object]", json.JSONDecoder().raw_decode(text)[0])
        voters = cast("Sequence[Mapping[str, int]]", content.get("currentVoters") or ())
        return QuorumState(
            leader_epoch=int(cast("int", content["leaderEpoch"])),
            leader_id=int(cast("int", content["leaderId"])),
            voted_id=int(cast("int", content.get("votedId", NO_VOTE))),
            voters=tuple(int(voter["voterId"]) for voter in voters),
        )
    except (ValueError, KeyError, TypeError, AttributeError, IsADirectoryError) as error:
        raise KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"{path} is damaged: it does not hold a quorum state.",
        ) from error


def write_quorum_state(files: Files, path: str, state: QuorumState) -> None:
    """Write the state; it is on the disk when this returns."""
    files.atomic_replace(path, state.to_json())
