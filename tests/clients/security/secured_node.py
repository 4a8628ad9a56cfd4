"""One node, ours or Kafka's, with a listener for each way in, its users and its rules.

Both kinds get the same properties file and the same requests of administration.
"""

import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from confluent_kafka.cimpl import NewTopic

from tierlog.bench.harness.processes.cluster import Cluster, Kind, combined
from tierlog.bench.harness.requests.probe import free_port

from ...security.sasl.oauth.tokens import AUDIENCE, ISSUER, claims, key_set, signed
from ...security.tls.certificates import (
    authority,
    broker_certificate,
    person,
    write_authority,
    write_identity,
)

USER = "alice"
PASSWORD = "open sesame"
OPEN = "open-"
"""What the names begin with that everybody may use."""
CLOSED = "closed"
"""A topic, a group and a transactional id that only administrators may use."""
PASSWORD_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
TOKENS = "OAUTHBEARER"

_LISTENERS = {
    "SSL": "SSL",
    "MUTUAL": "SSL",
    "EXPIRED": "SSL",
    "SASL_PLAINTEXT": "SASL_PLAINTEXT",
    "SASL_SSL": "SASL_SSL",
    "FEW": "SASL_PLAINTEXT",
}
"""Beside PLAINTEXT, which is the administrators' too: the name of each, and its protocol."""
_ANSWER_S = 60
_TOKEN_S = 3600
_ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"


class Admin(Protocol):
    """What is used of `confluent_kafka.admin.AdminClient`."""

    def create_topics(self, topics: list[NewTopic]) -> dict[str, Future[None]]: ...
    def create_acls(self, acls: list[AclBinding]) -> dict[AclBinding, Future[None]]: ...
    def alter_user_scram_credentials(
        self, changes: list[UserScramCredentialUpsertion]
    ) -> dict[str, Future[None]]: ...


@dataclass(frozen=True, slots=True)
class Papers:
    """The PEM files of a run."""

    ca: Path
    stranger: Path
    """An authority that vouches for nobody here."""
    broker: Path
    expired_broker: Path
    identity: Path
    """Of USER."""
    expired_identity: Path
    strange_identity: Path
    """Of USER too, but vouched for by the stranger."""
    keys: Path
    """The issuer's public keys."""
    token: Path
    """Of USER."""
    forged_token: Path
    """Signed by somebody else."""
    token_for_others: Path
    """Of an audience that is not ours."""


def write_papers(folder: Path) -> Papers:
    """Make all keys and certificates."""
    past = datetime(2020, 1, 1, tzinfo=UTC), datetime(2020, 1, 2, tzinfo=UTC)
    old = authority("ours").issue_cert(
        "127.0.0.1", "localhost", common_name="broker", not_before=past[0], not_after=past[1]
    )
    now = int(time.time())
    token = partial(_write, folder)
    return Papers(
        ca=write_authority(folder),
        stranger=write_authority(folder, "stranger"),
        broker=write_identity(folder, "broker", broker_certificate()),
        expired_broker=write_identity(folder, "expired-broker", old),
        identity=write_identity(folder, "alice", person(USER)),
        expired_identity=write_identity(folder, "expired", person(USER, has_expired=True)),
        strange_identity=write_identity(folder, "strange", person(USER, "stranger")),
        keys=_write(folder, "keys.json", key_set("rsa-1").decode()),
        token=token("token", signed(claims(now, exp=now + _TOKEN_S))),
        forged_token=token("forged", signed(claims(now), "rsa-2", kid="rsa-1")),
        token_for_others=token("others", signed(claims(now, aud="others"))),
    )


def _write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def _properties(papers: Papers) -> dict[str, str]:
    module = "org.apache.kafka.common.security"
    stated = {
        "sasl.enabled.mechanisms": ",".join((*PASSWORD_MECHANISMS, TOKENS)),
        "sasl.oauthbearer.jwks.endpoint.url": papers.keys.as_uri(),
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        _ALLOWED_URLS: papers.keys.as_uri(),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(papers.broker),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(papers.ca),
        "ssl.principal.mapping.rules": "RULE:^.*CN=([a-z]+).*$/$1/,DEFAULT",
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.expired.ssl.keystore.type": "PEM",
        "listener.name.expired.ssl.keystore.location": str(papers.expired_broker),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        # Who comes by the plaintext listener, the node itself among them.
        "super.users": "User:ANONYMOUS",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
    }
    stated["listener.name.few.sasl.enabled.mechanisms"] = "PLAIN"
    for name in ("sasl_plaintext", "sasl_ssl", "few"):
        prefix = f"listener.name.{name}"
        stated[f"{prefix}.plain.sasl.jaas.config"] = (
            f'{module}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
        )
        for mechanism in ("scram-sha-256", "scram-sha-512"):
            login = f"{module}.scram.ScramLoginModule required;"
            stated[f"{prefix}.{mechanism}.sasl.jaas.config"] = login
        validator = f"{module}.oauthbearer.OAuthBearerValidatorCallbackHandler"
        stated[f"{prefix}.oauthbearer.sasl.server.callback.handler.class"] = validator
        login = f"{module}.oauthbearer.OAuthBearerLoginModule required;"
        stated[f"{prefix}.oauthbearer.sasl.jaas.config"] = login
    return stated


class SecuredNode:
    """A node that runs, and where its listeners are."""

    def __init__(self, kind: Kind, addresses: dict[str, str], log_tail: Callable[[], str]) -> None:
        self.kind = kind
        self.addresses = addresses
        """By the listener's name."""
        self.log_tail = log_tail
        make = cast("Callable[..., Admin]", import_module("confluent_kafka.admin").AdminClient)
        self._admin = make({"bootstrap.servers": addresses["PLAINTEXT"]})

    def create_topics(self, names: Sequence[str]) -> None:
        made = [NewTopic(name, num_partitions=1, replication_factor=1) for name in names]
        for future in self._admin.create_topics(made).values():
            future.result(_ANSWER_S)

    def prepare(self) -> None:
        """Make the users of SCRAM, the rules, and the topic that is closed."""
        for kind in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            info = ScramCredentialInfo(kind, 4096)
            change = UserScramCredentialUpsertion(USER, info, PASSWORD.encode())
            self._admin.alter_user_scram_credentials([change])[USER].result(_ANSWER_S)
        kinds = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)
        rules = [
            AclBinding(
                kind,
                OPEN,
                ResourcePatternType.PREFIXED,
                "User:*",
                "*",
                AclOperation.ALL,
                AclPermissionType.ALLOW,
            )
            for kind in kinds
        ]
        for future in self._admin.create_acls(rules).values():
            future.result(_ANSWER_S)
        self.create_topics([CLOSED, OPEN])


@contextmanager
def secured_node(kind: Kind, folder: Path, papers: Papers) -> Generator[SecuredNode]:
    """A node of that kind, ready for clients."""
    cluster = Cluster(folder, combined(kind), _properties(papers))
    (node,) = cluster.nodes.values()
    ports = {name: free_port() for name in _LISTENERS}
    at = {"PLAINTEXT": node.bootstrap, **{name: f"127.0.0.1:{ports[name]}" for name in ports}}
    for_clients = ",".join(f"{name}://{at[name]}" for name in at)
    protocols = {**_LISTENERS, "PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT"}
    node.state(
        {
            "listeners": f"{for_clients},CONTROLLER://127.0.0.1:{node.controller_port}",
            "advertised.listeners": for_clients,
            "listener.security.protocol.map": ",".join(f"{a}:{b}" for a, b in protocols.items()),
        }
    )
    # What we read from the properties, Kafka reads from the JVM's.
    node.java_options = f"-D{_ALLOWED_URLS}={papers.keys.as_uri()}"
    with cluster:
        running = SecuredNode(kind, at, node.log_tail)
        running.prepare()
        yield running
