"""What the properties of one SASL listener say, checked (`BrokerSecurityConfigs`)."""

from collections.abc import Mapping
from typing import NamedTuple

from ....clients.sasl.secret import Secret


class MechanismSettings(NamedTuple):
    """One mechanism that a listener has enabled."""

    name: str
    max_reauth_ms: int = 0
    """How long a session lasts at most, in ms; 0: for ever."""
    users: Mapping[str, Secret] = {}
    """The passwords of PLAIN's users."""


class SaslSettings(NamedTuple):
    """The SASL settings of one listener."""

    listener: str
    """The listener's name in upper case."""
    mechanisms: tuple[MechanismSettings, ...]
    max_receive_bytes: int
    failure_delay_ms: int
