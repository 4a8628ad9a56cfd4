"""A member of a cluster of several processes: what refuses its start, and its settings."""

import pytest

from tierlog.broker.cluster.lifecycle_config import LifecycleConfig, lifecycle_config
from tierlog.broker.config.config import config_warnings, read_config
from tierlog.broker.config.config_values import ConfigValues
from tierlog.broker.config.remote_plugins import metadata_listener
from tierlog.broker.config.settings import cluster_control_config, raft_options, voter_set
from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.kafka_uuid import ZERO_UUID, Uuid
from tierlog.replication.control.cluster_control_config import ClusterControlConfig
from tierlog.replication.raft.raft_options import RaftOptions
from tierlog.replication.raft.voter_set import Address, Voter, VoterKey, VoterSet

from .node_files import BROKER, COMBINED, CONTROLLER, DYNAMIC, DYNAMIC_BROKER

THREE = COMBINED | {"controller.quorum.voters": "1@a:9093,2@b:9093,3@c:9093"}
DIRECTORY = Uuid(b"0123456789abcdef")


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (
            {"tierlog.mount.old.url": "file:///tmp/old"},
            "cannot mount another tier yet",
        ),
        ({"metadata.log.dir": "/elsewhere"}, "metadata.log.dir=/elsewhere is not supported yet"),
    ],
)
def test_what_a_member_does_not_serve_refuses_the_start(
    more: dict[str, str], sentence: str
) -> None:
    with pytest.raises(KafkaError) as caught:
        read_config(THREE | more)
    assert caught.value.code is ErrorCode.INVALID_CONFIG
    assert sentence in caught.value.message
    if "metadata.log.dir" not in more:
        read_config(COMBINED | more)


def test_a_member_may_have_a_tier_and_reaches_its_metadata_at_the_listener_for_brokers() -> None:
    listeners = {
        "listeners": "CLIENTS://:9092,PLAINTEXT://:9094,CONTROLLER://:9093",
        "listener.security.protocol.map": (
            "CLIENTS:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"
        ),
    }
    config = read_config(THREE | listeners | {"rsm.config.url": "file:///tmp/tier"})
    assert config.is_member
    assert config.keeps_tier_metadata

    def metadata_port(stated: dict[str, str], *, is_member: bool) -> int:
        values = ConfigValues(stated)
        return metadata_listener(values, config.listeners, is_member=is_member).port

    assert metadata_port({}, is_member=True) == 9094
    assert metadata_port({}, is_member=False) == 9092
    named = {"remote.log.metadata.manager.listener.name": "CLIENTS"}
    assert metadata_port(named, is_member=True) == 9092


def test_a_controller_cannot_join_the_voters_by_itself() -> None:
    stated = DYNAMIC | {
        "controller.quorum.bootstrap.servers": "other:9093",
        "controller.quorum.auto.join.enable": "true",
    }
    with pytest.raises(KafkaError, match="add-controller"):
        read_config(stated)
    assert read_config(DYNAMIC_BROKER | {"controller.quorum.auto.join.enable": "true"}).is_member


def test_brokers_must_be_able_to_reach_this_one() -> None:
    """Followers and markers would wait for ever on a listener that no broker has."""
    listeners = {
        "listeners": "CLIENTS://:9092,CONTROLLER://:9093",
        "listener.security.protocol.map": "CLIENTS:PLAINTEXT,CONTROLLER:PLAINTEXT",
    }
    with pytest.raises(KafkaError, match=r"inter\.broker\.listener\.name must be .* CLIENTS$"):
        read_config(THREE | listeners)
    named = {"inter.broker.listener.name": "clients"}
    assert read_config(THREE | listeners | named).is_member
    # The whole cluster has no other broker to reach.
    assert not read_config(COMBINED | listeners).is_member


def test_the_metadata_log_of_a_member_is_where_its_file_says() -> None:
    stated = {"log.dirs": "/a,/b,/c", "metadata.log.dir": "/b"}
    assert read_config(THREE | stated).log_dirs == ("/b", "/a", "/c")
    whole = read_config(COMBINED | stated)
    assert whole.log_dirs == ("/a", "/b", "/c")
    assert any("metadata.log.dir has no effect" in each for each in config_warnings(whole))


def test_a_member_is_warned_of_what_it_does_not_obey() -> None:
    stated = {
        "offsets.topic.replication.factor": "3",
        "transaction.state.log.replication.factor": "1",
        "broker.heartbeat.interval.ms": "5000",
    }
    config = read_config(THREE | stated)
    assert config_warnings(config) == [
        "broker.heartbeat.interval.ms=5000 should be at most half of"
        " broker.session.timeout.ms=9000: one late heartbeat fences the broker.",
    ]
    assert config.internal_topic_replication_factor("offsets.topic.replication.factor") == 3
    assert config_warnings(read_config(COMBINED | stated)) == []


def test_a_node_of_one_role_has_no_listeners_of_the_other() -> None:
    controller = read_config(CONTROLLER).listeners
    assert controller.bound == controller.advertised == ()
    broker = read_config(BROKER).listeners
    assert broker.controllers == broker.advertised_controllers == ()


def test_a_broker_may_set_properties_of_its_way_to_the_controllers() -> None:
    stated = BROKER | {"listener.name.controller.ssl.keystore.type": "PEM"}
    (warning,) = config_warnings(read_config(stated))
    assert "have no effect here: listener.name.controller.ssl.keystore.type" in warning


def test_static_voters_are_reached_on_the_first_controller_listener() -> None:
    config = read_config(THREE)
    assert voter_set(config) == VoterSet(
        Voter(VoterKey(node_id), {"CONTROLLER": Address(host, 9093)})
        for node_id, host in ((1, "a"), (2, "b"), (3, "c"))
    )
    options = raft_options(config, DIRECTORY, cluster_id="cluster")
    assert options == RaftOptions(
        1,
        cluster_id="cluster",
        endpoints={"CONTROLLER": Address("a", 9093)},
        fetch_timeout_spread_ms=250,
    )
    assert options.directory_id == ZERO_UUID


def test_a_dynamic_voter_has_a_directory_and_a_broker_cannot_be_a_voter() -> None:
    stated = DYNAMIC | {
        "controller.quorum.bootstrap.servers": "a:9093,b:9093",
        "controller.quorum.election.timeout.ms": "1",
        "controller.quorum.fetch.timeout.ms": "2",
        "controller.quorum.election.backoff.max.ms": "3",
        "controller.quorum.request.timeout.ms": "4",
        "controller.quorum.retry.backoff.ms": "5",
        "controller.quorum.fetch.snapshot.max.bytes": "6",
    }
    config = read_config(stated, "here")
    assert len(voter_set(config)) == 0
    assert raft_options(config, DIRECTORY) == RaftOptions(
        1,
        DIRECTORY,
        endpoints={"CONTROLLER": Address("here", 9093)},
        bootstrap_servers=(Address("a", 9093), Address("b", 9093)),
        election_timeout_ms=1,
        fetch_timeout_ms=2,
        election_backoff_max_ms=3,
        request_timeout_ms=4,
        retry_backoff_ms=5,
        fetch_snapshot_max_bytes=6,
    )
    observer = raft_options(read_config(BROKER), DIRECTORY)
    assert not observer.can_be_voter
    assert not observer.endpoints


def test_the_defaults_of_a_broker_and_its_controller_are_kafkas() -> None:
    values = ConfigValues({})
    assert lifecycle_config(values) == LifecycleConfig()
    assert cluster_control_config(values) == ClusterControlConfig()


def test_the_settings_of_a_broker_and_its_controller_are_those_of_the_file() -> None:
    values = ConfigValues(
        {
            "broker.heartbeat.interval.ms": "0",
            "initial.broker.registration.timeout.ms": "2",
            "controlled.shutdown.enable": "false",
            "broker.session.timeout.ms": "3",
            "leader.imbalance.check.interval.seconds": "4",
            "auto.leader.rebalance.enable": "false",
            "metadata.max.idle.interval.ms": "5",
        }
    )
    assert lifecycle_config(values) == LifecycleConfig(1, 2, controlled_shutdown=False)
    assert cluster_control_config(values) == ClusterControlConfig(3, 4, False, 5)
