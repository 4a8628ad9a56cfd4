"""Random entries and questions, answered by the authorizer and by the oracle.

    python -m tierlog.tests.replication.authorizer.access_comparison 2000000

The entries of a set come and go, as in a cluster. Names, prefixes, principals and hosts are few, so
that most of a set bears on most questions.
"""

import sys
from collections.abc import Iterator
from random import Random
from time import process_time
from typing import NamedTuple

from tierlog.clients.kafka_uuid import Uuid
from tierlog.replication.authorizer.acl import Acl
from tierlog.replication.authorizer.authorizer import (
    AclOperation,
    AclPermission,
    PatternType,
    Resource,
    ResourceType,
)
from tierlog.replication.authorizer.standard_authorizer import StandardAuthorizer

from .access_oracle import may, may_any

NAMES = ("a", "ab", "abc", "abd", "b", "*", "h", "hardcode", "é", "a*", "ab\U0001f980")
PRINCIPALS = ("User:a", "User:b", "User:*", "Group:a", "User:CN=a,O=b")
HOSTS = ("*", "10.0.0.1", "10.0.0.2", "0:0:0:0:0:0:0:1")
KINDS = (ResourceType.TOPIC, ResourceType.GROUP)
OPERATIONS = tuple(each for each in AclOperation if each >= AclOperation.READ)
SET_MAX = 14
QUESTIONS_PER_SET = 40
SUPERIOR = "User:root"


class Question(NamedTuple):
    principal: str
    host: str
    operation: AclOperation
    resource: Resource


def random_acl(random: Random) -> Acl:
    return Acl(
        random.choice(KINDS),
        random.choice(NAMES),
        random.choice((PatternType.LITERAL, PatternType.PREFIXED)),
        random.choice(PRINCIPALS),
        random.choice(HOSTS),
        random.choice((AclOperation.ALL, *OPERATIONS[:6], AclOperation.DESCRIBE_CONFIGS)),
        random.choice((AclPermission.ALLOW, AclPermission.ALLOW, AclPermission.DENY)),
    )


def random_question(random: Random) -> Question:
    return Question(
        random.choice(PRINCIPALS),
        random.choice(HOSTS[1:]),
        random.choice(OPERATIONS),
        Resource(random.choice(KINDS), random.choice(NAMES) + random.choice(("", "c", "x"))),
    )


def differences(seed: int, pairs: int) -> Iterator[tuple[list[Acl], bool, Question]]:
    """The questions that the two answer differently, of `pairs` sets with a question."""
    random = Random(seed)
    acls: dict[Uuid, Acl] = {}
    authorizers = {each: StandardAuthorizer(frozenset({SUPERIOR}), each) for each in (False, True)}
    for authorizer in authorizers.values():
        authorizer.complete_load()
    for number in range(0, pairs, QUESTIONS_PER_SET):
        changes: dict[Uuid, Acl | None] = dict.fromkeys(
            random.sample(sorted(acls), random.randint(0, len(acls)))
        )
        for each in range(random.randint(0, SET_MAX - len(acls) + len(changes))):
            changes[Uuid(number.to_bytes(8, "big") + each.to_bytes(8, "big"))] = random_acl(random)
        acls |= {entry_id: acl for entry_id, acl in changes.items() if acl is not None}
        acls = {entry_id: acl for entry_id, acl in acls.items() if changes.get(entry_id, acl)}
        entries = list(acls.values())
        for authorizer in authorizers.values():
            authorizer.update(changes)
        for _ in range(QUESTIONS_PER_SET):
            question, everyone = random_question(random), random.random() < 0.5
            who, host, operation, (kind, name) = question
            authorizer = authorizers[everyone]
            if authorizer.authorize(*question) != may(
                entries, who, host, operation, kind, name, everyone
            ) or authorizer.authorize_any(who, host, operation, kind) != may_any(
                entries, who, host, operation, kind, everyone
            ):
                yield entries, everyone, question


if __name__ == "__main__":
    count, begun = int(sys.argv[1]), process_time()
    differing = list(differences(1, count))
    print(f"{count:,} pairs in {process_time() - begun:.1f} s of CPU, {len(differing)} differ")
    sys.exit(bool(differing))
