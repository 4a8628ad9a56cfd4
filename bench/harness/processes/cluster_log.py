"""The metadata logs of a cluster's nodes, read from their disks and compared."""

import time
from collections.abc import Sequence
from pathlib import Path

from ....clients.protocol.schema import Message
from ....clients.record.batch import batches
from ....replication.metadata.metadata_records import decode_record
from ..measurement_error import MeasurementError
from .cluster import METADATA_LOG, Cluster, ClusterNode

_WAIT_S = 60.0
_POLL_S = 0.1


def metadata_bytes(log_directory: Path, start: int = 0, end: int | None = None) -> bytes:
    """The batches of the metadata log from `start` to below `end`, as they are in its files."""
    files = sorted((log_directory / METADATA_LOG).glob("*.log"))
    content = b"".join(file.read_bytes() for file in files)
    return b"".join(
        bytes(batch.view)
        for batch in batches(content)
        if batch.base_offset >= start and (end is None or batch.next_offset <= end)
    )


def metadata_records(content: bytes) -> list[Message]:
    """The records of the metadata log, without those of the quorum itself."""
    return [
        decode_record(bytes(record.value or b""))
        for batch in batches(content)
        if not batch.is_control
        for record in batch.records()
    ]


def committed(cluster: Cluster) -> bytes:
    """The committed metadata log once all nodes that run have it, from where the last one begins.

    It begins at offset 0, unless a node has got a snapshot instead of its beginning. Raises
    MeasurementError if it is not the same, byte for byte, on all their disks.
    """
    lead = cluster.wait_for_leader()
    described = cluster.nodes[lead.node_id].quorum()
    if described is None:
        raise MeasurementError("The leader of the quorum has changed while its log was read.")
    end = described.high_watermark
    running = [node for node in cluster.nodes.values() if node.is_alive()]
    logs = _logs_up_to(running, end)
    first = logs[0]
    for node, log in zip(running, logs, strict=True):
        if log != first:
            raise MeasurementError(
                f"The metadata logs of nodes {running[0].node_id} and {node.node_id} differ below "
                f"offset {end}."
            )
    return first


def _logs_up_to(nodes: Sequence[ClusterNode], end: int) -> list[bytes]:
    """The logs from where the last begins, once all of them have everything below `end`."""
    deadline = time.monotonic() + _WAIT_S
    while True:
        whole = [metadata_bytes(node.log_directory) for node in nodes]
        start = max((next(batches(log)).base_offset for log in whole if log), default=0)
        logs = [metadata_bytes(node.log_directory, start, end) for node in nodes]
        ends = [max((batch.next_offset for batch in batches(log)), default=0) for log in logs]
        if all(each == end for each in ends):
            return logs
        if time.monotonic() > deadline:
            raise MeasurementError(f"The metadata logs end at {ends}, not all at {end}.")
        time.sleep(_POLL_S)
