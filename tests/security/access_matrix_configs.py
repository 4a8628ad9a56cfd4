"""What the configs of topics, brokers, loggers, metrics and groups need."""

from collections.abc import Callable, Mapping

from tierlog.clients.protocol.api import ApiKey
from tierlog.replication.authorizer.authorizer import AclOperation

from .access_cases import (
    ALTER_CONFIGS,
    CLUSTER_DENIED,
    DESCRIBE_CONFIGS,
    GROUP_DENIED,
    TOPIC_DENIED,
    Case,
    Names,
    RightTo,
    Values,
    case,
    of_cluster,
    of_group,
    of_topic,
    one,
)


def _resource(kind: int, name: str, **more: object) -> dict[str, object]:
    return {"resources": [{"resource_type": kind, "resource_name": name, **more}]}


_NUMBERED = frozenset({4, 8})
"""Kinds of resources that are named by a broker's number."""


def _reading(kind: int) -> Values:
    def values(n: Names) -> Mapping[str, object]:
        name = "1" if kind in _NUMBERED else n.name
        return _resource(kind, name, configuration_keys=["no.such.key"])

    return values


def _change(kind: int, key: str, value: str) -> Values:
    def values(n: Names) -> Mapping[str, object]:
        name = "1" if kind in _NUMBERED else n.name
        changes = [{"name": key, "config_operation": 0, "value": value}]
        return {"validate_only": True, **_resource(kind, name, configs=changes)}

    return values


def config_cases() -> list[Case]:
    kinds: tuple[tuple[int, Callable[[AclOperation], RightTo], int, str], ...] = (
        (2, of_topic, TOPIC_DENIED, "-topic"),
        (4, of_cluster, CLUSTER_DENIED, "-broker"),
        (8, of_cluster, CLUSTER_DENIED, "-logger"),
        (16, of_cluster, CLUSTER_DENIED, "-metrics"),
        (32, of_group, GROUP_DENIED, "-group"),
    )
    changes: Mapping[int, tuple[str, str]] = {
        2: ("retention.ms", "1000000"),
        4: ("log.cleaner.threads", "1"),
        8: ("root", "INFO"),
        16: ("interval.ms", "60000"),
        32: ("consumer.session.timeout.ms", "50000"),
    }
    cases: list[Case] = []
    for kind, right, denied, label in kinds:
        described = one(right(DESCRIBE_CONFIGS))
        altered = one(right(ALTER_CONFIGS))
        read, change = _reading(kind), _change(kind, *changes[kind])
        cases += case(ApiKey.DESCRIBE_CONFIGS, (1, 4), denied, described, read, label)
        cases += case(ApiKey.INCREMENTAL_ALTER_CONFIGS, (0, 1), denied, altered, change, label)
    cases += case(
        ApiKey.ALTER_CONFIGS,
        (1, 2),
        TOPIC_DENIED,
        one(of_topic(ALTER_CONFIGS)),
        lambda n: {
            "validate_only": True,
            **_resource(2, n.name, configs=[{"name": "retention.ms", "value": "1000000"}]),
        },
    )
    return cases
