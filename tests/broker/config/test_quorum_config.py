"""A node's part in its cluster is read as Kafka reads it, and refused with Kafka's sentences."""

import pytest

from tierlog.broker.config.config import read_config
from tierlog.broker.config.config_values import ConfigValues
from tierlog.broker.config.listeners import Listeners, read_listeners
from tierlog.broker.config.quorum_config import QuorumVoter, Role, read_quorum
from tierlog.broker.network.socket_listener import Endpoint
from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.protocol.api import ListenerKind

from .node_files import (
    BROKER,
    BY_ROLE,
    COMBINED,
    CONTROLLER,
    DYNAMIC,
    DYNAMIC_BROKER,
    REFUSED,
    Refused,
    changed,
)


def listeners_of(stated: dict[str, str]) -> Listeners:
    values = ConfigValues(stated)
    return read_listeners(values, read_quorum(values, values.integer("node.id")), "here")


@pytest.mark.parametrize(
    ("role", "refused"), [(role, each) for role in BY_ROLE for each in REFUSED[role]]
)
def test_a_node_is_refused_with_kafkas_sentence(role: str, refused: Refused) -> None:
    with pytest.raises(KafkaError) as caught:
        listeners_of(changed(role, refused))
    assert caught.value.code is ErrorCode.INVALID_CONFIG
    assert caught.value.message.removesuffix(".") == refused.sentence.removesuffix(".")


def test_a_combined_node_has_listeners_of_both_kinds() -> None:
    listeners = listeners_of(COMBINED)
    assert listeners.bound == (Endpoint("PLAINTEXT", "", 9092),)
    assert listeners.advertised == (Endpoint("PLAINTEXT", "here", 9092),)
    assert listeners.controllers == (Endpoint("CONTROLLER", "", 9093),)
    assert listeners.kind_of("PLAINTEXT") is ListenerKind.BROKER
    assert listeners.kind_of("CONTROLLER") is ListenerKind.CONTROLLER


def test_a_node_of_one_role_has_listeners_of_one_kind() -> None:
    assert not listeners_of(BROKER).controllers
    assert not listeners_of(CONTROLLER).bound


def test_a_controller_is_advertised_at_the_address_of_its_voter() -> None:
    (endpoint,) = listeners_of(
        COMBINED | {"controller.quorum.voters": "1@h:9"}
    ).advertised_controllers
    assert endpoint == Endpoint("CONTROLLER", "h", 9)
    stated = {"advertised.listeners": "PLAINTEXT://h:1,CONTROLLER://g:2"}
    (endpoint,) = listeners_of(COMBINED | stated).advertised_controllers
    assert endpoint == Endpoint("CONTROLLER", "g", 2)
    dynamic = COMBINED | {"controller.quorum.bootstrap.servers": "h:9"}
    del dynamic["controller.quorum.voters"]
    (endpoint,) = listeners_of(dynamic).advertised_controllers
    assert endpoint == Endpoint("CONTROLLER", "here", 9093)


def test_of_two_entries_for_a_voter_the_last_counts() -> None:
    values = ConfigValues(BROKER | {"controller.quorum.voters": "1@[::1]:1, +2@b:2 ,1@c:3"})
    quorum = read_quorum(values, 7)
    assert quorum.voters == (QuorumVoter(1, "c", 3), QuorumVoter(2, "b", 2))
    assert quorum.own_voter is None
    assert quorum.only_role is Role.BROKER


def test_a_process_that_is_the_whole_cluster_needs_no_listener_for_controllers() -> None:
    config = read_config({"listeners": "PLAINTEXT://:9092"})
    assert config.quorum.roles == {Role.BROKER, Role.CONTROLLER}
    assert not config.listeners.controllers
    assert not config.is_member


WHOLE_CLUSTERS = {
    "nothing is said": {"listeners": "PLAINTEXT://:9092"},
    "its own voter": COMBINED,
    "its own listener": DYNAMIC | {"controller.quorum.bootstrap.servers": "localhost:9093"},
    "its advertised listener": DYNAMIC
    | {
        "controller.quorum.bootstrap.servers": "h:9093",
        "advertised.listeners": "PLAINTEXT://h:9092,CONTROLLER://h:9093",
    },
}
MEMBERS = {
    "a broker": BROKER,
    "a controller": CONTROLLER,
    "three voters": COMBINED | {"controller.quorum.voters": "1@a:1,2@b:1,3@c:1"},
    "another server": DYNAMIC | {"controller.quorum.bootstrap.servers": "other:9093"},
    "two servers": DYNAMIC | {"controller.quorum.bootstrap.servers": "localhost:9093,other:9093"},
    "a dynamic broker": DYNAMIC_BROKER,
}


@pytest.mark.parametrize("stated", WHOLE_CLUSTERS.values(), ids=WHOLE_CLUSTERS)
def test_a_process_that_names_no_other_controller_is_its_whole_cluster(
    stated: dict[str, str],
) -> None:
    assert not read_config(stated).is_member


@pytest.mark.parametrize("stated", MEMBERS.values(), ids=MEMBERS)
def test_a_process_that_names_others_is_a_member(stated: dict[str, str]) -> None:
    assert read_config(stated).is_member


def test_a_member_must_name_the_listener_for_controllers() -> None:
    stated = COMBINED | {
        "controller.quorum.voters": "1@a:1,2@b:1",
        "listeners": "PLAINTEXT://:9092",
    }
    del stated["controller.listener.names"]
    with pytest.raises(KafkaError) as caught:
        read_config(stated)
    assert 'Missing required configuration "controller.listener.names"' in caught.value.message
