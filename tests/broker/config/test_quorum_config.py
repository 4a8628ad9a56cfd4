"""A node's part in its cluster is read as Kafka reads it, and refused with Kafka's sentences."""

import pytest

from tierlog.broker.config.config import read_config
from tierlog.broker.config.config_values import ConfigValues
from tierlog.broker.config.listeners import Listeners, read_listeners
from tierlog.broker.config.quorum_config import QuorumVoter, Role, read_quorum
from tierlog.broker.network.socket_listener import Endpoint
from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.protocol.api import ListenerKind

from .node_files import BROKER, BY_ROLE, COMBINED, CONTROLLER, REFUSED, Refused, changed


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
    (told,) = listeners_of(COMBINED | {"controller.quorum.voters": "1@h:9"}).advertised_controllers
    assert told == Endpoint("CONTROLLER", "h", 9)
    stated = {"advertised.listeners": "PLAINTEXT://h:1,CONTROLLER://g:2"}
    (told,) = listeners_of(COMBINED | stated).advertised_controllers
    assert told == Endpoint("CONTROLLER", "g", 2)
    dynamic = COMBINED | {"controller.quorum.bootstrap.servers": "h:9"}
    del dynamic["controller.quorum.voters"]
    (told,) = listeners_of(dynamic).advertised_controllers
    assert told == Endpoint("CONTROLLER", "here", 9093)


def test_of_two_entries_for_a_voter_the_last_counts() -> None:
    values = ConfigValues(BROKER | {"controller.quorum.voters": "1@[::1]:1, +2@b:2 ,1@c:3"})
    quorum = read_quorum(values, 7)
    assert quorum.voters == (QuorumVoter(1, "c", 3), QuorumVoter(2, "b", 2))
    assert quorum.own_voter is None
    assert quorum.is_only is Role.BROKER


def test_a_process_that_is_the_whole_cluster_needs_no_listener_for_controllers() -> None:
    config = read_config({"listeners": "PLAINTEXT://:9092"})
    assert config.quorum.roles == {Role.BROKER, Role.CONTROLLER}
    assert not config.listeners.controllers


@pytest.mark.parametrize(
    ("stated", "sentence"),
    [
        (BROKER, "process.roles=broker is not supported yet"),
        (CONTROLLER, "process.roles=controller is not supported yet"),
        (
            COMBINED | {"controller.quorum.voters": "1@a:1,2@b:1,3@c:1"},
            "More than one controller is not supported yet",
        ),
    ],
)
def test_a_part_of_a_cluster_does_not_start_yet(stated: dict[str, str], sentence: str) -> None:
    with pytest.raises(KafkaError) as caught:
        read_config(stated)
    assert sentence in caught.value.message
