"""Tokens without a signature, by `OAuthBearerUnsecuredValidatorCallbackHandler`: for tests only.

Any client that reaches the listener can write such a token, and is the principal it names.
"""

from collections.abc import Callable
from functools import partial

from ..settings import UnsecuredTokens
from .claims import (
    Claims,
    as_list,
    decoded_part,
    json_object,
    number_claim,
    subject_claim,
    trim,
)
from .token import TokenRefused, ValidateToken, ValidToken

_PARTS = 3


def unsecured_validator(rules: UnsecuredTokens, wall_clock_ms: Callable[[], int]) -> ValidateToken:
    """Accepts any token that obeys the rules, from any client."""
    return partial(_validate, rules, wall_clock_ms)


def _validate(rules: UnsecuredTokens, wall_clock_ms: Callable[[], int], token: str) -> ValidToken:
    claims = _unsigned_claims(token)
    subject = subject_claim(claims, rules.subject_claim)
    expires_at_ms = _check_times(claims, rules.clock_skew_ms, wall_clock_ms())
    scopes = _scopes(claims.get(rules.scope_claim))
    if not scopes.issuperset(rules.required_scope):
        raise TokenRefused(
            "the token lacks a scope that is required", f"[{', '.join(rules.required_scope)}]"
        )
    return ValidToken(subject, expires_at_ms)


def _unsigned_claims(token: str) -> Claims:
    parts = token.split(".")
    if len(parts) != _PARTS:
        raise TokenRefused("the token does not have three parts")
    header, claims, signature = parts
    if not header or not claims:
        raise TokenRefused("the token has an empty part")
    if json_object(decoded_part(header)).get("alg") != "none" or signature:
        raise TokenRefused("the token is signed, but the listener takes unsecured ones")
    return json_object(decoded_part(claims))


def _check_times(claims: Claims, skew_ms: int, now_ms: int) -> int:
    """When the token expires, in milliseconds of the wall clock."""
    expires_at, issued_at = number_claim(claims, "exp"), number_claim(claims, "iat")
    if expires_at is None:
        raise TokenRefused("the token has no time of expiry")
    if issued_at is not None and 1000 * issued_at > now_ms + skew_ms:
        raise TokenRefused("the token is of a later time than now")
    if now_ms - skew_ms >= 1000 * expires_at:
        raise TokenRefused("the token has expired")
    if issued_at is not None and expires_at <= issued_at:
        raise TokenRefused("the token expires before it begins")
    return round(expires_at * 1000)


def _scopes(value: object) -> set[str]:
    """A text is one scope, as in Kafka: it is not split at its spaces."""
    if value is None:
        return set()
    scopes = as_list(value)
    texts = [trim(scope) for scope in scopes if isinstance(scope, str)]
    if len(texts) < len(scopes):
        raise TokenRefused("the token has a scope that is not text")
    return {text for text in texts if text}
