"""DescribeLogDirs (key 35), versions 1-5: the log directories and the logs in each (KIP-113).

Sizes are those of the local logs, without the remote tier. A partition that is being moved between
directories appears twice: in the new one it is a future log, with its lag in records. A directory
whose disk has failed gets KAFKA_STORAGE_ERROR.

v2: flexible
v3: top-level error
v4: the total and usable bytes of each directory's volume (KIP-827)
v5: whether a directory is cordoned, which none is (KIP-1066)
"""

from collections.abc import Collection

from ...clients.errors import ErrorCode, KafkaError
from ...clients.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from ...clients.topic_partition import TopicPartition
from ...storage.directory.log_dir import LogDir
from ...storage.log.unified_log import UnifiedLog
from ..request.context import BrokerContext, RequestContext


def handle(
    broker: BrokerContext, context: RequestContext, request: DescribeLogDirsRequest
) -> DescribeLogDirsResponse:
    """Return every directory, with those of its logs that were requested."""
    partitions = None
    if request.topics is not None:
        partitions = {
            TopicPartition(topic.topic, partition)
            for topic in request.topics
            for partition in topic.partitions
        }
    return DescribeLogDirsResponse(
        results=[_result(broker, log_dir, partitions) for log_dir in broker.log_manager.log_dirs]
    )


def _result(
    broker: BrokerContext, log_dir: LogDir, partitions: Collection[TopicPartition] | None
) -> DescribeLogDirsResult:
    result = DescribeLogDirsResult(log_dir=log_dir.path)
    files = broker.log_manager.files
    try:
        log_dir.check()
        try:
            result.total_bytes = files.total_bytes(log_dir.path)
            result.usable_bytes = files.usable_bytes(log_dir.path)
        except OSError as error:
            raise log_dir.fail(error) from error
    except KafkaError as error:
        result.error_code = error.code
        return result
    result.error_code = ErrorCode.NONE
    result.topics = _topics(broker, log_dir, partitions)
    return result


def _topics(
    broker: BrokerContext, log_dir: LogDir, partitions: Collection[TopicPartition] | None
) -> list[DescribeLogDirsTopic]:
    topics: dict[str, DescribeLogDirsTopic] = {}
    logs = broker.log_manager
    for log in (*logs.all_logs(), *logs.future_logs.all()):
        name, partition = log.topic_partition
        if log.log_dir is not log_dir or not (
            partitions is None or log.topic_partition in partitions
        ):
            continue
        topic = topics.setdefault(name, DescribeLogDirsTopic(name=name))
        topic.partitions.append(
            DescribeLogDirsPartition(
                partition_index=partition,
                partition_size=log.size_in_bytes,
                offset_lag=_lag(broker, log),
                is_future_key=logs.future_logs.get(log.topic_partition) is log,
            )
        )
    return list(topics.values())


def _lag(broker: BrokerContext, log: UnifiedLog) -> int:
    """How far a future log is behind the current one, and that one behind its high watermark.

    -1 if the current log is missing or offline.
    """
    logs = broker.log_manager
    current = logs.get_log(log.topic_partition)
    if current is None or not current.log_dir.is_online:
        return -1
    if log is current:
        return max(log.high_watermark - log.log_end_offset, 0)
    return current.log_end_offset - log.log_end_offset
