"""Which tokens are accepted: the cases that `test_oauth_against_kafka.py` shows Kafka, too."""

import json
from random import Random
from typing import Any

import pytest

from tierlog.security.sasl.oauth.key_set import KeySet, KeyUnknown, parse_key_set
from tierlog.security.sasl.oauth.signed import signed_validator
from tierlog.security.sasl.oauth.token import TokenRefused, ValidateToken
from tierlog.security.sasl.oauth.unsecured import unsecured_validator
from tierlog.security.sasl.settings import KeyEndpoint, SignedTokens, UnsecuredTokens

from .tokens import (
    AUDIENCE,
    BAD_SIGNED,
    BAD_UNSECURED,
    BOTH,
    GOOD_SIGNED,
    GOOD_UNSECURED,
    ISSUER,
    REQUIRED_SCOPE,
    SHORT_OF_SCOPE,
    Make,
    claims,
    key_set,
    part,
    signed,
    unsecured,
)

NOW_S = 1_800_000_000
RULES = SignedTokens(KeyEndpoint("file:///keys"), (AUDIENCE,), ISSUER)
UNSECURED = UnsecuredTokens(required_scope=tuple(REQUIRED_SCOPE.split()))


class Keys:
    """Keys that are there, and the ids of those that were missed."""

    def __init__(self, document: bytes) -> None:
        self._keys = parse_key_set(document)
        self.missed: list[str] = []

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def keys(self) -> KeySet:
        return self._keys

    def miss(self, key_id: str) -> None:
        self.missed.append(key_id)


def clock() -> int:
    return NOW_S * 1_000 + 500


def validator(rules: SignedTokens = RULES) -> ValidateToken:
    return signed_validator(rules, Keys(key_set()), clock)


def refused(validate: ValidateToken, token: str) -> TokenRefused:
    with pytest.raises(TokenRefused) as raised:
        validate(token)
    assert "alice" not in raised.value.cause
    return raised.value


@pytest.mark.parametrize("make", GOOD_SIGNED.values(), ids=GOOD_SIGNED)
def test_a_signed_token_says_who_it_is_and_until_when(make: Make) -> None:
    valid = validator()(make(NOW_S))
    assert valid.subject == "alice"
    assert valid.expires_at_ms % 1_000 == 0


@pytest.mark.parametrize("make", BAD_SIGNED.values(), ids=BAD_SIGNED)
def test_a_token_with_one_fault_is_refused(make: Make) -> None:
    assert refused(validator(), make(NOW_S)).required_scope is None


def test_secret_keys_verify_nothing() -> None:
    """Kafka accepts them; who publishes a secret lets everybody in."""
    assert len(parse_key_set(key_set("oct-1"))) == 0
    refused(validator(), signed(claims(NOW_S), "oct-1", "HS256"))


def test_without_an_expected_audience_a_token_must_have_none() -> None:
    validate = validator(RULES._replace(audiences=(), issuer=""))
    assert validate(signed(claims(NOW_S, aud=None, iss=None))).subject == "alice"
    assert "no audience is set" in refused(validate, signed(claims(NOW_S))).cause


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        ("\x00\x1f alice\x02 ", "alice"),
        ("\u00a0alice\u2003", "\u00a0alice\u2003"),
        ("\u00a0", "\u00a0"),
    ],
)
def test_subjects_lose_what_java_trims_and_nothing_else(subject: str, name: str) -> None:
    """Other blanks are parts of a name: without them it would be somebody else's."""
    claimed = claims(NOW_S, sub=subject, scope=["read", "read\u00a0", "\u00a0"])
    assert validator()(signed(claimed)).subject == name
    assert unsecured_validator(UnsecuredTokens(), clock)(unsecured(claimed)).subject == subject
    refused(validator(), signed(claims(NOW_S, sub="\x01")))
    refused(validator(), signed(claims(NOW_S, scope=["read", "\x01read"])))


def test_claims_can_have_other_names() -> None:
    validate = validator(RULES._replace(subject_claim="azp", scope_claim="scp", clock_skew_s=0))
    assert validate(signed(claims(NOW_S, azp="app", scp="a", scope=""))).subject == "app"
    refused(validate, signed(claims(NOW_S)))
    refused(validate, signed(claims(NOW_S, azp="app", exp=NOW_S)))


def test_an_unseen_key_is_missed_by_its_id() -> None:
    source = Keys(key_set("p256-1"))
    validate = signed_validator(RULES, source, clock)
    with pytest.raises(KeyUnknown):
        validate(signed(claims(NOW_S)))
    assert source.missed == ["rsa-1"]


def test_of_several_keys_by_one_name_the_algorithm_decides() -> None:
    first, second = (json.loads(key_set(kid))["keys"][0] for kid in ("rsa-2", "rsa-1"))
    named = [{**first, "kid": "rsa-1", "alg": "RS512"}, {**second, "alg": "RS256"}]
    keys = parse_key_set(json.dumps({"keys": named}).encode())
    assert keys.verified_claims(signed(claims(NOW_S)))


@pytest.mark.parametrize(("field", "bits"), [("n", 16_400), ("n", 400_000), ("e", 2_000)])
def test_a_key_that_would_hold_up_the_broker_is_left_out(field: str, bits: int) -> None:
    (entry, _) = json.loads(key_set("rsa-1"))["keys"]
    large = (1 << bits - 1 | 1).to_bytes((bits + 7) // 8, "big")
    assert len(parse_key_set(json.dumps({"keys": [entry]}).encode())) == 1
    assert not len(parse_key_set(json.dumps({"keys": [entry | {field: part(large)}]}).encode()))


@pytest.mark.parametrize("document", [b"", b"[]", b'{"keys": 7}', b"{}", b"\xff", b"[" * 100_000])
def test_what_is_no_key_set_is_reported(document: bytes) -> None:
    with pytest.raises(ValueError, match=r"^it "):
        parse_key_set(document)


@pytest.mark.parametrize("make", GOOD_UNSECURED.values(), ids=GOOD_UNSECURED)
def test_an_unsecured_token_is_accepted(make: Make) -> None:
    valid = unsecured_validator(UNSECURED, clock)(make(NOW_S))
    assert valid.subject.startswith("alice")
    assert valid.expires_at_ms >= (NOW_S + 600) * 1_000


@pytest.mark.parametrize("make", BAD_UNSECURED.values(), ids=BAD_UNSECURED)
def test_an_unsecured_token_with_a_fault_is_refused(make: Make) -> None:
    assert refused(unsecured_validator(UNSECURED, clock), make(NOW_S)).required_scope is None


@pytest.mark.parametrize("make", SHORT_OF_SCOPE.values(), ids=SHORT_OF_SCOPE)
def test_an_unsecured_token_needs_the_scope(make: Make) -> None:
    validate = unsecured_validator(UNSECURED, clock)
    assert refused(validate, make(NOW_S)).required_scope == "[read, write]"


def test_unsecured_tokens_obey_their_options() -> None:
    rules = UnsecuredTokens("azp", "scp", ("read",), clock_skew_ms=5_000)
    validate = unsecured_validator(rules, clock)
    late = claims(NOW_S, azp="app", scp="read", exp=NOW_S - 4, iat=NOW_S + 5)
    refused(validate, unsecured(late))
    assert validate(unsecured({**late, "iat": NOW_S - 5})).subject == "app"
    refused(validate, unsecured(claims(NOW_S, scp=BOTH)))


ODD: list[Any] = [
    *(None, True, 0, -1, 1.5, "", "x", "\ud800", 10**400, "none", "HS256", "p256-1"),
    *([], [1], ["b64"], [None], [[]], {}, {"kty": "RSA"}),
]
HEADERS = [
    *("alg", "kid", "typ", "cty", "crit", "jku", "jwk", "x5u", "x5c", "x5t", "x5t#S256", "b64"),
    *("zip", "enc", "epk", "p2c", "url"),
]
CLAIMS = ["sub", "iss", "aud", "iat", "exp", "nbf", "jti", "scope"]


def test_whatever_a_stranger_sends_is_accepted_or_refused() -> None:
    """Headers and claims of any type, and tokens with holes: 1,500 of them."""
    random = Random(30)
    validate, tolerant = validator(), unsecured_validator(UnsecuredTokens(), clock)
    accepted = 0
    for _ in range(1_500):
        headers = {name: random.choice(ODD) for name in random.sample(HEADERS, random.randrange(4))}
        changes = {name: random.choice(ODD) for name in random.sample(CLAIMS, random.randrange(3))}
        by, alg = random.choice([("rsa-1", "RS256"), ("p256-1", "ES256"), ("ed25519-1", "EdDSA")])
        token = signed(claims(NOW_S, **changes), by, alg, **headers)
        if random.random() < 0.3:
            hole = random.randrange(len(token))
            token = token[:hole] + random.choice("A.=~") + token[hole + random.randrange(40) :]
        accepted += _accepts(validate, token)
        _accepts(tolerant, unsecured(claims(NOW_S, **changes), **headers))
    assert accepted > 50


def _accepts(validate: ValidateToken, token: str) -> bool:
    try:
        return bool(validate(token))
    except TokenRefused:
        return False
