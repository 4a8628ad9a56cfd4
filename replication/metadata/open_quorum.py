"""Opens the quorum over a metadata log: the state file, the voters, the core and its storage."""

from typing import NamedTuple

from ...clients.errors import ErrorCode, KafkaError
from ...clients.runtime.environment import Environment
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
    bootstrap = storage.voters.in_bootstrap()
    initial = voters if bootstrap is None else bootstrap
    core = RaftCore(options, storage, initial, log.state, environment.random)
    newest = storage.latest_snapshot_id
    if newest is not None:
        core.load_snapshot_voters(newest.offset, storage.voters.in_snapshot(newest))
    replayed = 0 if newest is None else newest.offset
    for offset, later in storage.voters.after(replayed):
        # Before the start there is nothing to act upon, whatever the time, but a broken history.
        for action in core.handle_voters(offset, later, 0):
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{log.directory}: {action}")
    return OpenQuorum(core, storage)
