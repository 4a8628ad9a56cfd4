"""The resources that all parts of a remote tier use."""

from typing import NamedTuple

from ...clients.environment import Environment
from ...storage.files import Files
from ...tiering.blocking_pool import BlockingPool


class TierResources(NamedTuple):
    """The clock and randomness, the local disk, and the threads that call the store."""

    environment: Environment
    files: Files
    pool: BlockingPool
