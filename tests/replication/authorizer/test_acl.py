"""Filters as `AclBindingFilter` and `ResourcePatternFilterTest` have them, and what is refused."""

from typing import Any

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.replication.authorizer.acl import Acl, check_filter, check_new, matching
from tierlog.replication.authorizer.authorizer import (
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)

from .acls import ANY, ONE

WILDCARD = ONE._replace(name="*")
PREFIX = ONE._replace(name="foo-", pattern=PatternType.PREFIXED)
STAR_PREFIX = ONE._replace(name="*", pattern=PatternType.PREFIXED)
GROUP = ONE._replace(resource_type=ResourceType.GROUP)
ALL_ACLS = [ONE, WILDCARD, PREFIX, STAR_PREFIX, GROUP]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, ALL_ACLS),
        ({"resource_type": ResourceType.GROUP}, [GROUP]),
        ({"name": "foo-bar"}, [ONE, GROUP]),
        ({"name": "foo-bar", "pattern": PatternType.LITERAL}, [ONE, GROUP]),
        ({"name": "foo-", "pattern": PatternType.LITERAL}, []),
        ({"name": "*"}, [WILDCARD, STAR_PREFIX]),
        ({"name": "*", "pattern": PatternType.LITERAL}, [WILDCARD]),
        ({"name": "foo-bar", "pattern": PatternType.MATCH}, [ONE, WILDCARD, PREFIX, GROUP]),
        ({"name": "foo-", "pattern": PatternType.MATCH}, [WILDCARD, PREFIX]),
        ({"name": "*", "pattern": PatternType.MATCH}, [WILDCARD, STAR_PREFIX]),
        ({"pattern": PatternType.MATCH}, ALL_ACLS),
        ({"pattern": PatternType.PREFIXED}, [PREFIX, STAR_PREFIX]),
        ({"principal": "User:a"}, ALL_ACLS),
        ({"principal": "User:b"}, []),
        ({"host": "10.0.0.1"}, ALL_ACLS),
        ({"host": "*"}, []),
        ({"operation": AclOperation.READ}, ALL_ACLS),
        ({"operation": AclOperation.ALL}, []),
        ({"permission": AclPermission.DENY}, []),
    ],
)
def test_what_a_filter_matches(changed: dict[str, Any], expected: list[Acl]) -> None:
    sought = ANY._replace(**changed)
    assert matching(ALL_ACLS, sought) == matching(expected, ANY)
    assert matching(ALL_ACLS[::-1], sought) == matching(expected, ANY)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"resource_type": ResourceType.ANY}, "Invalid resourceType ANY"),
        ({"resource_type": ResourceType.UNKNOWN}, "Invalid resourceType UNKNOWN"),
        ({"pattern": PatternType.MATCH}, "Invalid patternType MATCH"),
        ({"pattern": PatternType.ANY}, "Invalid patternType ANY"),
        ({"pattern": PatternType.UNKNOWN}, "Invalid patternType UNKNOWN"),
        ({"operation": AclOperation.ANY}, "Invalid operation ANY"),
        ({"permission": AclPermission.ANY}, "Invalid permissionType ANY"),
        ({"name": ""}, "Invalid empty resource name"),
        (
            {"resource_type": ResourceType.CLUSTER},
            "The only valid name for the CLUSTER resource is kafka-cluster",
        ),
        (
            {"principal": "alice"},
            "Could not parse principal from `alice` (no colon is present separating the principal "
            "type from the principal name)",
        ),
    ],
)
def test_what_may_not_be_created(changed: dict[str, Any], sentence: str) -> None:
    """`testValidateNewAcl`; the sentences are Kafka's."""
    check_new(ONE)
    with pytest.raises(KafkaError) as refused:
        check_new(ONE._replace(**changed))
    assert (refused.value.code, refused.value.message) == (ErrorCode.INVALID_REQUEST, sentence)


def test_a_filter_of_unknown_fields_is_refused() -> None:
    """`testValidateFilter`."""
    check_filter(ANY)
    for field, sentence in (
        ("resource_type", "Unknown patternFilter."),
        ("pattern", "Unknown patternFilter."),
        ("operation", "Unknown entryFilter."),
        ("permission", "Unknown entryFilter."),
    ):
        with pytest.raises(KafkaError, match=sentence):
            check_filter(ANY._replace(**{field: type(getattr(ANY, field))(0)}))


def test_numbers_that_kafka_does_not_have_are_unknown() -> None:
    assert AclOperation(99) is AclOperation.UNKNOWN
    assert ResourceType(-1) is ResourceType.UNKNOWN
