"""A broker in this process whose authorizer does what the test says, change by change."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from tierlog.broker.broker import Broker
from tierlog.broker.dependencies import Dependencies
from tierlog.broker.dispatch.apis import Apis
from tierlog.broker.network.connection import Answer, ConnectedClient
from tierlog.broker.network.response import Response
from tierlog.broker.request.context import BrokerContext
from tierlog.clients.protocol.api import ApiKey
from tierlog.clients.protocol.messages.metadata import MetadataResponse
from tierlog.clients.protocol.schema import Message
from tierlog.replication.authorizer.authorizer import AclOperation, Resource, ResourceType
from tierlog.security.session import Session

from ..broker_process import BrokerThread, RawClient
from ..conformance.meaningful_requests import request
from ..conformance.side_by_side import OUR_OWN, Plain, plain
from .access_cases import DENIALS, EXISTING, MISSING, Case, Names, Right, batch

PROPERTIES = {"node.id": "1", "num.partitions": "1", "transaction.state.log.num.partitions": "1"}


class Rules:
    """Allows what stands in a set; `decisions` are what was asked of it."""

    def __init__(self) -> None:
        self.epoch = 0
        self._allowed: frozenset[Right] | None = None
        self.decisions: list[tuple[str, str, Right]] = []

    def allow(self, rights: Iterable[Right] | None) -> None:
        """From now on these rights and no others; None allows everything."""
        self._allowed = None if rights is None else frozenset(rights)
        self.epoch += 1

    def authorize(
        self, principal: str, host: str, operation: AclOperation, resource: Resource
    ) -> bool:
        self.decisions.append((principal, host, Right(operation, resource)))
        return self._allowed is None or Right(operation, resource) in self._allowed

    def authorize_any(
        self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        assert principal.startswith("User:")
        assert host
        return self._allowed is None or any(
            (each.operation, each.resource.type) == (operation, resource_type)
            for each in self._allowed
        )


class RuledBroker(BrokerThread):
    """A broker that obeys `rules`."""

    def __init__(self, directory: Path, properties: dict[str, str] | None = None) -> None:
        super().__init__(directory, PROPERTIES | (properties or {}))
        self.rules = Rules()
        self.session: Session | None = None
        """What the client of the next request has authenticated; None leaves it as it is."""

    def _authenticated(self, answer: Answer) -> Answer:
        def answered(client: ConnectedClient, frame: memoryview) -> Response:
            if self.session is not None:
                client.session = self.session
            return answer(client, frame)

        return answered

    async def _start(self) -> Broker:
        def around(context: BrokerContext, _: Answer) -> Answer:
            return self._authenticated(Apis(replace(context, authorizer=self.rules)).answer)

        broker = Broker(self._config, dependencies=Dependencies(around_answers=around))
        await broker.start()
        return broker


def ask(client: RawClient, key: ApiKey, version: int, /, **values: object) -> Plain:
    """The answer as dictionaries and lists."""
    return plain(sent(client, request(key, version, **values), version), OUR_OWN)


def sent(client: RawClient, message: Message, version: int) -> Message:
    return client.receive(client.send(message, version))


def denials(answer: Plain) -> set[int]:
    """The error codes of missing rights in an answer."""
    codes: set[int] = set()
    if isinstance(answer, dict):
        for name, value in answer.items():
            if name.endswith("error_code") and isinstance(value, int):
                codes.add(value)
            codes |= denials(value)
    elif isinstance(answer, list):
        for item in answer:
            codes |= denials(item)
    return codes & DENIALS


def names_of(client: RawClient, name: str) -> Names:
    """A name with the topic's id; call it with every right."""
    asked = request(ApiKey.METADATA, 12, topics=[{"name": name}], allow_auto_topic_creation=False)
    answer = sent(client, asked, 12)
    assert isinstance(answer, MetadataResponse)
    return Names(name, answer.topics[0].topic_id)


def prepare(client: RawClient) -> dict[str, Names]:
    """Make the topic, the group and the transactional id; call it with every right."""
    made = {"name": EXISTING, "num_partitions": 1, "replication_factor": 1}
    ask(client, ApiKey.CREATE_TOPICS, 7, topics=[made], timeout_ms=10_000)
    data = [{"index": 0, "records": batch()}]
    topics: list[object] = [{"name": EXISTING, "partition_data": data}]
    ask(client, ApiKey.PRODUCE, 9, acks=1, timeout_ms=5_000, topic_data=topics)
    ask(client, ApiKey.FIND_COORDINATOR, 3, key=EXISTING)
    ask(client, ApiKey.FIND_COORDINATOR, 3, key=EXISTING, key_type=1)
    offsets = [{"partition_index": 0, "committed_offset": 1}]
    ask(
        client,
        ApiKey.OFFSET_COMMIT,
        8,
        group_id=EXISTING,
        generation_id_or_member_epoch=-1,
        topics=[{"name": EXISTING, "partitions": offsets}],
    )
    ask(
        client, ApiKey.INIT_PRODUCER_ID, 3, transactional_id=EXISTING, transaction_timeout_ms=10_000
    )
    return {name: names_of(client, name) for name in (EXISTING, MISSING)}


def answer_to(client: RawClient, case: Case, names: Names) -> Plain:
    return ask(client, case.key, case.version, **case.values(names))
