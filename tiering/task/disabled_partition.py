"""Removes the remote data of a partition whose topic is not tiered any more (KIP-950).

`remote.storage.enable` was taken back with `remote.log.delete.on.disable`. The log begins where its
local part begins by now, so nobody reads what is in the tier; its leader removes it, segment by
segment, for as long as that takes. The topic lives on and may be tiered again, so this is not the
removal of a partition: nothing is said of the partition itself, and nothing has to be taken back.
Whoever leads the partition next goes on with it.
"""

import logging

from ..remote_storage import RemoteStorageError
from .leader_term import LeaderTerm, ready_remote_log
from .segment_deletion import SegmentDeletion

_log = logging.getLogger(__name__)


class DisabledPartition:
    """The removal of one partition's remote data in one term of leadership."""

    def __init__(self, deletion: SegmentDeletion, term: LeaderTerm) -> None:
        self._deletion = deletion
        self._term = term

    async def run_once(self) -> int | None:
        """Delete all that is there; None once nothing is left.

        Raises RemoteStorageError or KafkaError to be tried again.
        """
        metadata, partition = self._deletion.metadata, self._term.partition
        remote = ready_remote_log(metadata, partition)
        if len(remote):
            _log.info("Deleting all %d remote segments of %s", len(remote), partition)
        failure: RemoteStorageError | None = None
        for segment in remote.segments():
            try:
                await self._deletion.delete(segment, "tiering being disabled")
            except RemoteStorageError as error:
                if error.is_retriable:
                    raise
                failure = error
        if failure is not None:
            raise failure
        metadata.forget([partition])
        return None
