"""The SASL listeners of a configuration: what their connections share, made of their settings."""

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, TypeAlias

from ...clients.errors import ErrorCode, KafkaError
from ...clients.runtime.environment import Environment
from ...clients.runtime.supervisor import Supervisor
from ...replication.metadata.cluster_image import ClusterImage
from ..config.config import BrokerConfig
from ..metrics.metrics import Metrics

if TYPE_CHECKING:
    from ...clients.sasl.scram_keys import ScramCredential, ScramMechanism
    from ...security.sasl.oauth.key_source import KeySource
    from ...security.sasl.settings import KeyEndpoint
    from ..network.sasl_gate import SaslListener

TokenKeys: TypeAlias = "Mapping[KeyEndpoint, KeySource]"
"""The keys that verify tokens, by where they come from."""


async def token_keys(
    config: BrokerConfig, started: AsyncExitStack, supervisor: Supervisor
) -> TokenKeys:
    """The keys that verify tokens, read; `started` stops what reads them again.

    Raises KafkaError(INVALID_CONFIG).
    """
    keys: dict[KeyEndpoint, KeySource] = {}
    for endpoint in _endpoints(config):
        if endpoint in keys:
            continue
        from importlib.util import find_spec

        if find_spec("joserfc") is None:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                "Signed tokens need the Python package 'joserfc', which is not installed:"
                " pip install joserfc",
            )
        from ...security.sasl.oauth.key_source import key_source

        keys[endpoint] = source = key_source(endpoint, supervisor)
        started.push_async_callback(source.stop)
        await source.start()
    return keys


def _endpoints(config: BrokerConfig) -> "list[KeyEndpoint]":
    if not config.sasl:
        return []
    from ...security.sasl.settings import SignedTokens

    mechanisms = [
        mechanism for settings in config.sasl.values() for mechanism in settings.mechanisms
    ]
    return [
        mechanism.tokens.endpoint
        for mechanism in mechanisms
        if isinstance(mechanism.tokens, SignedTokens)
    ]


def sasl_listeners(
    config: BrokerConfig,
    image: Callable[[], ClusterImage],
    environment: Environment,
    metrics: Metrics,
    keys: TokenKeys,
) -> "dict[str, SaslListener]":
    """By listener, what its connections share. Users with SCRAM are those of the newest image."""
    if not config.sasl:
        return {}
    # A broker without SASL does not load it.
    from ...replication.control.access.scram_control import secret_of
    from ...security.sasl.mechanisms import Verifiers, offered_mechanisms
    from ...security.sasl.unknown_users import FormsOfUsers
    from ..network.sasl_gate import SaslLimits, SaslListener, SaslMetrics

    def credential_of(mechanism: "ScramMechanism", user: str) -> "ScramCredential | None":
        return image().scram_credentials.get((user, mechanism.code))

    verifiers = Verifiers(
        credential_of,
        image().cluster_id,
        environment.random_uuid,
        environment.wall_clock_ms,
        keys,
        FormsOfUsers(lambda: image().scram_credentials),
        lambda: secret_of(image()),
    )
    counted = SaslMetrics(metrics)
    return {
        name: SaslListener(
            "SASL_SSL" if name in config.tls else "SASL_PLAINTEXT",
            offered_mechanisms(settings, verifiers),
            SaslLimits(settings.max_receive_bytes, settings.failure_delay_ms / 1_000),
            counted,
            environment.wall_clock_ms,
        )
        for name, settings in config.sasl.items()
    }
