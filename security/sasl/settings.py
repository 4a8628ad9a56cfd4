"""What the properties of one SASL listener say, checked (`BrokerSecurityConfigs`)."""

from collections.abc import Mapping
from typing import NamedTuple

from ...clients.sasl.secret import Secret


class KeyEndpoint(NamedTuple):
    """Where the keys are that verify tokens (`sasl.oauthbearer.jwks.endpoint.*`)."""

    url: str
    """Of a JSON Web Key Set: `file:`, `https:` or `http:`."""
    refresh_ms: int = 3_600_000
    backoff_ms: int = 100
    backoff_max_ms: int = 10_000
    """How long a refresh tries again after failures."""
    trusted_path: str = ""
    """A PEM file with the certificates that vouch for the endpoint; empty for the system's."""
    trusted_text: str = ""
    """The same, inline."""


class SignedTokens(NamedTuple):
    """The rules for tokens with a signature (`BrokerJwtValidator`)."""

    endpoint: KeyEndpoint
    audiences: tuple[str, ...] = ()
    """One of them has to be an audience of the token; without any, it must have none."""
    issuer: str = ""
    """Empty for any."""
    subject_claim: str = "sub"
    scope_claim: str = "scope"
    clock_skew_s: int = 30


class UnsecuredTokens(NamedTuple):
    """The rules for tokens without a signature (`OAuthBearerUnsecuredValidatorCallbackHandler`)."""

    subject_claim: str = "sub"
    scope_claim: str = "scope"
    required_scope: tuple[str, ...] = ()
    clock_skew_ms: int = 0


class MechanismSettings(NamedTuple):
    """One mechanism that a listener has enabled."""

    name: str
    max_reauth_ms: int = 0
    """How long a session lasts at most, in ms; 0: for ever."""
    users: Mapping[str, Secret] = {}
    """The passwords of PLAIN's users."""
    tokens: SignedTokens | UnsecuredTokens | None = None
    """What OAUTHBEARER accepts; None for other mechanisms."""


class SaslSettings(NamedTuple):
    """The SASL settings of one listener."""

    listener: str
    """The listener's name in upper case."""
    mechanisms: tuple[MechanismSettings, ...]
    max_receive_bytes: int
    failure_delay_ms: int
