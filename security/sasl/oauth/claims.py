"""The JSON of tokens, and what their claims have to say (RFC 7519).

The rules for signed tokens are those of Kafka's `BrokerJwtValidator` and of jose4j, which it uses.
"""

import base64
import binascii
import json
import re
from collections.abc import Mapping
from typing import NoReturn, cast

from ..settings import SignedTokens
from .token import TokenRefused, ValidToken

_SECOND_MAX = (1 << 63) // 1000
"""No later second fits into Java's milliseconds."""
_TRIMMED = "".join(map(chr, range(0x21)))
"""What Java's `trim` removes. It leaves other blanks, which are parts of names."""
_URL_SAFE = re.compile(r"[A-Za-z0-9_-]*")

Claims = Mapping[str, object]


def decoded_part(part: str) -> bytes:
    """One of the parts of a token, from base64 for URLs. Raises TokenRefused."""
    text = part.rstrip("=")
    if _URL_SAFE.fullmatch(text) is None:
        raise TokenRefused("the token is not in base64 for URLs")
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error:
        raise TokenRefused("the token is not in base64 for URLs") from None


def json_object(data: bytes) -> dict[str, object]:
    """A JSON object in which each name occurs once. Raises TokenRefused."""
    try:
        value = json.loads(data.decode(), object_pairs_hook=_unique, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise TokenRefused("the token holds malformed JSON") from None
    if not isinstance(value, dict):
        raise TokenRefused("the token holds no JSON object")
    return cast("dict[str, object]", value)


def trim(text: str) -> str:
    """A name as Kafka compares it (`String.trim`)."""
    return text.strip(_TRIMMED)


def as_list(value: object) -> list[object]:
    """A JSON list, or a list of that one value."""
    return cast("list[object]", value) if isinstance(value, list) else [value]


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    names = dict(pairs)
    if len(names) < len(pairs):
        raise ValueError("a name occurs twice")
    return names


def _no_constant(_: str) -> NoReturn:
    raise ValueError("NaN and infinities are not JSON")


def check_claims(claims: Claims, rules: SignedTokens, now_ms: int) -> ValidToken:
    """Check the claims of a token whose signature is right. Raises TokenRefused."""
    _check_audience(claims, rules.audiences)
    issuer = _text(claims, "iss")
    if rules.issuer and issuer != rules.issuer:
        raise TokenRefused("the token has another issuer, or none")
    _text(claims, "sub")
    _text(claims, "jti")
    expires_at_s = _check_times(claims, rules.clock_skew_s, now_ms)
    _check_scopes(claims.get(rules.scope_claim))
    return ValidToken(trim(subject_claim(claims, rules.subject_claim)), expires_at_s * 1000)


def subject_claim(claims: Claims, name: str) -> str:
    """The claim that says whose the token is. Raises TokenRefused."""
    subject = claims.get(name)
    if not isinstance(subject, str) or not trim(subject):
        raise TokenRefused(f"the token has no claim {name}")
    try:
        subject.encode()
    except UnicodeEncodeError:
        raise TokenRefused(f"the token's claim {name} is no text") from None
    return subject


def _check_audience(claims: Claims, expected: tuple[str, ...]) -> None:
    value = claims.get("aud")
    if value is None:
        if expected:
            raise TokenRefused("the token has no audience")
        return
    audiences = as_list(value)
    if not all(isinstance(audience, str) for audience in audiences):
        raise TokenRefused("the token's audience is not text")
    if not any(audience in expected for audience in audiences):
        why = "is another one" if expected else "is not expected: no audience is set"
        raise TokenRefused(f"the token's audience {why}")


def _check_times(claims: Claims, skew_s: int, now_ms: int) -> int:
    """The second at which the token expires."""
    expires_at, issued_at = _second(claims, "exp"), _second(claims, "iat")
    not_before = _second(claims, "nbf")
    if expires_at is None:
        raise TokenRefused("the token has no time of expiry")
    if issued_at is None:
        raise TokenRefused("the token has no time of issue")
    now = now_ms // 1000
    if now - skew_s >= expires_at:
        raise TokenRefused("the token has expired")
    if expires_at < issued_at or (not_before is not None and expires_at < not_before):
        raise TokenRefused("the token expires before it begins")
    if not_before is not None and now + skew_s < not_before:
        raise TokenRefused("the token is not valid yet")
    if issued_at < 0 or expires_at < 0 or expires_at > _SECOND_MAX:
        raise TokenRefused("the token's times are out of range")
    return expires_at


def _check_scopes(value: object) -> None:
    scopes = as_list(value)
    if not isinstance(value, list | str):
        return
    names = [trim(scope) for scope in scopes if isinstance(scope, str)]
    if len(names) < len(scopes) or not all(names):
        raise TokenRefused("the token has a scope without a name")
    if len(set(names)) < len(names):
        raise TokenRefused("the token names a scope twice")


def _text(claims: Claims, name: str) -> str | None:
    value = claims.get(name)
    if value is not None and not isinstance(value, str):
        raise TokenRefused(f"the token's claim {name} is no text")
    return value


def _second(claims: Claims, name: str) -> int | None:
    value = number_claim(claims, name)
    return None if value is None else int(value)


def number_claim(claims: Claims, name: str) -> int | float | None:
    """A claim that is a number; None if there is none. Raises TokenRefused."""
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) >= 1 << 63:
        raise TokenRefused(f"the token's claim {name} is no time")
    return value
