"""The authorizer as Kafka's properties configure it, in a broker without passwords."""

from pathlib import Path

import pytest

from tierlog.clients.protocol.api import ApiKey

from ..broker_process import BrokerThread, RawClient
from .access_cases import TOPIC_DENIED
from .ruled_broker import ask, denials

STANDARD = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        (STANDARD, {TOPIC_DENIED}),
        ({**STANDARD, "super.users": "User:root;User:alice"}, {TOPIC_DENIED}),
        ({**STANDARD, "super.users": "User:root;User:ANONYMOUS"}, set[int]()),
        ({**STANDARD, "allow.everyone.if.no.acl.found": "true"}, set[int]()),
        ({"super.users": "User:root"}, set[int]()),
    ],
)
def test_who_may_create_a_topic(
    tmp_path: Path, properties: dict[str, str], expected: set[int]
) -> None:
    made = {"name": "t", "num_partitions": 1, "replication_factor": 1}
    with BrokerThread(tmp_path, properties) as broker, RawClient(broker.port) as client:
        answer = ask(client, ApiKey.CREATE_TOPICS, 7, topics=[made], timeout_ms=5_000)
        assert denials(answer) == expected
