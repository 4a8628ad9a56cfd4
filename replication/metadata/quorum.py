"""The quorum that keeps the metadata log: its persisted state, and the election of one (KIP-595).

`quorum-state` remembers the epoch, whom this node voted for and who leads. It is on the disk before
anything is done in an epoch, so that no node ever votes twice in one or leads in one that is past.
With a single voter an election is decided by itself: the epoch rises by one at every start,
the node votes for itself and has its majority.
"""

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from ...clients.errors import ErrorCode, KafkaError
from ...clients.protocol.schema import Message, Struct, field, int16, int32
from ...storage.files import Files

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NO_VOTE = -1
UNKNOWN_LEADER = -1

QUORUM_STATE_FILE = "quorum-state"


class Voter(Struct):
    """A node with a vote."""

    voter_id: int32 = field("0+")


class LeaderChangeMessage(Message, versions="0", flexible="0+"):
    """What the first record of every epoch says (the value of a control record)."""

    version: int16 = field("0+")
    leader_id: int32 = field("0+")
    voters: list[Voter] = field("0+")
    granting_voters: list[Voter] = field("0+")


@dataclass(frozen=True, slots=True)
class QuorumState:
    """What a voter must never forget."""

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
    """The remembered state, or that of a node which has never voted.

    Raises KafkaError(KAFKA_STORAGE_ERROR) for a file that can't be understood: guessing an epoch
    could let two leaders share one.
    """
    if not files.exists(path):
        return QuorumState()
    try:
        # What stands behind the state is passed over, as Kafka's parser does.
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
            f"{path} is damaged: it does not hold the state of a quorum.",
        ) from error


def write_quorum_state(files: Files, path: str, state: QuorumState) -> None:
    """Put the state on the disk; it is there when this returns."""
    files.atomic_replace(path, state.to_json())
