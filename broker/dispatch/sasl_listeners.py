"""The SASL listeners of a configuration: what their connections share, made of their settings."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...clients.environment import Environment
from ...replication.metadata.cluster_image import ClusterImage
from ..config.config import BrokerConfig
from ..metrics.metrics import Metrics

if TYPE_CHECKING:
    from ...clients.sasl.scram_keys import ScramCredential, ScramMechanism
    from ..network.sasl_gate import SaslListener


def sasl_listeners(
    config: BrokerConfig,
    image: Callable[[], ClusterImage],
    environment: Environment,
    metrics: Metrics,
) -> "dict[str, SaslListener]":
    """By listener, what its connections share. Users with SCRAM are those of the newest image."""
    if not config.sasl:
        return {}
    # A broker without SASL does not pay for it.
    from ...replication.controller.access.scram_control import secret_of
    from ..network.sasl_gate import SaslLimits, SaslListener, SaslMetrics
    from ..security.sasl.mechanisms import Verifiers, offered_mechanisms
    from ..security.sasl.unknown_users import FormsOfUsers

    def credential_of(mechanism: "ScramMechanism", user: str) -> "ScramCredential | None":
        return image().scram_credentials.get((user, mechanism.code))

    verifiers = Verifiers(
        credential_of,
        image().cluster_id,
        environment.random_uuid,
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
