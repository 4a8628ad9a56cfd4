"""The resources that all parts of a remote tier use."""

from collections.abc import Callable
from typing import NamedTuple

from ...clients.runtime.environment import Environment
from ...storage.files import Files
from ...tiering.blocking_pool import BlockingPool
from ...tiering.remote_storage import RemoteStorageManager

AroundStorage = Callable[[RemoteStorageManager], RemoteStorageManager]
"""Puts something before a store."""


def _as_it_is(storage: RemoteStorageManager) -> RemoteStorageManager:
    return storage


class TierResources(NamedTuple):
    """The clock and randomness, the local disk, the threads that call the store, and what stands
    before it."""

    environment: Environment
    files: Files
    pool: BlockingPool
    around_storage: AroundStorage = _as_it_is
