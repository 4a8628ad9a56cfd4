"""The keys that verify tokens, before a broker with OAUTHBEARER starts."""

import asyncio
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random

import pytest

from tierlog.broker.config.config import BrokerConfig, read_config
from tierlog.broker.dispatch.sasl_listeners import token_keys
from tierlog.clients.errors import KafkaError
from tierlog.clients.runtime.supervisor import Supervisor

from ...security.sasl.oauth.tokens import key_set

PACKAGE = "org.apache.kafka.common.security.oauthbearer"
HANDLER = "oauthbearer.sasl.server.callback.handler.class"


def config(keys: Path) -> BrokerConfig:
    """Two listeners that take tokens of one issuer."""
    handler = f"{PACKAGE}.OAuthBearerValidatorCallbackHandler"
    return read_config(
        {
            "listeners": "PLAINTEXT://127.0.0.1:0,A://127.0.0.1:0,B://127.0.0.1:0",
            "listener.security.protocol.map": (
                "PLAINTEXT:PLAINTEXT,A:SASL_PLAINTEXT,B:SASL_PLAINTEXT"
            ),
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            f"listener.name.a.{HANDLER}": handler,
            f"listener.name.b.{HANDLER}": handler,
            "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
            "org.apache.kafka.sasl.oauthbearer.allowed.urls": keys.as_uri(),
        }
    )


async def count_of_sources(keys: Path) -> int:
    async with AsyncExitStack() as started:
        return len(await token_keys(config(keys), started, Supervisor(Random(29))))


def test_listeners_share_the_keys_of_an_issuer(tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    keys.write_bytes(key_set("p256-1"))
    assert asyncio.run(count_of_sources(keys)) == 1


def test_a_package_that_is_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "joserfc", None)
    with pytest.raises(KafkaError, match="pip install joserfc"):
        asyncio.run(count_of_sources(tmp_path / "keys.json"))
