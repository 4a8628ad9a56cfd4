"""Proves that a topic was deleted, where the cluster image no longer has the deletion on record.

A member of a cluster may load a snapshot of the metadata that says nothing of deleted topics: that
of Apache Kafka, or one from after many deletions. Then the objects of such a topic could never be
removed. But its id alone proves nothing: this broker may be paused, cut off or behind, while the
tier's metadata, which it reads from other brokers, names topics that were created since.

    the remover notices events of a topic id that the image does not have
         -> the active controller commits a record, asked for after that
         -> the image here has passed that record, and this broker is unfenced in it
         -> it still does not have the id: the topic was deleted

The events were written by a leader of the topic, so the topic was created at a lower offset than
that record. A committed high watermark would not do in its place: a deposed controller that does
not know it yet, perhaps in this very process after a pause, answers with an old one. No deposed
controller commits a record. The record allocates producer ids, which changes nothing else.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection

from ...clients.errors import KafkaError
from ...clients.kafka_uuid import Uuid
from ...replication.metadata.cluster_image import ClusterImage

_log = logging.getLogger(__name__)

PROOF_SECONDS = 600.0
"""How long a proof counts."""
PROOFS_MAX = 100_000
"""More proven topics than this are proven in a later look of the remover."""
WAIT_SECONDS = 60.0
"""How long one proof may take, with the controller's answer."""
_POLL_SECONDS = 0.05

Allocation = Callable[[int], Awaitable[int]]
"""Lets the active controller commit an allocation of producer ids; returns the first of them."""


class DeletionProofs:
    """The topics of which this broker has proven lately that they were deleted."""

    def __init__(
        self, broker_id: int, image: Callable[[], ClusterImage], allocate: Allocation
    ) -> None:
        self._broker_id = broker_id
        self._image = image
        self._allocate = allocate
        self._valid_until: dict[Uuid, float] = {}
        """By topic id, in seconds of the event loop's clock."""

    def has(self, topic_id: Uuid) -> bool:
        """Whether a proof that has not expired says that the topic was deleted."""
        return self._valid_until.get(topic_id, 0.0) > asyncio.get_running_loop().time()

    async def prove(self, topic_ids: Collection[Uuid]) -> None:
        """Prove what can be proven of these topics; those that exist are not proven."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._valid_until = {each: end for each, end in self._valid_until.items() if end > now}
        image = self._image()
        noticed = [
            each
            for each in topic_ids
            if each not in image.topics_by_id
            and each not in image.deleted_topic_ids
            and each not in self._valid_until
        ][: PROOFS_MAX - len(self._valid_until)]
        if not noticed:
            return
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                image = await self._image_after(await self._allocate(1))
        except (KafkaError, TimeoutError) as error:
            _log.info(
                "It cannot be proven yet whether %d topics were deleted whose segments are in the"
                " remote tier: %s",
                len(noticed),
                str(error) or f"this broker is more than {WAIT_SECONDS:g} s behind",
            )
            return
        broker = image.brokers.get(self._broker_id)
        if broker is None or broker.fenced:
            return
        until = loop.time() + PROOF_SECONDS
        self._valid_until.update(
            (each, until) for each in noticed if each not in image.topics_by_id
        )

    async def _image_after(self, allocated: int) -> ClusterImage:
        """An image that has the allocation of this producer id."""
        while True:
            image = self._image()
            if image.next_producer_id > allocated:
                return image
            await asyncio.sleep(_POLL_SECONDS)
