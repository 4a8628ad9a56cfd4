"""What a broker uses of its machine: the clock, the disk, the network, threads.

A simulation passes its own, and a test with faults puts them before two of the broker's parts.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..clients.runtime.environment import Environment, SystemEnvironment
from ..storage.files import Files, OsFiles
from ..tiering.blocking_pool import BlockingPool, ThreadedPool
from .network.connection import Answer
from .network.transport import Network
from .request.context import BrokerContext

if TYPE_CHECKING:
    from ..replication.authorizer.standard_authorizer import StandardAuthorizer
    from .tier.tier_resources import AroundStorage


def _threads(threads: int) -> BlockingPool:
    return ThreadedPool(threads, "remote-storage")


@dataclass(frozen=True, slots=True)
class Dependencies:
    """The clock, disk, network and threads of a broker; `network` None stands for sockets."""

    environment: Environment = field(default_factory=SystemEnvironment)
    files: Files = field(default_factory=OsFiles)
    network: Network | None = None
    blocking_pool: Callable[[int], BlockingPool] = _threads
    around_answers: Callable[[BrokerContext, Answer], Answer] = lambda _, answer: answer
    """Puts the faults of a test before the dispatch; in production, there is nothing."""
    around_storage: "AroundStorage" = lambda storage: storage
    """Puts the faults of a test before the store of the tier."""
    authorizer: "Callable[[], StandardAuthorizer | None]" = lambda: None
    """Makes the authorizer of a test; None leaves it to the properties."""
