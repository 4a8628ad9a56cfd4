"""Does a broker have a remote tier? It is asked for a tiered topic, only for its opinion.

Kafka refuses `remote.storage.enable=true` where `remote.log.storage.system.enable` is not set. The
answer to that is surer than what a broker says of its own configuration.
"""

from typing import TYPE_CHECKING, cast
from uuid import uuid4

from confluent_kafka import KafkaException, admin as client
from confluent_kafka.cimpl import NewTopic

if TYPE_CHECKING:
    from concurrent.futures import Future

_TIMEOUT_S = 30.0


def takes_tiered_topics(bootstrap: str) -> bool:
    """Whether a tiered topic would be created. None is."""
    admin = client.AdminClient({"bootstrap.servers": bootstrap, "log_level": 3})
    topic = NewTopic(
        f"tierlog-bench-asks-{uuid4()}",
        num_partitions=1,
        replication_factor=1,
        config={"remote.storage.enable": "true"},
    )
    # The client publishes its futures without the type of what they hold.
    answers = admin.create_topics([topic], validate_only=True)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    (answer,) = cast("dict[str, Future[None]]", answers).values()
    try:
        answer.result(_TIMEOUT_S)
    except KafkaException:
        return False
    return True
