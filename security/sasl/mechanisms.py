"""The mechanisms of a listener, made of its settings."""

import hashlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ...clients.kafka_uuid import Uuid
from ...clients.sasl.scram_keys import SCRAM_BY_NAME
from .authenticator import OfferedMechanism
from .exchange import Mechanism
from .plain import PlainMechanism
from .scram import CredentialOf, ScramServer
from .settings import KeyEndpoint, MechanismSettings, SaslSettings, SignedTokens, UnsecuredTokens
from .unknown_users import FormsOf, usual_forms

if TYPE_CHECKING:
    from .oauth.key_source import KeySource


class Verifiers(NamedTuple):
    """What a broker knows that the properties do not say."""

    credential_of: CredentialOf
    cluster_id: str
    """Makes the salts of unknown users, which are the same on all brokers."""
    random_uuid: Callable[[], Uuid]
    wall_clock_ms: Callable[[], int]
    keys: "Mapping[KeyEndpoint, KeySource]"
    """The keys that verify tokens, of all listeners' endpoints."""
    forms_of: FormsOf = usual_forms
    """What the credentials of unknown users look like."""
    stored_secret: Callable[[], bytes] = bytes
    """What makes them besides the cluster's id, and is in the metadata log alone."""


def offered_mechanisms(
    settings: SaslSettings, verifiers: Verifiers
) -> Mapping[str, OfferedMechanism]:
    """By name, in the order of the properties."""
    return {
        mechanism.name: OfferedMechanism(_mechanism(mechanism, verifiers), mechanism.max_reauth_ms)
        for mechanism in settings.mechanisms
    }


def _mechanism(settings: MechanismSettings, verifiers: Verifiers) -> Mechanism:
    if settings.tokens is not None:
        return _oauth(settings.tokens, verifiers)
    scram = SCRAM_BY_NAME.get(settings.name)
    if scram is None:
        return PlainMechanism(settings.users)
    cluster_secret = hashlib.sha256(verifiers.cluster_id.encode()).digest()
    return ScramServer(
        scram,
        verifiers.credential_of,
        cluster_secret,
        verifiers.random_uuid,
        verifiers.forms_of,
        verifiers.stored_secret,
    )


def _oauth(tokens: SignedTokens | UnsecuredTokens, verifiers: Verifiers) -> Mechanism:
    # Imported here: other listeners need neither its memory nor its package.
    from .oauth.exchange import OAuthBearerMechanism

    if isinstance(tokens, UnsecuredTokens):
        from .oauth.unsecured import unsecured_validator

        return OAuthBearerMechanism(unsecured_validator(tokens, verifiers.wall_clock_ms))
    from .oauth.signed import signed_validator

    source = verifiers.keys[tokens.endpoint]
    return OAuthBearerMechanism(signed_validator(tokens, source, verifiers.wall_clock_ms))
