"""How far a stream has read the tier, as Spark's checkpoints hold it.

    {"orders": {"0": 23, "1": 7, "topicId": "5L6g3nShT-eMCtK--X86sw"}}

Each number is the next offset of a partition, as in the checkpoints of Spark's Kafka source. The id
distinguishes the topic from a later one of its name; the checkpoints of earlier versions
do not have it. No partition can have that key, because partitions are numbers.

Spark compares offsets as text. So what is equal must have the same text, and the keys are sorted.
The text of a checkpoint without ids differs from the same offsets with them: a stream that goes on
from it has one micro-batch more, possibly without records.
"""

from collections.abc import Mapping
from typing import NamedTuple, cast

from ....clients.kafka_uuid import Uuid, uuid_from_string, uuid_to_string
from ....clients.topic_partition import TopicPartition
from ...reading.scan_options import ScanError, TopicIds, offsets_from_json, offsets_to_json

OffsetJson = dict[str, dict[str, int | str]]
Offsets = Mapping[TopicPartition, int]

_TOPIC_ID = "topicId"


class StreamOffset(NamedTuple):
    """The next offset of each partition, and the topics that these are of."""

    offsets: Offsets
    topic_ids: TopicIds
    """Without the topics of a checkpoint that an earlier version wrote."""

    def to_json(self) -> OffsetJson:
        """What `stream_offset_from_json` reads; equal offsets have the same text."""
        return {
            topic: {**numbers, **self._id_of(topic)}
            for topic, numbers in offsets_to_json(self.offsets).items()
        }

    def _id_of(self, topic: str) -> dict[str, str]:
        topic_id = self.topic_ids.get(topic)
        return {} if topic_id is None else {_TOPIC_ID: uuid_to_string(topic_id)}


def stream_offset_from_json(content: object) -> StreamOffset:
    """Read an offset from a checkpoint. Raises ScanError."""
    try:
        topics = cast("OffsetJson", content)
        offsets = offsets_from_json(
            {
                topic: {name: number for name, number in each.items() if name != _TOPIC_ID}
                for topic, each in topics.items()
            }
        )
        topic_ids: dict[str, Uuid] = {
            topic: uuid_from_string(cast("str", each[_TOPIC_ID]))
            for topic, each in topics.items()
            if _TOPIC_ID in each
        }
    except (ValueError, TypeError, AttributeError):
        raise ScanError(f"The checkpoint holds {content!r}, which is not tier offsets") from None
    return StreamOffset(offsets, topic_ids)
