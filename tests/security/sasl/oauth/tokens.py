"""An issuer of tokens for tests, and tokens that are good or bad in one respect each."""

import base64
import hmac
import json
import warnings
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from joserfc import jws
from joserfc.errors import SecurityWarning
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey

AUDIENCE, ISSUER = "kafka", "https://issuer.test/realm"
Key = RSAKey | ECKey | OKPKey | OctKey
Claims = dict[str, Any]


@cache
def key(kid: str) -> Key:
    """A key pair; the name begins with its type."""
    parameters: Any = {"kid": kid}
    kind = kid.partition("-")[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SecurityWarning)
        match kind:
            case "rsa":
                return RSAKey.generate_key(2048, parameters)
            case "small":
                return RSAKey.generate_key(1024, parameters)
            case "p256" | "p384" | "p521":
                return ECKey.generate_key(f"P-{kind[1:]}", parameters)
            case "ed25519":
                return OKPKey.generate_key("Ed25519", parameters)
            case _:
                return OctKey.generate_key(512, parameters)


KEYS = ("rsa-1", "p256-1", "p384-1", "p521-1", "ed25519-1", "small-1", "oct-1", "rsa-enc")


@cache
def key_set(*kids: str) -> bytes:
    """The document of an endpoint, by default with all keys but one that is never published."""
    entries: list[dict[str, Any]] = []
    for kid in kids or KEYS:
        one = key(kid)
        entry: dict[str, Any] = dict(one.as_dict(private=isinstance(one, OctKey)))
        if kid == "rsa-enc":
            entry["use"] = "enc"
        entries.append(entry)
    return json.dumps({"keys": [*entries, {"kty": "unheard-of", "kid": "x"}]}).encode()


def part(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def signed(
    claims: Claims | bytes, by: str = "rsa-1", alg: str = "RS256", /, **header: object
) -> str:
    """A token; a header of None is left out."""
    all_headers = {"alg": alg, "kid": by, "typ": "JWT", **header}
    shown = {name: value for name, value in all_headers.items() if value is not None}
    payload = claims if isinstance(claims, bytes) else json.dumps(claims).encode()
    text = f"{part(json.dumps(shown).encode())}.{part(payload)}"
    signature = jws.JWSRegistry.algorithms[alg].sign(text.encode(), key(by))
    return f"{text}.{part(signature)}"


def unsecured(claims: Claims | bytes, signature: str = "", **header: object) -> str:
    payload = claims if isinstance(claims, bytes) else json.dumps(claims).encode()
    shown = json.dumps({"alg": "none", **header}).encode()
    return f"{part(shown)}.{part(payload)}.{signature}"


def claims(now_s: int, **changes: object) -> Claims:
    """Claims that are accepted; a change to None leaves a claim out."""
    usual: Claims = {
        "sub": "alice",
        "iss": ISSUER,
        "aud": AUDIENCE,
        "iat": now_s - 10,
        "exp": now_s + 600,
        "scope": "read",
    }
    return {name: value for name, value in (usual | changes).items() if value is not None}


def message(token: str, authorization_id: str = "", extensions: str = "") -> bytes:
    """What a client sends."""
    name = f"a={authorization_id}" if authorization_id else ""
    return f"n,{name},\x01auth=Bearer {token}\x01{extensions}\x01".encode()


Make = Callable[[int], str]
"""A token at a time in seconds."""


def _with(**changes: object) -> Make:
    return lambda now: signed(claims(now, **changes))


def _later(**seconds: float) -> Make:
    return lambda now: signed(claims(now, **{each: now + by for each, by in seconds.items()}))


def _by(name: str, alg: str, /, **header: object) -> Make:
    return lambda now: signed(claims(now), name, alg, **header)


def _confused(now: int) -> str:
    """The public key serves as the secret of an HMAC."""
    public = key("rsa-1")
    assert isinstance(public, RSAKey)
    secret = public.as_pem(private=False)
    head = part(json.dumps({"alg": "HS256", "kid": "rsa-1"}).encode())
    text = f"{head}.{part(json.dumps(claims(now)).encode())}"
    return f"{text}.{part(hmac.digest(secret, text.encode(), 'sha256'))}"


def _changed(now: int) -> str:
    head, _, signature = signed(claims(now)).split(".")
    return f"{head}.{part(json.dumps(claims(now, sub='root')).encode())}.{signature}"


def _twice(now: int) -> str:
    text = json.dumps(claims(now))
    return signed(f'{text[:-1]}, "sub": "root"}}'.encode())


GOOD_SIGNED: Mapping[str, Make] = {
    "RS256": _by("rsa-1", "RS256"),
    "RS512": _by("rsa-1", "RS512"),
    "PS256": _by("rsa-1", "PS256"),
    "ES256": _by("p256-1", "ES256"),
    "ES384": _by("p384-1", "ES384"),
    "ES512": _by("p521-1", "ES512"),
    "EdDSA": _by("ed25519-1", "EdDSA"),
    "without a kid": _by("rsa-1", "RS256", kid=None),
    "with more headers": _by("rsa-1", "RS256", typ="at+jwt", nonce="x" * 600),
    "several audiences": _with(aud=["other", AUDIENCE]),
    "several scopes": _with(scope=["read", "write"]),
    "no scope": _with(scope=None),
    "a scope that is a number": _with(scope=7),
    "a name with spaces around": _with(sub=" alice "),
    "a name with control characters around": _with(sub="\x01alice\x00"),
    "scopes of which one has a blank of Unicode": _with(scope=["read", "read\u00a0", "\u00a0"]),
    "expired within the skew": _later(exp=-10),
    "begins within the skew": _later(nbf=10),
    "issued in the future": _later(iat=300),
    "a fraction of a second": _later(exp=600.5, iat=-10.5),
    "two centuries": _later(exp=86_400 * 73_000),
}
BAD_SIGNED: Mapping[str, Make] = {
    "expired": _later(exp=-60),
    "begins later": _later(nbf=100),
    "expires before it is issued": _later(exp=100, iat=200),
    "no expiry": _with(exp=None),
    "no time of issue": _with(iat=None),
    "expiry as text": _with(exp="soon"),
    "expiry as truth": _with(exp=True),
    "expiry out of range": _with(exp=1 << 64),
    "issued before 1970": _with(iat=-5),
    "another audience": _with(aud="other"),
    "no audience": _with(aud=None),
    "audience as number": _with(aud=7),
    "audiences with a number": _with(aud=[AUDIENCE, 7]),
    "another issuer": _with(iss="https://evil.test"),
    "no issuer": _with(iss=None),
    "issuer as number": _with(iss=7),
    "no subject": _with(sub=None),
    "empty subject": _with(sub=""),
    "blank subject": _with(sub="  "),
    "subject of a control character": _with(sub="\x01"),
    "subject as number": _with(sub=7),
    "id as number": _with(jti=7),
    "empty scope": _with(scope=""),
    "a scope twice": _with(scope=["read", "read "]),
    "changed claims": _changed,
    "a claim twice": _twice,
    "a key that is not published": _by("rsa-2", "RS256"),
    "another key by that name": _by("rsa-2", "RS256", kid="rsa-1"),
    "a key of another type": _by("rsa-1", "RS256", kid="p256-1"),
    "a key for encryption": _by("rsa-enc", "RS256"),
    "a key that is too small": _by("small-1", "RS256"),
    "a critical header": _by("rsa-1", "RS256", crit=["new"], new="x"),
    "no algorithm": lambda now: unsecured(claims(now)),
    "no algorithm, with a signature": lambda now: unsecured(claims(now), "AAAA"),
    "no algorithm by another spelling": lambda now: unsecured(claims(now), "AAAA", alg="NONE"),
    "the public key as secret": _confused,
    "no JSON": lambda _: signed(b"alice"),
    "a list": lambda _: signed(b"[]"),
    "no number": lambda now: signed(json.dumps(claims(now, exp=float("nan"))).encode()),
    "two parts": lambda now: signed(claims(now)).rpartition(".")[0],
    "four parts": lambda now: signed(claims(now)) + ".AAAA",
    "no signature": lambda now: signed(claims(now)).rpartition(".")[0] + ".",
    "header without JSON": lambda now: "AAAA." + signed(claims(now)).partition(".")[2],
    "no base64": lambda now: "~~~~." + signed(claims(now)).partition(".")[2],
    "nothing": lambda _: ".",
}


def _plain(**changes: object) -> Make:
    return lambda now: unsecured(claims(now, **changes))


def _plain_later(**seconds: float) -> Make:
    return lambda now: unsecured(claims(now, **{each: now + by for each, by in seconds.items()}))


REQUIRED_SCOPE = "read write"
BOTH = ["read", "write"]
GOOD_UNSECURED: Mapping[str, Make] = {
    "the scopes": _plain(scope=BOTH),
    "more scopes": _plain(scope=["more", " read ", "write", ""]),
    "no time of issue": _plain(scope=BOTH, iat=None),
    "a fraction of a second": lambda now: unsecured(claims(now, scope=BOTH, exp=now + 600.25)),
    "a name with spaces": _plain(scope=BOTH, sub="alice b"),
    "another audience": _plain(scope=BOTH, aud=7, iss=7),
}
SHORT_OF_SCOPE: Mapping[str, Make] = {
    "one scope of two": _plain(scope=["read"]),
    "no scope": _plain(scope=None),
    "scopes in one text": _plain(scope="read write"),
    "empty scopes": _plain(scope=[]),
}
BAD_UNSECURED: Mapping[str, Make] = {
    "expired": _plain_later(exp=-60),
    "issued later": _plain_later(iat=100),
    "expires when it is issued": _plain_later(exp=0.5, iat=0.5),
    "no expiry": _plain(exp=None),
    "expiry as text": _plain(exp="soon"),
    "no subject": _plain(sub=None),
    "blank subject": _plain(sub=" "),
    "subject as number": _plain(sub=7),
    "signed": lambda now: signed(claims(now, scope=BOTH)),
    "a signature all the same": lambda now: unsecured(claims(now, scope=BOTH), "AAAA"),
    "two parts": lambda now: unsecured(claims(now))[:-1],
    "four parts": lambda now: unsecured(claims(now)) + "AAAA.AAAA",
    "an empty part": lambda _: part(b'{"alg":"none"}') + "..",
    "no JSON": lambda _: unsecured(b"alice"),
}
