"""Detects whether a broker has a remote tier, by validating a tiered topic without creating it.

Kafka rejects `remote.storage.enable=true` unless `remote.log.storage.system.enable` is set. This is
more reliable than reading a broker's own configuration.
"""

from typing import TYPE_CHECKING, cast
from uuid import uuid4

from confluent_kafka import KafkaException, admin as client
from confluent_kafka.cimpl import NewTopic

if TYPE_CHECKING:
    from concurrent.futures import Future

_TIMEOUT_S = 30.0


def takes_tiered_topics(bootstrap: str) -> bool:
    """Whether the broker would create a tiered topic; creates none."""
    admin = client.AdminClient({"bootstrap.servers": bootstrap, "log_level": 3})
    topic = NewTopic(
        f"tierlog-bench-asks-{uuid4()}",
        num_partitions=1,
        replication_factor=1,
        config={"remote.storage.enable": "true"},
    )
    # The client does not type the results of its futures.
    answers = admin.create_topics([topic], validate_only=True)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    (answer,) = cast("dict[str, Future[None]]", answers).values()
    try:
        answer.result(_TIMEOUT_S)
    except KafkaException:
        return False
    return True
