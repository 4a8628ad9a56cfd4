"""Our schemas say what Kafka's JSON definitions say, field by field.

The definitions are those that the `kafka-python` wheel carries. They are Apache Kafka 4.3's but for
a few fields of versions that Kafka no longer has, and which both sides leave out here. That nothing
is missing in them is shown by `tests/conformance/test_messages_against_java.py`, which makes the
same comparison with the definitions inside Kafka's own jar.
"""

from importlib.metadata import distribution
from pathlib import Path

import pytest

from tierlog.clients.protocol.schema import Message

from .definitions import KafkaDefinition, our_definition
from .served_messages import identify, message_classes

NOT_IN_THE_WHEEL = (
    "AddRaftVoter",
    "AllocateProducerIds",
    "AlterPartitionRequest",
    "AlterPartitionResponse",
    "AssignReplicasToDirs",
    "BeginQuorumEpoch",
    "BrokerHeartbeat",
    "BrokerRegistration",
    "ConsumerGroupDescribe",
    "ConsumerGroupHeartbeat",
    "ControllerRegistration",
    "DefaultPrincipalData",
    "EndQuorumEpoch",
    "Envelope",
    "FetchSnapshot",
    "GetTelemetrySubscriptions",
    "KRaftVersionRecord",
    "LeaderChangeMessage",
    "PushTelemetry",
    "RemoveRaftVoter",
    "SnapshotFooterRecord",
    "SnapshotHeaderRecord",
    "UnregisterBroker",
    "UpdateRaftVoter",
    "VoteRequest",
    "VoteResponse",
    "VotersRecord",
)
"""What kafka-python has no use for. The other test compares these, too."""


def classes_in_the_wheel() -> list[type[Message]]:
    return [cls for cls in message_classes() if not cls.__name__.startswith(NOT_IN_THE_WHEEL)]


@pytest.mark.parametrize("cls", classes_in_the_wheel(), ids=identify)
def test_a_message_is_declared_as_in_the_json_definition(cls: type[Message]) -> None:
    # Located, not imported: importing kafka-python costs a second and warns.
    relative = f"kafka/protocol/schemas/resources/{cls.__name__}.json"
    text = Path(str(distribution("kafka-python").locate_file(relative))).read_text()
    assert our_definition(cls) == KafkaDefinition(text).message()
