"""A broker's listener with SASL/PLAIN, without TLS: its properties, and who may log in."""

from collections.abc import Mapping

from .tls_listener import HOST

USER, PASSWORD = "bench", "bench-secret"
_NAME = "SASL_PLAINTEXT"
_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
_PROTOCOLS = "listener.security.protocol.map"


def with_sasl(properties: Mapping[str, str], port: int) -> dict[str, str]:
    """A broker's properties with a SASL listener beside those that it has."""
    guarded = dict(properties)
    for name in ("listeners", "advertised.listeners"):
        if name in guarded:
            guarded[name] += f",{_NAME}://{HOST}:{port}"
    protocols = guarded.get(_PROTOCOLS, "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT")
    login = f'{_MODULE} required user_{USER}="{PASSWORD}";'
    return guarded | {
        _PROTOCOLS: f"{protocols},{_NAME}:{_NAME}",
        "sasl.enabled.mechanisms": "PLAIN",
        f"listener.name.{_NAME.lower()}.plain.sasl.jaas.config": login,
    }
