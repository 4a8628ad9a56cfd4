"""Access control entries in a cluster: forwarded, decided by the controller, followed by all."""

from functools import partial
from pathlib import Path

import pytest

from tierlog.bench.harness.requests.probe import free_port
from tierlog.clients.protocol.api import ApiKey
from tierlog.replication.authorizer.authorizer import AclOperation, Resource, ResourceType
from tierlog.replication.authorizer.standard_authorizer import StandardAuthorizer
from tierlog.replication.metadata.cluster_image import ConfigResourceType

from ..broker_process import BrokerProcess, RawClient
from ..conformance.meaningful_requests import request
from ..waiting import wait_until
from .acl_requests import ALL, create, creation, delete, describe, everything
from .guarded_broker import GuardedBroker

pytestmark = pytest.mark.long

CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
CLUSTER = 4
TOPIC = Resource(ResourceType.TOPIC, "t")


def formatted(directory: Path, node_id: int) -> Path:
    directory.mkdir()
    directory_id = CLUSTER_ID[:-2] + str(node_id) + "A"
    lines = [
        "version=1",
        f"cluster.id={CLUSTER_ID}",
        f"node.id={node_id}",
        f"directory.id={directory_id}",
    ]
    (directory / "meta.properties").write_text("\n".join(lines) + "\n")
    return directory


def follows(authorizer: StandardAuthorizer, principal: str) -> bool:
    return authorizer.authorize(principal, "10.0.0.1", AclOperation.READ, TOPIC)


def has_entries(client: RawClient) -> bool:
    return bool(describe(client))


def test_nodes_without_a_superior_name_are_let_in_by_an_entry(tmp_path: Path) -> None:
    """While there is no entry everybody is let in; then the nodes are by theirs, again and again.

    They are processes, for a controller that is alone keeps its directory until it ends.
    """
    port = free_port()
    quorum = {
        "controller.quorum.voters": f"1@127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    listener = {"listeners": f"CONTROLLER://127.0.0.1:{port}"}
    controller = quorum | listener | {"node.id": "1", "process.roles": "controller"}
    broker = quorum | {"node.id": "2", "process.roles": "broker"}
    for node_id in (1, 2):
        (tmp_path / str(node_id)).mkdir()
        formatted(tmp_path / str(node_id) / "data", node_id)
    entry = creation("kafka-cluster", ALL, kind=CLUSTER, principal="User:ANONYMOUS")
    for is_there in (False, True):
        with (
            BrokerProcess.on(tmp_path / "1", controller),
            BrokerProcess.on(tmp_path / "2", broker) as two,
            RawClient(two.port) as client,
        ):
            assert has_entries(client) is is_there
            assert create(client, entry) == [(0, "")]
            wait_until(partial(has_entries, client), 60, "the broker falls behind")


def audited(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The APIs of the administrative acts that some process has a line of."""
    lines = [each.getMessage() for each in caplog.records if each.name == "tierlog.audit"]
    return [each.split(" ")[3] for each in lines]


def test_brokers_forward_and_follow(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The controller decides; each process follows, one that comes back later too."""
    caplog.set_level("INFO", "tierlog.audit")
    port = free_port()
    quorum = {
        "controller.quorum.voters": f"1@127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "offsets.topic.replication.factor": "1",
    }
    controller = quorum | {
        "node.id": "1",
        "process.roles": "controller",
        "listeners": f"CONTROLLER://127.0.0.1:{port}",
    }
    brokers = {
        node_id: quorum | {"node.id": str(node_id), "process.roles": "broker"} for node_id in (2, 3)
    }
    for node_id in (1, 2, 3):
        formatted(tmp_path / str(node_id), node_id)
    with (
        GuardedBroker(tmp_path / "1", controller) as one,
        GuardedBroker(tmp_path / "2", brokers[2]) as two,
        RawClient(two.port) as client,
    ):
        wait_until(lambda: one.authorizer.epoch > 0, 60, "the controller never loaded its entries")
        with GuardedBroker(tmp_path / "3", brokers[3]) as three:
            assert create(client, creation("t"), creation("")) == [
                (0, ""),
                (42, "Invalid empty resource name"),
            ]
            for each in (one, two, three):
                wait_until(partial(follows, each.authorizer, "User:alice"), 60, "it falls behind")
        assert audited(caplog) == ["CreateAcls"]
        config = {"resource_type": ConfigResourceType.BROKER, "configs": [{"name": "x"}]}
        changed = request(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[config])
        client.receive(client.send(changed, 1))
        assert audited(caplog) == ["CreateAcls", "IncrementalAlterConfigs"]
        create(client, creation("t", principal="User:bob"))
        alice = everything()
        alice.principal_filter = "User:alice"
        assert delete(client, alice) == [["t"]]
        with GuardedBroker(tmp_path / "3", brokers[3]) as three, RawClient(three.port) as late:
            assert follows(three.authorizer, "User:bob")
            assert not follows(three.authorizer, "User:alice")
            assert [line[3] for line in describe(late)] == ["User:bob"]
