"""A Kafka that runs already: what any client can do is done, the rest says why it is not."""

from collections.abc import Mapping

from ..clients.errors import KafkaError
from ..clients.network.first_contact import ensure_answers
from ..clients.runtime.environment import SystemEnvironment
from .broker_error import BrokerError, OnlyTierlogError


class ExternalCluster:
    """Stands where a `Host` stands, for a cluster that the test has not started."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._bootstrap_servers = bootstrap_servers

    async def start(self, properties: Mapping[str, str]) -> str:
        """See `Host`: it runs already, or is about to: a few seconds are left to it."""
        try:
            await ensure_answers(self._bootstrap_servers, SystemEnvironment())
        except KafkaError as error:
            raise BrokerError(f"{error.message.rstrip('.')}.") from error
        return self._bootstrap_servers

    async def stop(self) -> None:
        """See `Host`: it runs on."""

    async def crash(self) -> None:
        """Raises OnlyTierlogError."""
        raise self.refusal("kill")

    async def act(self, name: str, topic: str | None) -> None:
        """Raises OnlyTierlogError."""
        raise self.refusal(name)

    def refusal(self, name: str) -> OnlyTierlogError:
        """Why a method of `Broker` is not possible here."""
        return OnlyTierlogError(
            f"Broker.{name} needs a broker that the test has started; "
            f"this one runs at {self._bootstrap_servers}."
        )
