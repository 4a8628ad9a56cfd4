"""Apache Kafka and ours with listeners for everybody, for users with passwords, and controllers.

Both have the same topics, groups and transactional ids, made by a superior user, and the same
clients: two users and one without a name, each from two addresses.
"""

import socket
from collections.abc import Generator, Iterable, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple, cast

from tierlog.bench.harness.processes.cluster import Cluster, Kind, Seat, combined, separate
from tierlog.bench.harness.requests.probe import free_port
from tierlog.clients.protocol.api import ApiKey, ListenerKind
from tierlog.clients.protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from tierlog.clients.protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from tierlog.clients.protocol.messages.metadata import MetadataResponse
from tierlog.clients.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from tierlog.clients.protocol.messages.sasl_handshake import (
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from tierlog.clients.protocol.schema import Message

from ...broker.acl_requests import describe
from ...broker_process import RawClient
from ...waiting import wait_until
from ..meaningful_requests import request
from ..side_by_side import OUR_OWN, Plain, at, plain
from ..twins import SUBSCRIPTION
from .draw import CLASSIC, CONSUMERS, GROUPS, OPEN, PRODUCERS, TOPICS, Own
from .entries import Entry
from .requests_of_groups import BEN

ADMIN = "admin"
USERS = ("alice", "bob")
ADDRESSES = ("127.0.0.1", "127.0.0.2")
NO_NAME = ""
_ANSWER_S = 180
"""How long an answer may take: Kafka is slow on a busy machine."""
_LONG_MS = 1_800_000
_TRANSACTION_MS = 900_000

CLOSED: Plain = "the connection is closed"


class Ports(NamedTuple):
    """Where a node listens."""

    plain: int
    users: int
    controller: int


class Client(NamedTuple):
    """Who sends a request: a user, or nobody by name, from an address, to a kind of listener."""

    user: str
    address: str
    kind: ListenerKind = ListenerKind.BROKER


CLIENTS = [
    *(Client(user, address) for user in (*USERS, NO_NAME) for address in ADDRESSES),
    *(Client(NO_NAME, address, ListenerKind.CONTROLLER) for address in ADDRESSES),
]


class Peer(RawClient):
    """A connection from an address of this machine, of a user if one is named."""

    def __init__(self, port: int, address: str, user: str = NO_NAME) -> None:
        super().__init__(port)
        self.socket.close()
        where = ("127.0.0.1", port)
        self.socket = socket.create_connection(where, _ANSWER_S, source_address=(address, 0))
        if user:
            self.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1, SaslHandshakeResponse)
            token = f"\0{user}\0{_password(user)}".encode()
            answer = self.ask(
                SaslAuthenticateRequest(auth_bytes=token), 2, SaslAuthenticateResponse
            )
            assert not answer.error_code, answer.error_message


def _password(user: str) -> str:
    return f"{user}-secret"


def ask(client: RawClient, key: ApiKey, version: int, /, **values: object) -> Plain:
    """The answer as dictionaries and lists."""
    answer = client.receive(client.send(request(key, version, **values), version))
    return plain(answer, OUR_OWN)


class Side:
    """One of the two: its connections, and the values that are its own."""

    def __init__(self, ports: Ports, stack: ExitStack) -> None:
        self._ports = ports
        self._stack = stack
        self._clients: dict[Client, Peer] = {}
        self.admin = stack.enter_context(Peer(ports.users, "127.0.0.1", ADMIN))
        self._at_controller = stack.enter_context(Peer(ports.controller, "127.0.0.1"))
        self.own: dict[Own, object] = {}

    def send(self, client: Client, message: Message, version: int) -> None:
        """Send a request on the client's connection, which is opened if there is none."""
        if client not in self._clients:
            self._clients[client] = self._stack.enter_context(self._opened(client))
        self._sent = self._clients[client].send(message, version)

    def receive(self, client: Client, ignored: frozenset[str]) -> Plain:
        """The answer to the last request; CLOSED if the connection was closed instead."""
        try:
            answer = self._clients[client].receive(self._sent)
        except (EOFError, ConnectionResetError):
            self._clients.pop(client).socket.close()
            return CLOSED
        return self._named(plain(answer, OUR_OWN | ignored))

    def _opened(self, client: Client) -> Peer:
        if client.kind is ListenerKind.CONTROLLER:
            return Peer(self._ports.controller, client.address)
        port = self._ports.users if client.user else self._ports.plain
        return Peer(port, client.address, client.user)

    def _named(self, value: Plain) -> Plain:
        """An answer with the member's name in place of its id."""
        match value:
            case str():
                return "anna" if value == self.own[Own("member", "anna")] else value
            case list():
                return [self._named(each) for each in value]
            case dict():
                return {name: self._named(each) for name, each in value.items()}
            case _:
                return value

    def has_entries(self, entries: Iterable[Entry]) -> bool:
        """Whether broker and controller decide by these entries now."""
        expected = sorted(tuple(each) for each in entries)
        at_both = (self.admin, self._at_controller)
        return all(sorted(describe(client)) == expected for client in at_both)

    def change(self, before: set[Entry], after: set[Entry]) -> None:
        """Put entries in the place of others, and wait until they are in force."""
        deletion = DeleteAclsRequest(filters=[each.deletion() for each in sorted(before - after)])
        creation = CreateAclsRequest(creations=[each.creation() for each in sorted(after - before)])
        # The new ones first: with no entry of the cluster at all everybody would have it.
        created = self.admin.ask(creation, 3, CreateAclsResponse)
        assert {each.error_code for each in created.results} <= {0}
        deleted = self.admin.ask(deletion, 3, DeleteAclsResponse)
        assert {each.error_code for each in deleted.filter_results} <= {0}
        wait_until(partial(self.has_entries, after), _ANSWER_S, "the entries are not in force")

    def prepare(self) -> None:
        """Make what is there all the time: coordinators, members and transactions."""
        for key_type in (0, 1):
            wait_until(partial(self._has_coordinator, key_type), _ANSWER_S, "no coordinator")
        self.restore()
        self._join()
        for name in PRODUCERS:
            wait_until(partial(self._is_producer, name), _ANSWER_S, f"no producer {name}")
        self._open_transaction()

    def restore(self) -> None:
        """Make again what requests may have deleted."""
        topics = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in TOPICS]
        ask(self.admin, ApiKey.CREATE_TOPICS, 7, topics=topics, timeout_ms=10_000)
        wait_until(self._has_topics, _ANSWER_S, "a topic has no leader")
        for name in GROUPS:
            wait_until(partial(self._committed, name), _ANSWER_S, f"{name} has no offsets")

    def _has_coordinator(self, key_type: int) -> bool:
        answer = ask(self.admin, ApiKey.FIND_COORDINATOR, 3, key="a", key_type=key_type)
        return at(answer, "error_code") == 0

    def _has_topics(self) -> bool:
        asked = [{"partition_index": 0, "timestamp": -1}]
        topics = [{"name": name, "partitions": asked} for name in TOPICS]
        listed = ask(self.admin, ApiKey.LIST_OFFSETS, 5, replica_id=-1, topics=topics)
        if "'error_code': 0" not in repr(listed) or _has_error(listed):
            return False
        named = request(ApiKey.METADATA, 12, topics=[{"name": name} for name in TOPICS])
        for each in self.admin.ask(named, 12, MetadataResponse).topics:
            self.own[Own("topic", each.name or "")] = each.topic_id
        return True

    def _committed(self, name: str) -> bool:
        partitions = [{"partition_index": 0, "committed_offset": 1, "committed_metadata": "m"}]
        topics = [{"name": each, "partitions": partitions} for each in TOPICS]
        values = {"generation_id_or_member_epoch": -1, "member_id": "", "topics": topics}
        return not _has_error(ask(self.admin, ApiKey.OFFSET_COMMIT, 8, group_id=name, **values))

    def _join(self) -> None:
        """Anna leads a group of the classic protocol, ben is alone in one of the other."""
        who: dict[str, object] = {
            "group_id": CLASSIC,
            "session_timeout_ms": _LONG_MS,
            "rebalance_timeout_ms": _LONG_MS,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": SUBSCRIPTION}],
        }
        response = ask(self.admin, ApiKey.JOIN_GROUP, 9, **who)
        anna = cast("str", at(response, "member_id"))
        self.own[Own("member", "anna")] = anna
        assert not _has_error(ask(self.admin, ApiKey.JOIN_GROUP, 9, **who, member_id=anna))
        synced = ask(
            self.admin,
            ApiKey.SYNC_GROUP,
            5,
            group_id=CLASSIC,
            generation_id=1,
            member_id=anna,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[{"member_id": anna, "assignment": b""}],
        )
        assert not _has_error(synced)
        beaten = ask(
            self.admin,
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            1,
            group_id=CONSUMERS,
            member_id=BEN,
            member_epoch=0,
            rebalance_timeout_ms=_LONG_MS,
            subscribed_topic_names=["a", "ab"],
            topic_partitions=[],
        )
        assert not _has_error(beaten)

    def _is_producer(self, name: str) -> bool:
        return not _has_error(self._init(name))

    def _init(self, name: str) -> Plain:
        values = {"transactional_id": name, "transaction_timeout_ms": _TRANSACTION_MS}
        return ask(self.admin, ApiKey.INIT_PRODUCER_ID, 3, **values)

    def _open_transaction(self) -> None:
        who = self._init(OPEN)
        added = ask(
            self.admin,
            ApiKey.ADD_PARTITIONS_TO_TXN,
            3,
            v3_and_below_transactional_id=OPEN,
            v3_and_below_producer_id=at(who, "producer_id"),
            v3_and_below_producer_epoch=at(who, "producer_epoch"),
            v3_and_below_topics=[{"name": name, "partitions": [0]} for name in ("a", "ab", "b")],
        )
        assert not _has_error(added)


def _has_error(answer: Plain) -> bool:
    """Whether any error code in the answer is not zero."""
    if isinstance(answer, dict):
        return any(
            (name.endswith("error_code") and value != 0) or _has_error(value)
            for name, value in answer.items()
        )
    return isinstance(answer, list) and any(map(_has_error, answer))


# -- The two clusters -------------------------------------------------------------------------


def _properties(plain: int, users: int) -> dict[str, str]:
    """What a broker has beside what all nodes have."""
    logins = " ".join(f'user_{user}="{_password(user)}"' for user in (ADMIN, *USERS))
    listeners = f"PLAINTEXT://127.0.0.1:{plain},SASL_PLAINTEXT://127.0.0.1:{users}"
    return {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            f"org.apache.kafka.common.security.plain.PlainLoginModule required {logins};"
        ),
    }


_OF_ALL = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "listener.security.protocol.map": (
        "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT"
    ),
    "remote.log.storage.system.enable": "false",
    "auto.create.topics.enable": "false",
    "num.partitions": "1",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.coordinator.append.linger.ms": "0",
    "group.consumer.session.timeout.ms": str(_LONG_MS),
    "group.consumer.max.session.timeout.ms": str(_LONG_MS),
    # The records are of 2023, and retention must not take them.
    "log.retention.ms": "-1",
}


def _cluster(directory: Path, seats: Mapping[int, Seat], stated: Mapping[str, str]) -> Cluster:
    cluster = Cluster(directory, seats, {**_OF_ALL, **stated})
    (broker,) = cluster.brokers
    properties = _properties(broker.port, free_port())
    if broker.is_controller:
        properties["listeners"] += f",CONTROLLER://127.0.0.1:{broker.controller_port}"
    broker.state(properties)
    return cluster


def _ports(cluster: Cluster) -> Ports:
    (broker,), (controller,) = cluster.brokers, cluster.controllers
    users = broker.properties()["advertised.listeners"].rpartition(":")[2]
    return Ports(broker.port, int(users), controller.controller_port)


@contextmanager
def both_sides(
    directory: Path, stated: Mapping[str, str], *, is_apart: bool
) -> Generator[tuple[Side, Side], None, None]:
    """Kafka and ours with what is stated, prepared alike; with a controller of its own each."""

    def seats(kind: Kind) -> Mapping[int, Seat]:
        return separate((kind,), (kind,)) if is_apart else combined(kind)

    kafka = _cluster(directory / "kafka", seats("kafka"), stated)
    ours = _cluster(directory / "ours", seats("tierlog"), stated)
    with kafka, ours, ExitStack() as stack:
        sides = Side(_ports(kafka), stack), Side(_ports(ours), stack)
        for side in sides:
            side.prepare()
        yield sides
        assert not [each.node_id for each in ours.nodes.values() if "Traceback" in each.output]
