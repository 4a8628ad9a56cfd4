"""Opens the quorum over a metadata log: the state file, the voters, the core and its storage."""

from typing import NamedTuple

from ...clients.environment import Environment
from ..raft.raft import RaftCore
from ..raft.raft_options import RaftOptions
from ..raft.voter_set import NO_VOTERS, VoterSet
from .metadata_log import MetadataLog
from .raft_storage import RaftStorage


class OpenQuorum(NamedTuple):
    """What a `Quorum` is made of, beside its transport, its listener and its executor."""

    core: RaftCore
    storage: RaftStorage


def open_quorum(
    options: RaftOptions,
    log: MetadataLog,
    environment: Environment,
    voters: VoterSet = NO_VOTERS,
) -> OpenQuorum:
    """A node of the quorum over an open log, ready for `RaftCore.start`.

    `voters` are the static ones (`controller.quorum.voters`); those in the log, its snapshots and
    the bootstrap snapshot replace them. Raises OSError, or KafkaError for what cannot be read.
    """
    storage = log.raft_storage(environment)
    return OpenQuorum(RaftCore(options, storage, voters, log.state, environment.random), storage)
