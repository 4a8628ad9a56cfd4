"""Removes the remote data of a partition whose topic is not tiered any more (KIP-950).

`remote.storage.enable` was set to false with `remote.log.delete.on.disable`. The log now begins at
its local log start offset, so nobody reads the remote data; the leader removes it, segment by
segment, for as long as that takes. The topic lives on and may be tiered again, so this is not the
removal of a partition: no partition event is published, and none has to be undone. The next leader
resumes the work.
"""

import logging

from ..remote_storage import RemoteStorageError
from .leader_term import LeaderTerm, ready_remote_log
from .segment_deletion import SegmentDeletion

_log = logging.getLogger(__name__)


class DisabledPartition:
    """Removes one partition's remote data during one term of leadership."""

    def __init__(self, deletion: SegmentDeletion, term: LeaderTerm) -> None:
        self._deletion = deletion
        self._term = term

    async def run_once(self) -> int | None:
        """Delete all remote segments; returns None once none is left.

        Raises RemoteStorageError or KafkaError, which the caller retries.
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
