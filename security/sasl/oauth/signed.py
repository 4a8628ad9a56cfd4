"""Tokens with a signature (`BrokerJwtValidator`)."""

from collections.abc import Callable
from functools import partial

from ..settings import SignedTokens
from .claims import check_claims, json_object
from .key_set import KeyUnknown
from .key_source import KeySource
from .token import ValidateToken, ValidToken


def signed_validator(
    rules: SignedTokens, source: KeySource, wall_clock_ms: Callable[[], int]
) -> ValidateToken:
    """Accepts what obeys the rules and is signed with one of the source's keys."""
    return partial(_validate, rules, source, wall_clock_ms)


def _validate(
    rules: SignedTokens, source: KeySource, wall_clock_ms: Callable[[], int], token: str
) -> ValidToken:
    try:
        claims = source.keys().verified_claims(token)
    except KeyUnknown as error:
        source.miss(error.key_id)
        raise
    return check_claims(json_object(claims), rules, wall_clock_ms())
