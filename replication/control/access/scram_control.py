"""Decides on users' SCRAM credentials (KIP-554, `ScramControlManager`), and describes them.

A request holds salted passwords; what is kept of one are the two keys that verify a login. Each
user has one result, in the order in which the request names it first. The changes of all users
whose changes are valid are one batch. A cluster whose `metadata.version` is below 11 (3.5-IV2) has
no records for them, and refuses all.

With the first user comes a secret of the cluster. It decides what brokers answer for names that are
no users (`security/sasl/unknown_users.py`), so that nobody can compute it who does not read
the metadata log. Kafka has no record for it: it is a configuration of all brokers, which no request
shows. A cluster that was made by Kafka gets it with the next user.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ....clients.errors import ErrorCode, KafkaError
from ....clients.kafka_uuid import Uuid
from ....clients.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ....clients.protocol.schema import Message
from ....clients.sasl.scram_keys import (
    CREDENTIAL_ITERATIONS_MAX,
    CREDENTIAL_ITERATIONS_MIN,
    SCRAM_BY_CODE,
    ScramCredential,
    ScramMechanism,
    credential_of,
    encode64,
)
from ...metadata.cluster_image import ClusterImage, ConfigResourceType
from ...metadata.decision import Decision
from ...metadata.metadata_records import (
    METADATA_VERSION,
    METADATA_VERSION_FEATURE,
    ConfigRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)

_SCRAM_SINCE = 11
"""The metadata version of the first records of users (`MetadataVersion.isScramSupported`)."""

SECRET_CONFIG = "tierlog.scram.unknown.users.secret"
"""The configuration of all brokers that holds the secret."""

_DUPLICATE = "A user credential cannot be altered twice in the same request"

AlterationResults = Sequence[tuple[str, KafkaError | None]]
"""Each user's name, with the error that its changes met."""


def secret_record(chance: bytes) -> ConfigRecord:
    """The record of the cluster's secret for names that are no users, made of random bytes."""
    return ConfigRecord(
        resource_type=ConfigResourceType.BROKER,
        resource_name="",
        name=SECRET_CONFIG,
        value=encode64(hashlib.sha256(chance).digest()),
    )


def secret_of(image: ClusterImage) -> bytes:
    """The cluster's secret for names that are no users; empty if it has none yet."""
    return image.broker_config(None).get(SECRET_CONFIG, "").encode()


def alter_scram_credentials(
    image: ClusterImage, request: AlterUserScramCredentialsRequest, new_id: Callable[[], Uuid]
) -> Decision[AlterationResults]:
    """Decide on each user separately. `new_id` returns random bytes for the cluster's secret."""
    results: dict[str, KafkaError | None] = {}
    records: dict[str, Message] = {}
    for change in _changes(request):
        name = change.name
        if name in results:
            # An error stays as it is; a change that seemed valid is void.
            if records.pop(name, None) is not None:
                results[name] = KafkaError(ErrorCode.DUPLICATE_RESOURCE, _DUPLICATE)
            continue
        try:
            _check_version(image)
            records[name] = _decide(image, change)
            results[name] = None
        except KafkaError as error:
            results[name] = error
    written = list(records.values())
    if any(isinstance(message, UserScramCredentialRecord) for message in written) and not secret_of(
        image
    ):
        written.append(secret_record(new_id() + new_id()))
    return Decision(written, list(results.items()))


_Change = ScramCredentialDeletion | ScramCredentialUpsertion


def _changes(request: AlterUserScramCredentialsRequest) -> list[_Change]:
    deletions: list[_Change] = list(request.deletions)
    return deletions + list(request.upsertions)


def named_users(request: AlterUserScramCredentialsRequest) -> list[str]:
    """The users that a request names, each once."""
    return list(dict.fromkeys(change.name for change in _changes(request)))


def _check_version(image: ClusterImage) -> None:
    if image.features.get(METADATA_VERSION_FEATURE, METADATA_VERSION) < _SCRAM_SINCE:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION, "The current metadata.version does not support SCRAM"
        )


def _decide(image: ClusterImage, change: _Change) -> Message:
    if not change.name:
        raise _unacceptable("Username must not be empty")
    mechanism = SCRAM_BY_CODE.get(change.mechanism)
    if mechanism is None:
        raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(change, ScramCredentialDeletion):
        if (change.name, change.mechanism) not in image.scram_credentials:
            raise KafkaError(
                ErrorCode.RESOURCE_NOT_FOUND,
                "Attempt to delete a user credential that does not exist",
            )
        return RemoveUserScramCredentialRecord(name=change.name, mechanism=change.mechanism)
    if change.iterations < CREDENTIAL_ITERATIONS_MIN:
        raise _unacceptable("Too few iterations")
    if change.iterations > CREDENTIAL_ITERATIONS_MAX:
        raise _unacceptable("Too many iterations")
    salted = bytes(change.salted_password)
    if not salted:
        # Like Kafka, where Java makes no key of no bytes.
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    credential = credential_of(mechanism, salted, bytes(change.salt), change.iterations)
    return credential_record(change.name, mechanism, credential)


def credential_record(
    name: str, mechanism: ScramMechanism, credential: ScramCredential
) -> UserScramCredentialRecord:
    """The record of a user's credential."""
    return UserScramCredentialRecord(
        name=name,
        mechanism=mechanism.code,
        salt=credential.salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=credential.iterations,
    )


def _unacceptable(message: str) -> KafkaError:
    return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, message)


class UserCredentials(NamedTuple):
    """A user's mechanisms with their iterations, or why there are none."""

    name: str
    iterations: Sequence[tuple[int, int]]
    error: KafkaError | None = None


def describe_scram_credentials(
    image: ClusterImage, names: Sequence[str] | None
) -> list[UserCredentials]:
    """The credentials of these users, or of all without names (`ScramImage.describe`)."""
    by_name: dict[str, list[tuple[int, int]]] = {}
    for (name, mechanism), credential in sorted(image.scram_credentials.items()):
        by_name.setdefault(name, []).append((mechanism, credential.iterations))
    if not names:
        return [UserCredentials(name, infos) for name, infos in by_name.items()]
    described: list[UserCredentials] = []
    for name, count in Counter(names).items():
        error = None
        if count > 1:
            error = KafkaError(
                ErrorCode.DUPLICATE_RESOURCE,
                "Cannot describe SCRAM credentials for the same user twice in a single request:"
                f" {name}",
            )
        elif name not in by_name:
            error = KafkaError(
                ErrorCode.RESOURCE_NOT_FOUND,
                f"Attempt to describe a user credential that does not exist: {name}",
            )
        described.append(UserCredentials(name, () if error else by_name[name], error))
    return described
