"""The owner of a tier: one small object at its root, checked before each copy or removal.

    tierlog-owner.json    cluster_id, node_id, token, since_ms

Two writers under one prefix destroy each other's data: the scrub of one treats the other's copies
as orphans, and the retention of one treats them as expired. A cluster id alone does not distinguish
a broker from a copy of its data directory, so each process that wants to write generates a new
token, and keeps it in the tier and beside its own data (`OwnerFile`). A broker that finds another
token in the tier is not its owner: it keeps serving and reading, but neither copies nor removes.

The brokers of a cluster of several processes own one tier together (`OwnerTools.is_shared`): the
cluster id makes any of them the owner. A copy of one broker's data directory does no harm there:
its registration needs the active controller, which admits one process for each id. Copies of all
directories, started apart, need a prefix of their own.

A tier without an owner is empty, or older than this object: the first writer adopts it. Only
`tierlog tier owner --take-over` changes the owner of a tier (decision 015).

There is no lock that all object stores offer. So a broker that writes its token waits a moment and
reads it again. Of two that write at once, the later one wins; the other finds out before it does
anything, or at its next check, at most `TRUST_SECONDS` later. A broker with nothing to write also
checks from time to time (`owner_watch.py`).
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple, Protocol, cast

from ..clients.kafka_uuid import uuid_to_string
from ..clients.runtime.environment import Environment
from ..storage.files import Files
from .blocking_pool import BlockingPool
from .remote_storage import Failure, RemoteResourceNotFound, RemoteStorageError

_log = logging.getLogger(__name__)

OWNER_KEY = "tierlog-owner.json"
OWNER_FILE = "tier-owner.json"

TRUST_SECONDS = 5.0
"""How long the result of a check is trusted."""
SETTLE_SECONDS = 0.5
"""After this wait, a broker that claimed the tier at the same moment has written too."""

_PENDING_MAX = 30
_VERSION = 1
_OWNER_BYTES_MAX = 64 * 1024
_NODE_ID_MAX = 2**31 - 1


class OwnedTier(Protocol):
    """The methods that are needed of `TierFileSystem`."""

    async def read_small(self, key: str, bytes_max: int) -> bytes: ...

    async def write_bytes(self, key: str, content: bytes) -> object: ...


class Owner(NamedTuple):
    """The content of the owner object."""

    cluster_id: str
    node_id: int
    token: str
    since_ms: int

    def __str__(self) -> str:
        return f"cluster {self.cluster_id[:64]!a} (node {self.node_id})"


class Writer(NamedTuple):
    """A broker that wants to write to a tier."""

    cluster_id: str
    node_id: int


class NotTheOwnerError(RemoteStorageError):
    """Another broker owns the tier."""


def encode_owner(owner: Owner) -> bytes:
    """Encode the owner object."""
    return json.dumps({"version": _VERSION, **owner._asdict()}, indent=1).encode()


def decode_owner(content: bytes) -> Owner:
    """Decode the owner object. Raises RemoteStorageError if `encode_owner` did not write it."""
    try:
        fields = cast("dict[str, object]", json.loads(content))
        cluster_id, token = fields["cluster_id"], fields["token"]
        node_id, since_ms = fields["node_id"], fields["since_ms"]
        if (
            fields["version"] == _VERSION
            and isinstance(cluster_id, str)
            and isinstance(token, str)
            and isinstance(node_id, int)
            and isinstance(since_ms, int)
            and 0 <= node_id <= _NODE_ID_MAX
        ):
            return Owner(cluster_id, node_id, token, since_ms)
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise RemoteStorageError(
        f"{OWNER_KEY} does not name the owner of the tier: it is damaged, or was written by a "
        "newer tierlog. `tierlog tier owner --take-over` rewrites it"
    )


async def read_owner(tier: OwnedTier) -> Owner | None:
    """The owner of a tier; None if it has none yet. Raises RemoteStorageError."""
    try:
        return decode_owner(await tier.read_small(OWNER_KEY, _OWNER_BYTES_MAX))
    except RemoteResourceNotFound:
        return None


class OwnerFile:
    """The tokens that a data directory has written to the tiers that it owns. Blocks on the disk.

    The first token of a tier is the one last seen in it, or empty if none was. The others were not
    confirmed, because of a crash or an unreachable store, and may still appear in the tier.
    """

    def __init__(self, files: Files, directory: str, tier: str) -> None:
        self._files = files
        self._path = f"{directory}/{OWNER_FILE}"
        self._tier = tier

    def tokens(self) -> list[str]:
        """The tokens that the tier may hold if it is ours."""
        tokens = self._all().get(self._tier, [])
        if not isinstance(tokens, list):
            return []
        return [str(each) for each in cast("list[object]", tokens)]

    def add(self, token: str) -> None:
        """Durably add a token that is about to be written to the tier."""
        seen, *others = self.tokens() or [""]
        self._replace([seen, *others[-_PENDING_MAX:], token])

    def confirm(self, token: str, instead_of: str) -> None:
        """Durably record that this token was seen in the tier and replaced `instead_of`."""
        gone = ("", token, instead_of)
        self._replace([token, *(each for each in self.tokens() if each not in gone)])

    def _replace(self, tokens: list[str]) -> None:
        content = {**self._all(), self._tier: tokens}
        self._files.atomic_replace(self._path, json.dumps(content, indent=1).encode())

    def _all(self) -> dict[str, object]:
        # A damaged file has no token: the tier counts as another's until an operator takes it over.
        with suppress(FileNotFoundError, ValueError, RecursionError):
            content: object = json.loads(self._files.read(self._path))
            if isinstance(content, dict):
                return cast("dict[str, object]", content)
        return {}


@dataclass(frozen=True, slots=True)
class OwnerTools:
    """What `TierOwnership` works with."""

    writer: Callable[[], Writer]
    file: OwnerFile
    environment: Environment
    pool: BlockingPool
    is_shared: bool = False
    """Whether all brokers of the writer's cluster own the tier together."""


class TierOwnership:
    """Checks that this broker owns a tier. Call `check` before every change to the tier."""

    def __init__(self, tier: OwnedTier, tools: OwnerTools, *, renews_token: bool = True) -> None:
        self._tier = tier
        self._tools = tools
        self._is_settled = not renews_token
        self._trusted_until = 0.0
        self._asking = asyncio.Lock()

    async def check(self, before_claim: Callable[[], Awaitable[None]] | None = None) -> None:
        """Check that this broker owns the tier; claim a tier without an owner.

        Raises NotTheOwnerError, or RemoteStorageError if the store does not answer. If
        `before_claim` raises, the tier is not claimed.
        """
        loop = asyncio.get_running_loop()
        if loop.time() < self._trusted_until:
            return
        async with self._asking:
            if loop.time() >= self._trusted_until:
                await self._look(before_claim)
                self._trusted_until = loop.time() + TRUST_SECONDS

    async def look(self) -> None:
        """Check without writing. Raises NotTheOwnerError if another broker owns the tier."""
        async with self._asking:
            owner = await read_owner(self._tier)
            if owner is not None and not await self._knows(owner):
                self._trusted_until = 0.0
                raise self._refusal(owner)

    def _is_shared_with(self, owner: Owner) -> bool:
        return self._tools.is_shared and owner.cluster_id == self._tools.writer().cluster_id

    async def _knows(self, owner: Owner) -> bool:
        if self._is_shared_with(owner):
            return True
        return owner.token in await self._tools.pool.run(self._tools.file.tokens)

    async def take_over(self) -> Owner | None:
        """Take the tier over and return its previous owner. Raises RemoteStorageError."""
        try:
            before = await read_owner(self._tier)
        except RemoteStorageError as error:
            if error.is_retriable or error.failure is not Failure.BROKEN:
                raise
            before = None
        await self._claim()
        return before

    async def _look(self, before_claim: Callable[[], Awaitable[None]] | None) -> None:
        owner = await read_owner(self._tier)
        if owner is None and before_claim is not None:
            await before_claim()
        if owner is None:
            writer = self._tools.writer()
            _log.info(
                "Claimed the remote tier %s, which had no owner, for cluster %s",
                self._tier,
                writer[0],
            )
            await self._claim()
        elif not await self._knows(owner):
            raise self._refusal(owner)
        elif not self._is_settled and not self._is_shared_with(owner):
            await self._claim()

    async def _claim(self) -> None:
        tools = self._tools
        environment, (cluster_id, node_id) = tools.environment, tools.writer()
        token = uuid_to_string(environment.random_uuid())
        seen = (await tools.pool.run(tools.file.tokens) or [""])[0]
        # The file is changed in the loop, not in the pool, here and below: several tasks of one
        # broker may claim at once, and none may change it while another updates it. A start blocks
        # just these two times.
        tools.file.add(token)
        owner = Owner(cluster_id, node_id, token, environment.wall_clock_ms())
        await self._tier.write_bytes(OWNER_KEY, encode_owner(owner))
        await asyncio.sleep(SETTLE_SECONDS)
        now = await read_owner(self._tier)
        if now is None or not await self._knows(now):
            raise self._refusal(now or owner)
        if now.token != token:
            # The scrub and a copy of one broker, or two brokers that share it, claimed a new tier
            # at once: it is still ours.
            return
        tools.file.confirm(token, seen)
        self._is_settled = True

    def _refusal(self, owner: Owner) -> NotTheOwnerError:
        mine = self._tools.writer().cluster_id
        who = (
            f"cluster {mine}" if owner.cluster_id != mine else "this data directory of that cluster"
        )
        return NotTheOwnerError(
            f"The remote tier {self._tier} belongs to {owner}, not to {who}: nothing is copied "
            "to it or removed from it. Use a separate prefix for each cluster in "
            "rsm.config.url; if the owner is gone for good, run `tierlog tier owner "
            "--take-over`",
            Failure.DENIED,
        )
