"""The properties of OAUTHBEARER on one listener (`sasl.oauthbearer.*`, KIP-768, KIP-1139).

Kafka without a callback handler accepts tokens that nobody has signed. Here the file has to name
one of Kafka's two handlers, and the one for unsecured tokens is only used if it is named.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol, cast
from urllib.parse import urlsplit

from ....clients.sasl.jaas import JaasEntry
from ..settings import KeyEndpoint, SignedTokens, UnsecuredTokens

CALLBACK_HANDLER = "sasl.server.callback.handler.class"
ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
"""In Kafka a property of the JVM."""

_PACKAGE = "org.apache.kafka.common.security.oauthbearer."
SIGNED_HANDLER = f"{_PACKAGE}OAuthBearerValidatorCallbackHandler"
UNSECURED_HANDLER = f"{_PACKAGE}internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
_VALIDATORS = (f"{_PACKAGE}DefaultJwtValidator", f"{_PACKAGE}BrokerJwtValidator")

_PREFIX = "sasl.oauthbearer."
_URL = f"{_PREFIX}jwks.endpoint.url"
_REFRESH = f"{_PREFIX}jwks.endpoint.refresh.ms"
_BACKOFF = f"{_PREFIX}jwks.endpoint.retry.backoff.ms"
_BACKOFF_MAX = f"{_PREFIX}jwks.endpoint.retry.backoff.max.ms"
_VALIDATOR = f"{_PREFIX}jwt.validator.class"
_AUDIENCE = f"{_PREFIX}expected.audience"
_ISSUER = f"{_PREFIX}expected.issuer"
_SKEW = f"{_PREFIX}clock.skew.seconds"
_SUBJECT_CLAIM = f"{_PREFIX}sub.claim.name"
_SCOPE_CLAIM = f"{_PREFIX}scope.claim.name"
EFFECTIVE_KEYS = (
    CALLBACK_HANDLER,
    _URL,
    _REFRESH,
    _BACKOFF,
    _BACKOFF_MAX,
    _VALIDATOR,
    _AUDIENCE,
    _ISSUER,
    _SKEW,
    _SUBJECT_CLAIM,
    _SCOPE_CLAIM,
)
"""The properties that have an effect on a listener with OAUTHBEARER."""

_OPTION = "unsecuredValidator"
_PRINCIPAL_OPTION = f"{_OPTION}PrincipalClaimName"
_SCOPE_OPTION = f"{_OPTION}ScopeClaimName"
_REQUIRED_OPTION = f"{_OPTION}RequiredScope"
_SKEW_OPTION = f"{_OPTION}AllowableClockSkewMs"
_UNSECURED_OPTIONS = (_PRINCIPAL_OPTION, _SCOPE_OPTION, _REQUIRED_OPTION, _SKEW_OPTION)
_TRUST_TYPE, _TRUST_PATH = "ssl.truststore.type", "ssl.truststore.location"
_TRUST_TEXT = "ssl.truststore.certificates"
_TRUST_OPTIONS = (_TRUST_TYPE, _TRUST_PATH, _TRUST_TEXT)


class TokenSettingError(Exception):
    """A setting cannot be honoured; the text says which one, and what to do."""


class Values(Protocol):
    """The values of a listener for OAUTHBEARER."""

    def full_name(self, key: str) -> str:
        """The name under which a key is set, to be shown."""
        ...

    def value(self, key: str) -> object:
        """Its value, checked, or the default."""
        ...


def read_tokens(
    handler: str, values: Values, entry: JaasEntry | None
) -> SignedTokens | UnsecuredTokens:
    """What the listener accepts. Raises TokenSettingError.

    `handler` is the class that the file names for this listener and mechanism, or empty.
    """
    if handler == UNSECURED_HANDLER:
        return _unsecured_tokens({} if entry is None else _options(entry))
    if handler == SIGNED_HANDLER:
        return _signed_tokens(values, {} if entry is None else _options(entry))
    what = f"names {handler}, which tierlog does not have" if handler else "has to be set"
    raise TokenSettingError(
        f"{values.full_name(CALLBACK_HANDLER)} {what}: set it to {SIGNED_HANDLER} for signed"
        f" tokens, or, in tests, to {UNSECURED_HANDLER} for tokens that anyone can write"
    )


def token_warnings(listener: str, tokens: SignedTokens | UnsecuredTokens | None) -> list[str]:
    """What a listener does not verify, in one sentence each."""
    if tokens is None:
        return []
    if isinstance(tokens, UnsecuredTokens):
        return [
            f"Listener {listener} accepts tokens without a signature: any client that reaches"
            " it can pose as any user. That is meant for tests only."
        ]
    warnings: list[str] = []
    if not tokens.audiences:
        warnings.append(
            f"Listener {listener} accepts tokens without an audience, which may be meant for"
            f" other services: set {_AUDIENCE}."
        )
    if not tokens.issuer:
        warnings.append(f"Listener {listener} accepts tokens of any issuer: set {_ISSUER}.")
    if tokens.endpoint.url.startswith("http:"):
        warnings.append(
            f"Listener {listener} reads the keys that verify tokens over plain HTTP: anyone who"
            " can change what is sent there can log in as any user."
        )
    return warnings


def _options(entry: JaasEntry) -> Mapping[str, str]:
    """Those options of the login module that are for the listener, not for a broker's own login."""
    names = (name for name in entry.options if name.startswith((_OPTION, "ssl.")))
    return {name: entry.text(name) or "" for name in names}


def _check_options(options: Iterable[str], prefix: str, obeyed: tuple[str, ...]) -> None:
    for name in options:
        if name.startswith(prefix) and name not in obeyed:
            raise TokenSettingError(
                f"the login module has the option {name}, which tierlog does not have; there are"
                f" {', '.join(obeyed)}"
            )


def _unsecured_tokens(options: Mapping[str, str]) -> UnsecuredTokens:
    _check_options(options, _OPTION, _UNSECURED_OPTIONS)
    skew = options.get(_SKEW_OPTION, "").strip() or "0"
    if not (skew.isascii() and skew.isdigit() and int(skew) < 1 << 31):
        raise TokenSettingError(f"{_SKEW_OPTION} has to be a number of milliseconds, 0 or more")
    return UnsecuredTokens(
        options.get(_PRINCIPAL_OPTION, "").strip() or "sub",
        options.get(_SCOPE_OPTION, "").strip() or "scope",
        tuple(options.get(_REQUIRED_OPTION, "").split()),
        int(skew),
    )


def _signed_tokens(values: Values, options: Mapping[str, str]) -> SignedTokens:
    _check_options(options, "ssl.", _TRUST_OPTIONS)
    validator = _text(values, _VALIDATOR)
    if validator not in _VALIDATORS:
        raise TokenSettingError(
            f"{values.full_name(_VALIDATOR)} names {validator}, which does not verify signatures or"
            f" which tierlog does not have: remove it, or set it to {_VALIDATORS[1]}"
        )
    audience = cast("list[object]", values.value(_AUDIENCE) or [])
    return SignedTokens(
        _endpoint(values, options),
        tuple(str(each).strip() for each in audience),
        _text(values, _ISSUER),
        _claim(values, _SUBJECT_CLAIM),
        _claim(values, _SCOPE_CLAIM),
        _number(values, _SKEW, 0),
    )


def _endpoint(values: Values, options: Mapping[str, str]) -> KeyEndpoint:
    url = _text(values, _URL)
    if not url:
        raise TokenSettingError(
            f"{_URL} has to be the address of the keys that verify tokens, file:, https: or http:"
        )
    if not _is_address(url):
        raise TokenSettingError(
            f"{values.full_name(_URL)} is not an address of the form file:///path, https://host/path"
            " or http://host/path"
        )
    allowed = cast("list[object]", values.value(ALLOWED_URLS) or [])
    if url not in [str(each).strip() for each in allowed]:
        # Kafka requires it, so that a change of this property alone cannot read files.
        raise TokenSettingError(
            f"{values.full_name(_URL)} is not allowed: name its address in {ALLOWED_URLS} as well"
        )
    backoff_ms = _number(values, _BACKOFF, 0)
    trusted_path, trusted_text = _trust_store(options)
    return KeyEndpoint(
        url,
        _number(values, _REFRESH, 1),
        backoff_ms,
        _number(values, _BACKOFF_MAX, backoff_ms),
        trusted_path,
        trusted_text,
    )


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return False
    if not url.isascii() or not url.isprintable() or " " in url or port == 0:
        return False
    if parts.scheme == "file":
        return bool(parts.path) and parts.netloc in ("", "localhost")
    return parts.scheme in ("https", "http") and bool(host) and parts.username is None


def _trust_store(options: Mapping[str, str]) -> tuple[str, str]:
    path, text = options.get(_TRUST_PATH, ""), options.get(_TRUST_TEXT, "")
    if (path or text) and options.get(_TRUST_TYPE, "").upper() != "PEM":
        raise TokenSettingError(
            f"the login module has a trust store that is not in PEM: convert it, and add"
            f' {_TRUST_TYPE}="PEM"'
        )
    if path and text:
        raise TokenSettingError(f"the login module has both {_TRUST_PATH} and {_TRUST_TEXT}")
    return path, text


def _text(values: Values, key: str) -> str:
    return str(values.value(key) or "").strip()


def _claim(values: Values, key: str) -> str:
    name = _text(values, key)
    if not name:
        raise TokenSettingError(f"{values.full_name(key)} is empty")
    return name


def _number(values: Values, key: str, least: int) -> int:
    number = values.value(key)
    assert isinstance(number, int), f"{key} has no integer"
    if number < least:
        raise TokenSettingError(f"{values.full_name(key)} has to be at least {least}")
    return number
