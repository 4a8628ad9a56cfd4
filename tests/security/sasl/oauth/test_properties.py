"""The properties of a listener with OAUTHBEARER, what refuses the start, and what is warned of."""

import pytest

from tierlog.broker.config.config import BrokerConfig, config_warnings, read_config
from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.security.sasl.settings import KeyEndpoint, SignedTokens, UnsecuredTokens

PACKAGE = "org.apache.kafka.common.security.oauthbearer"
MODULE = f"{PACKAGE}.OAuthBearerLoginModule"
OWN = "listener.name.clients.oauthbearer."
HANDLER, JAAS = f"{OWN}sasl.server.callback.handler.class", f"{OWN}sasl.jaas.config"
SIGNED = f"{PACKAGE}.OAuthBearerValidatorCallbackHandler"
UNSECURED = f"{PACKAGE}.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
ALLOWED = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
URL = "https://issuer.test/keys?tenant=1"
PREFIX = "sasl.oauthbearer."
BASE = {
    "listeners": "PLAINTEXT://127.0.0.1:0,CLIENTS://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    HANDLER: SIGNED,
    ALLOWED: f"file:///keys.json, {URL}",
    f"{PREFIX}jwks.endpoint.url": URL,
}
"""What signed tokens need."""


def config(stated: dict[str, str]) -> BrokerConfig:
    return read_config(BASE | stated)


def tokens(stated: dict[str, str]) -> SignedTokens | UnsecuredTokens | None:
    (mechanism,) = config(stated).sasl["CLIENTS"].mechanisms
    return mechanism.tokens


def test_signed_tokens_have_kafkas_defaults() -> None:
    assert tokens({}) == SignedTokens(KeyEndpoint(URL))


def test_signed_tokens_obey_the_properties() -> None:
    stated = {
        f"{PREFIX}jwks.endpoint.url": "file:///keys.json",
        f"{PREFIX}jwks.endpoint.refresh.ms": "1000",
        f"{PREFIX}jwks.endpoint.retry.backoff.ms": "7",
        f"{PREFIX}jwks.endpoint.retry.backoff.max.ms": "70",
        f"{PREFIX}expected.audience": "a, b",
        f"{PREFIX}expected.issuer": "general",
        f"listener.name.clients.{PREFIX}expected.issuer": "of the listener",
        f"{OWN}{PREFIX}expected.issuer": "me",
        f"{PREFIX}clock.skew.seconds": "0",
        f"{PREFIX}sub.claim.name": "azp",
        f"{PREFIX}scope.claim.name": "scp",
        f"{PREFIX}jwt.validator.class": f"{PACKAGE}.BrokerJwtValidator",
        JAAS: f'{MODULE} required ssl.truststore.type="PEM" ssl.truststore.location="ca.pem";',
    }
    endpoint = KeyEndpoint("file:///keys.json", 1000, 7, 70, "ca.pem")
    assert tokens(stated) == SignedTokens(endpoint, ("a", "b"), "me", "azp", "scp", 0)
    assert not config_warnings(config(stated))


def test_unsecured_tokens_obey_the_options_of_the_login_module() -> None:
    options = (
        'unsecuredValidatorPrincipalClaimName="azp" unsecuredValidatorScopeClaimName=scp '
        'unsecuredValidatorRequiredScope="read  write" unsecuredValidatorAllowableClockSkewMs="9" '
        'unsecuredLoginStringClaim_sub="broker"'
    )
    stated = {HANDLER: UNSECURED, JAAS: f"{MODULE} required {options};"}
    assert tokens(stated) == UnsecuredTokens("azp", "scp", ("read", "write"), 9)
    assert tokens({HANDLER: UNSECURED}) == UnsecuredTokens()


@pytest.mark.parametrize(
    ("stated", "sentence"),
    [
        ({HANDLER: ""}, f"{HANDLER.removeprefix(OWN)} has to be set: set it to {SIGNED}"),
        ({HANDLER: "x.Handler"}, f"{HANDLER} names x.Handler, which tierlog does not have"),
        (
            {HANDLER: f"{PACKAGE}.secured.OAuthBearerValidatorCallbackHandler"},
            "OAuthBearerValidatorCallbackHandler, which tierlog does not have",
        ),
        (
            {HANDLER: "", "sasl.server.callback.handler.class": SIGNED},
            "sasl.server.callback.handler.class has to be set",
        ),
        ({f"{PREFIX}jwks.endpoint.url": ""}, "has to be the address of the keys"),
        ({f"{PREFIX}jwks.endpoint.url": "https://other.test/keys"}, f"in {ALLOWED} as well"),
        ({ALLOWED: ""}, "is not allowed: name its address"),
        ({f"{PREFIX}jwks.endpoint.url": "ftp://issuer.test/keys"}, "is not an address of the form"),
        ({f"{PREFIX}jwks.endpoint.url": "https:///keys"}, "is not an address of the form"),
        (
            {f"{PREFIX}jwks.endpoint.url": "https://a:hidden@b/keys"},
            "is not an address of the form",
        ),
        ({f"{PREFIX}jwks.endpoint.url": "file://host/keys"}, "is not an address of the form"),
        ({f"{PREFIX}jwks.endpoint.url": "https://b/\r\nX: y"}, "is not an address of the form"),
        ({f"{PREFIX}jwks.endpoint.url": "https://b:port/"}, "is not an address of the form"),
        ({f"{PREFIX}jwks.endpoint.refresh.ms": "0"}, "refresh.ms has to be at least 1"),
        ({f"{PREFIX}jwks.endpoint.retry.backoff.ms": "-1"}, "backoff.ms has to be at least 0"),
        ({f"{PREFIX}jwks.endpoint.retry.backoff.max.ms": "99"}, "max.ms has to be at least 100"),
        ({f"{PREFIX}clock.skew.seconds": "-1"}, "clock.skew.seconds has to be at least 0"),
        ({f"{PREFIX}sub.claim.name": " "}, "sub.claim.name is empty"),
        (
            {f"{PREFIX}jwt.validator.class": f"{PACKAGE}.ClientJwtValidator"},
            "ClientJwtValidator, which does not verify signatures",
        ),
        ({JAAS: f'{MODULE} required ssl.truststore.password="hidden";'}, "does not have"),
        (
            {JAAS: f'{MODULE} required ssl.truststore.location="a.jks";'},
            'ssl.truststore.type="PEM"',
        ),
        (
            {HANDLER: UNSECURED, JAAS: f"{MODULE} required unsecuredValidatorScope=a;"},
            "has the option unsecuredValidatorScope",
        ),
        (
            {
                HANDLER: UNSECURED,
                JAAS: f"{MODULE} required unsecuredValidatorAllowableClockSkewMs=-1;",
            },
            "has to be a number of milliseconds",
        ),
        (
            {JAAS: f"{MODULE.replace('OAuthBearer', 'Scram')} required;"},
            "not OAuthBearerLoginModule",
        ),
    ],
)
def test_what_cannot_be_obeyed_refuses_the_start(stated: dict[str, str], sentence: str) -> None:
    with pytest.raises(KafkaError) as raised:
        config(stated)
    assert raised.value.code is ErrorCode.INVALID_CONFIG
    assert sentence in raised.value.message
    assert "hidden" not in raised.value.message


def test_what_is_not_verified_is_said() -> None:
    (warning,) = config_warnings(config({HANDLER: UNSECURED, f"{PREFIX}jwks.endpoint.url": ""}))
    assert "CLIENTS accepts tokens without a signature" in warning
    plain = "http://127.0.0.1/keys"
    said = "\n".join(config_warnings(config({f"{PREFIX}jwks.endpoint.url": plain, ALLOWED: plain})))
    assert "without an audience" in said
    assert "of any issuer" in said
    assert "plain HTTP" in said
