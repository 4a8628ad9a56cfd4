"""The public keys that verify tokens: a JSON Web Key Set (RFC 7517), and signatures (RFC 7515).

Only this file imports joserfc, of the extra `oauth`. The key is chosen before the signature is
looked at, by id, type and purpose, as jose4j chooses for Kafka; and a token's algorithm has to
belong to the type of the key, so that no public key can serve as a secret. Secret keys (HS256)
are not supported.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from joserfc import jws
from joserfc.errors import JoseError, UnsupportedAlgorithmError
from joserfc.jwa import JWSAlgModel
from joserfc.jwk import ECKey, JWKRegistry, OKPKey, RSAKey

from .claims import decoded_part, json_object
from .token import TokenRefused

KEYS_MAX = 100
"""The most keys of a set; more are ignored. Issuers have a handful."""
RSA_BITS_MIN = 2048
RSA_BITS_MAX = 16 * 1024
"""OpenSSL's own bound, which it checks too late: a longer key takes long for each token."""
_EXPONENT_BITS_MAX = 64
"""OpenSSL's own bound for keys of more than 3,072 bits."""
_HEADER_BYTES_MAX = 16 * 1024
"""The longest header of a token; some hold certificates."""

_PublicKey = RSAKey | ECKey | OKPKey
_PARTS = 3


class _Kind(NamedTuple):
    """The keys that belong to an algorithm."""

    key_type: str
    curves: tuple[str, ...] = ()


_KINDS: Mapping[str, _Kind] = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), _Kind("RSA")),
    "ES256": _Kind("EC", ("P-256",)),
    "ES384": _Kind("EC", ("P-384",)),
    "ES512": _Kind("EC", ("P-521",)),
    "EdDSA": _Kind("OKP", ("Ed25519", "Ed448")),
}


class KeyUnknown(TokenRefused):
    """No key of the set is the one of the token; `key_id` is its id, or empty."""

    def __init__(self, key_id: str) -> None:
        super().__init__("the token's key is not in the key set")
        self.key_id = key_id


class _Registry(jws.JWSRegistry):
    """The algorithms of `_KINDS`, EdDSA without joserfc's warning that RFC 9864 renames it."""

    max_header_length = _HEADER_BYTES_MAX

    def get_alg(self, name: str) -> JWSAlgModel:
        """An algorithm. Raises UnsupportedAlgorithmError."""
        if name not in _KINDS:
            raise UnsupportedAlgorithmError(f"{name} is not supported")
        return self.algorithms[name]


class KeySet:
    """The keys of an endpoint, at one time."""

    def __init__(self, keys: Sequence[_PublicKey]) -> None:
        self._keys = keys
        # Headers of any name are allowed, as RFC 7515 says; critical ones only if understood.
        self._registry = _Registry(strict_check_header=False)

    def __len__(self) -> int:
        return len(self._keys)

    def verified_claims(self, token: str) -> bytes:
        """The claims of a token whose signature is right. Raises TokenRefused."""
        parts = token.split(".")
        if len(parts) != _PARTS or not all(parts):
            raise TokenRefused("the token does not have three parts")
        if len(parts[0]) > _HEADER_BYTES_MAX:
            raise TokenRefused(f"the token's header is longer than {_HEADER_BYTES_MAX} bytes")
        header = json_object(decoded_part(parts[0]))
        if "crit" in header:
            raise TokenRefused("the token has a critical header, of which none is understood")
        key = self._key(header)
        try:
            return jws.deserialize_compact(token, key, registry=self._registry).payload
        except (JoseError, ValueError, TypeError, RecursionError):
            # Its text may hold what is in the token.
            raise TokenRefused("the token's signature is not that of its key") from None

    def _key(self, header: Mapping[str, object]) -> _PublicKey:
        algorithm, key_id = header.get("alg"), header.get("kid")
        kind = _KINDS.get(algorithm) if isinstance(algorithm, str) else None
        if kind is None:
            raise TokenRefused("the token's algorithm is not supported, or there is none")
        if key_id is not None and not isinstance(key_id, str):
            raise TokenRefused("the id of the token's key is not text")
        candidates = [key for key in self._keys if _fits(key, key_id, kind)]
        if len(candidates) > 1:
            candidates = [key for key in candidates if key.alg in (None, algorithm)]
        if not candidates:
            raise KeyUnknown(key_id or "")
        return candidates[0]


def _fits(key: _PublicKey, key_id: str | None, kind: _Kind) -> bool:
    operations = key.get("key_ops")
    return (
        key.key_type == kind.key_type
        and (not kind.curves or key.get("crv") in kind.curves)
        and (key_id is None or key.kid == key_id)
        and key.get("use") in (None, "sig")
        and (operations is None or "verify" in operations)
    )


def parse_key_set(document: bytes) -> KeySet:
    """The keys of a document that can verify tokens. Raises ValueError with one message.

    A key that this broker cannot use is left out, as jose4j does.
    """
    try:
        entries = json_object(document).get("keys")
    except TokenRefused:
        raise ValueError("it is not a JSON object") from None
    if not isinstance(entries, list):
        raise ValueError('it has no list of "keys"')
    keys = (_public_key(each) for each in cast("list[object]", entries)[:KEYS_MAX])
    return KeySet([key for key in keys if key is not None])


def _public_key(entry: object) -> _PublicKey | None:
    if not isinstance(entry, dict):
        return None
    fields = cast("dict[str, Any]", entry)
    if fields.get("kty") not in ("RSA", "EC", "OKP"):
        return None
    try:
        if fields["kty"] == "RSA" and not _is_usual_rsa(fields):
            return None
        key = JWKRegistry.import_key(fields)
    except (JoseError, TokenRefused, ValueError, TypeError, KeyError, AttributeError):
        return None
    return key if isinstance(key, RSAKey | ECKey | OKPKey) else None


def _is_usual_rsa(fields: Mapping[str, Any]) -> bool:
    is_usual = RSA_BITS_MIN <= _bits(fields["n"]) <= RSA_BITS_MAX
    return is_usual and _bits(fields["e"]) <= _EXPONENT_BITS_MAX


def _bits(number: str) -> int:
    return int.from_bytes(decoded_part(number), "big").bit_length()
