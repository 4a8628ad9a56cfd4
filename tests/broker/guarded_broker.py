"""A broker whose authorizer the test can ask, too."""

from collections.abc import Callable
from pathlib import Path

from tierlog.broker.broker import Broker
from tierlog.broker.dependencies import Dependencies
from tierlog.replication.authorizer.standard_authorizer import StandardAuthorizer

from ..broker_process import BrokerThread

ROOT = frozenset({"User:ANONYMOUS"})
"""Clients of a plaintext listener may do everything."""


class GuardedBroker(BrokerThread):
    """A broker in a thread that decides by access control entries."""

    def __init__(
        self,
        directory: Path,
        properties: dict[str, str] | None = None,
        make: Callable[[], StandardAuthorizer] = lambda: StandardAuthorizer(ROOT),
    ) -> None:
        super().__init__(directory, properties)
        self.authorizer = make()

    async def _start(self) -> Broker:
        broker = Broker(self._config, Dependencies(authorizer=lambda: self.authorizer))
        await broker.start()
        return broker
