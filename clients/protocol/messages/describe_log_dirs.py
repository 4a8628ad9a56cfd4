"""DescribeLogDirs (key 35): the log directories and their logs (KIP-113).

Versions: 2 flexible; 3 a top-level error; 4 total and usable space of the volume (KIP-827);
5 whether the directory is cordoned (KIP-1066).
"""

from ..schema import Message, Struct, field, int16, int32, int64


class DescribableLogDirTopic(Struct):
    """One topic and some of its partitions."""

    topic: str = field("0+")
    partitions: list[int32] = field("0+")


class DescribeLogDirsRequest(Message, key=35, versions="1-5", flexible="2+"):
    """The partitions to describe; null means all."""

    topics: list[DescribableLogDirTopic] | None = field("0+", nullable="0+")


class DescribeLogDirsPartition(Struct):
    """One log: its size in bytes, and its offset lag."""

    partition_index: int32 = field("0+")
    partition_size: int64 = field("0+")
    offset_lag: int64 = field("0+")
    is_future_key: bool = field("0+")


class DescribeLogDirsTopic(Struct):
    """The logs of one topic."""

    name: str = field("0+")
    partitions: list[DescribeLogDirsPartition] = field("0+")


class DescribeLogDirsResult(Struct):
    """One directory and its logs, or an error."""

    error_code: int16 = field("0+")
    log_dir: str = field("0+")
    topics: list[DescribeLogDirsTopic] = field("0+")
    total_bytes: int64 = field("4+", default=-1, ignorable=True)
    usable_bytes: int64 = field("4+", default=-1, ignorable=True)
    is_cordoned: bool = field("5+", ignorable=True)


class DescribeLogDirsResponse(Message, key=35, versions="1-5", flexible="2+"):
    """Every log directory of the broker."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("3+", ignorable=True)
    results: list[DescribeLogDirsResult] = field("0+")
