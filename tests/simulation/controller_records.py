"""Changes of the cluster's state as batches of a simulated log, in the real format of records."""

from collections.abc import Iterable, Sequence
from functools import lru_cache

from tierlog.clients.protocol.schema import Message
from tierlog.replication.metadata.cluster_image import ClusterDelta, ClusterImage
from tierlog.replication.metadata.image_records import image_records
from tierlog.replication.metadata.metadata_records import decode_record, encode_record

_LENGTH = 4


def encode_change(records: Iterable[Message]) -> bytes:
    """The content of a batch."""
    values = [encode_record(record) for record in records]
    return b"".join(len(value).to_bytes(_LENGTH, "big") + value for value in values)


@lru_cache(4096)
def decode_change(content: bytes) -> Sequence[Message]:
    """The records of a batch; nobody changes them."""
    records: list[Message] = []
    at = 0
    while at < len(content):
        end = at + _LENGTH + int.from_bytes(content[at : at + _LENGTH], "big")
        records.append(decode_record(content[at + _LENGTH : end]))
        at = end
    return tuple(records)


def encode_image(image: ClusterImage) -> bytes:
    """The content of a snapshot."""
    head = image.offset.to_bytes(8, "big", signed=True) + image.epoch.to_bytes(
        8, "big", signed=True
    )
    return head + encode_change(image_records(image))


def decode_image(content: bytes, empty: ClusterImage) -> ClusterImage:
    """The image in a snapshot."""
    delta = ClusterDelta(empty)
    delta.replay_all(decode_change(content[16:]))
    offset, epoch = (int.from_bytes(content[at : at + 8], "big", signed=True) for at in (0, 8))
    return delta.apply(offset, epoch)
