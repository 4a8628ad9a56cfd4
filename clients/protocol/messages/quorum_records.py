"""Control records about the quorum itself, in its log and in its snapshots (KIP-630, KIP-853)."""

from ...kafka_uuid import Uuid
from ..schema import Message, Struct, field, int16, int32, int64, uint16


class KRaftVersionRecord(Message, versions="0", flexible="0+"):
    """The value of a KRAFT_VERSION control record: the finalized kraft.version."""

    version: int16 = field("0+")
    kraft_version: int16 = field("0+")


class Endpoint(Struct):
    """An address of a voter on one listener."""

    name: str = field("0+")
    host: str = field("0+")
    port: uint16 = field("0+")


class KRaftVersionFeature(Struct):
    """The lowest and the highest supported kraft.version."""

    min_supported_version: int16 = field("0+")
    max_supported_version: int16 = field("0+")


class Voter(Struct):
    """A voter, how to reach it, and what it supports."""

    voter_id: int32 = field("0+")
    voter_directory_id: Uuid = field("0+")
    endpoints: list[Endpoint] = field("0+")
    kraft_version_feature: KRaftVersionFeature = field("0+")


class VotersRecord(Message, versions="0", flexible="0+"):
    """The value of a KRAFT_VOTERS control record: all voters from here on."""

    version: int16 = field("0+")
    voters: list[Voter] = field("0+")


class SnapshotHeaderRecord(Message, versions="0", flexible="0+"):
    """The value of the SNAPSHOT_HEADER control record, with which a snapshot begins."""

    version: int16 = field("0+")
    last_contained_log_timestamp: int64 = field("0+")


class SnapshotFooterRecord(Message, versions="0", flexible="0+"):
    """The value of the SNAPSHOT_FOOTER control record; a snapshot without it is not complete."""

    version: int16 = field("0+")
