"""What a node's file says of its part in the cluster, and the sentence that refuses it.

The sentences are Kafka's; `tests/conformance/test_controller_listener_against_kafka.py` asks it.
"""

from typing import NamedTuple


class Refused(NamedTuple):
    """Properties that change a node's file, and why a node with them does not start."""

    stated: dict[str, str]
    sentence: str


COMBINED = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.voters": "1@localhost:9093",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "controller.listener.names": "CONTROLLER",
}
BROKER = COMBINED | {
    "process.roles": "broker",
    "controller.quorum.voters": "2@localhost:9093",
    "listeners": "PLAINTEXT://:9092",
}
CONTROLLER = COMBINED | {"process.roles": "controller", "listeners": "CONTROLLER://:9093"}
DYNAMIC = {name: text for name, text in COMBINED.items() if name != "controller.quorum.voters"}
"""A combined node without static voters, which needs bootstrap servers."""
DYNAMIC_BROKER = DYNAMIC | {
    "process.roles": "broker",
    "listeners": "PLAINTEXT://:9092",
    "controller.quorum.bootstrap.servers": "localhost:9093",
}
BY_ROLE = {"combined": COMBINED, "broker": BROKER, "controller": CONTROLLER}

_VOTER = "Each entry should be in the form `{id}@{host}:{port}`."
_MAP = (
    "not found in listener.security.protocol.map  (an explicit security mapping for each controller"
    " listener is required if listener.security.protocol.map is non-empty, or if there are security"
    " protocols other than PLAINTEXT in use)"
)
_NO_QUORUM = (
    "If using process.roles, either controller.quorum.bootstrap.servers must contain the set of"
    " bootstrap controllers or controller.quorum.voters must contain a parseable set of"
    " controllers."
)
_NO_NAMES = 'Missing required configuration "controller.listener.names" which has no default value.'
_UNROUTABLE = (
    "advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP"
    " address."
)
_NO_BROKER = (
    "There must be at least one broker advertised listener. Perhaps all listeners appear in"
    " controller.listener.names?"
)
_INTER_BROKER = (
    "inter.broker.listener.name must be a listener name defined in advertised.listeners. The valid"
    " options based on currently configured listeners are"
)
_THREE = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,OTHER:PLAINTEXT"


def _parse_error(voter: str) -> str:
    return (
        f"Failed to parse host name from entry {voter} for the configuration"
        f" controller.quorum.voters. {_VOTER}"
    )


REFUSED = {
    "combined": [
        Refused(
            {"controller.quorum.voters": "2@h:1,3@h:2"},
            "If process.roles contains the 'controller' role, the node id 1 must be included in the"
            " set of voters controller.quorum.voters=Set(2, 3)",
        ),
        Refused(
            {"listeners": "PLAINTEXT://:9092"},
            "controller.listener.names must contain at least one value appearing in the 'listeners'"
            " configuration when running the KRaft controller role",
        ),
        Refused(
            {
                "controller.listener.names": "CONTROLLER,OTHER",
                "listener.security.protocol.map": _THREE,
            },
            "controller.listener.names must only contain values appearing in the 'listeners'"
            " configuration when running the KRaft controller role",
        ),
        Refused({"listeners": "CONTROLLER://:9093"}, _NO_BROKER),
        Refused({"advertised.listeners": "CONTROLLER://h:2"}, _NO_BROKER),
        Refused({"advertised.listeners": "PLAINTEXT://0.0.0.0:2"}, _UNROUTABLE),
        Refused({"advertised.listeners": "PLAINTEXT://h:1,CONTROLLER://0.0.0.0:2"}, _UNROUTABLE),
        Refused(
            {
                "advertised.listeners": "PLAINTEXT://h:2,OTHER://h:3",
                "listener.security.protocol.map": _THREE,
            },
            "advertised.listeners listener names must be equal to or a subset of the ones defined"
            " in listeners. Found PLAINTEXT,OTHER. The valid options based on the current"
            " configuration are PLAINTEXT,CONTROLLER",
        ),
        Refused({"inter.broker.listener.name": "CONTROLLER"}, f"{_INTER_BROKER} PLAINTEXT"),
        Refused(
            {"inter.broker.listener.name": "PLAINTEXT", "security.inter.broker.protocol": "SSL"},
            "Only one of inter.broker.listener.name and security.inter.broker.protocol should be"
            " set.",
        ),
        Refused(
            {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:BOGUS"},
            "Invalid security protocol `BOGUS` defined in listener.security.protocol.map",
        ),
        Refused({"controller.quorum.voters": "1@localhost"}, _parse_error("1@localhost")),
        Refused({"controller.quorum.voters": "1@h:x"}, _parse_error("1@h:x")),
        Refused(
            {"controller.quorum.voters": "x@h:1"}, "Failed to parse voter ID as an integer from x"
        ),
        Refused(
            {"controller.quorum.voters": "99999999999@h:1"},
            "Failed to parse voter ID as an integer from 99999999999",
        ),
        Refused(
            {"controller.quorum.voters": "h:1"},
            f"Invalid configuration value for controller.quorum.voters. {_VOTER}",
        ),
        Refused(
            {"controller.quorum.voters": "1@a@b:1"},
            f"Invalid configuration value for controller.quorum.voters. {_VOTER}",
        ),
        Refused(
            {"controller.quorum.voters": "1@"},
            f"Invalid configuration value for controller.quorum.voters. {_VOTER}",
        ),
        Refused(
            {"controller.quorum.voters": ",1@h:1"},
            f"Invalid configuration value for controller.quorum.voters. {_VOTER}",
        ),
        Refused({"controller.quorum.voters": "1@é:1"}, _parse_error("1@é:1")),
        Refused({"controller.quorum.voters": "1@h:99999"}, "port out of range:99999"),
        Refused(
            {"controller.quorum.voters": "1@0.0.0.0:9093"}, "Host string (0.0.0.0) is not routeable"
        ),
        Refused(
            {"controller.quorum.bootstrap.servers": "localhost", "controller.quorum.voters": ""},
            "Failed to parse host name from localhost for the configuration"
            " controller.quorum.bootstrap.servers. Each entry should be in the form"
            ' "{host}:{port}"',
        ),
    ],
    "broker": [
        Refused({"controller.listener.names": ""}, _NO_NAMES),
        Refused({"controller.quorum.voters": ""}, _NO_QUORUM),
        Refused(
            {"controller.quorum.voters": "1@h:1"},
            "If process.roles contains just the 'broker' role, the node id 1 must not be included"
            " in the set of voters controller.quorum.voters=Set(1)",
        ),
        Refused(
            {"listeners": "PLAINTEXT://:9092,CONTROLLER://:9093"},
            "controller.listener.names must not contain a value appearing in the 'listeners'"
            " configuration when running KRaft with just the broker role",
        ),
        Refused(
            {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT"},
            f"Controller listener with name CONTROLLER defined in controller.listener.names {_MAP}",
        ),
    ],
    "controller": [
        Refused({"controller.listener.names": ""}, _NO_NAMES),
        Refused({"controller.quorum.voters": ""}, _NO_QUORUM),
        Refused(
            {"listeners": "PLAINTEXT://:9092,CONTROLLER://:9093"},
            "The listeners config must only contain KRaft controller listeners from"
            " controller.listener.names when process.roles=controller",
        ),
        Refused(
            {"inter.broker.listener.name": "CONTROLLER"},
            "controller.listener.names must not contain an explicitly set"
            " inter.broker.listener.name configuration value when process.roles=controller'",
        ),
        Refused(
            {"controller.quorum.voters": "2@h:1"},
            "If process.roles contains the 'controller' role, the node id 1 must be included in the"
            " set of voters controller.quorum.voters=Set(2)",
        ),
    ],
}
"""By the role of the node that is changed. An empty value stands for a name that is not there."""


def changed(role: str, refused: Refused) -> dict[str, str]:
    """The file of a node of that role with the change made."""
    stated = BY_ROLE[role] | refused.stated
    return {name: text for name, text in stated.items() if text}
