"""AllocateProducerIds (key 67): a broker asks the controller for producer ids (KIP-730).

The only version is 0, which is flexible.
"""

from ..schema import Message, field, int16, int32, int64


class AllocateProducerIdsRequest(Message, key=67, versions="0", flexible="0+"):
    """The broker that needs ids."""

    broker_id: int32 = field("0+")
    broker_epoch: int64 = field("0+", default=-1)


class AllocateProducerIdsResponse(Message, key=67, versions="0", flexible="0+"):
    """A block of producer ids: the first, and how many."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    producer_id_start: int64 = field("0+")
    producer_id_len: int32 = field("0+")
