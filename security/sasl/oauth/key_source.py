"""Where the keys come from that verify tokens: a file, or an endpoint that is asked now and then.

Who validates a token never waits: it takes the keys that are there. A file is read again when it
has changed; an endpoint every `sasl.oauthbearer.jwks.endpoint.refresh.ms`, and earlier when a token
has a key that nobody has seen (`RefreshingHttpsJwks`). What cannot be read leaves the old keys, and
is read again next time, whatever the failure was.
"""

import asyncio
import logging
from collections import OrderedDict
from typing import Protocol
from urllib.parse import unquote, urlsplit

from ....clients.errors import ErrorCode, KafkaError
from ....clients.network.http_document import DOCUMENT_BYTES_MAX, GetError, HttpDocument
from ....clients.runtime.supervisor import Supervisor
from ....clients.runtime.task_owner import TaskOwner
from ....storage.files import OsFiles
from ..settings import KeyEndpoint
from .key_set import KeySet, parse_key_set

_log = logging.getLogger(__name__)

MISSING_KEYS_MAX = 16
"""How many ids of unseen keys are remembered."""
MISSING_KEY_S = 60.0
"""How long an unseen key does not ask for another refresh."""
KEY_ID_CHARACTERS_MAX = 1_000
"""A key with a longer id asks for no refresh."""
_LOOP = "keys that verify tokens"
REFRESH_INTERVAL_S = 1.0
"""Between refreshes: strangers can invent ids of keys. Kafka has no such bound."""


class KeySource(Protocol):
    """The keys of one endpoint."""

    async def start(self) -> None:
        """Read the keys. Raises KafkaError(INVALID_CONFIG) if that fails."""
        ...

    async def stop(self) -> None:
        """Stop reading them."""
        ...

    def keys(self) -> KeySet:
        """The newest keys."""
        ...

    def miss(self, key_id: str) -> None:
        """A token has a key that is not there."""
        ...


def key_source(endpoint: KeyEndpoint, supervisor: Supervisor) -> KeySource:
    """The source of an endpoint, to be started."""
    if urlsplit(endpoint.url).scheme == "file":
        return FileKeys(endpoint)
    return EndpointKeys(endpoint, supervisor)


def shown_url(endpoint: KeyEndpoint) -> str:
    """The address without its query, which may hold a secret."""
    return endpoint.url.partition("?")[0]


class FileKeys:
    """The keys in a file."""

    def __init__(self, endpoint: KeyEndpoint) -> None:
        self._endpoint = endpoint
        self._path = unquote(urlsplit(endpoint.url).path)
        self._files = OsFiles(max_open=1)
        self._keys = KeySet([])
        self._read_at_ms = -1
        self._is_damaged = False

    async def start(self) -> None:
        """Read the file. Raises KafkaError(INVALID_CONFIG)."""
        try:
            self._read()
        except (OSError, ValueError) as error:
            raise _unreadable(self._endpoint, _why(error)) from None
        _check(self._endpoint, self._keys)

    async def stop(self) -> None:
        """Nothing runs."""

    def keys(self) -> KeySet:
        """The keys, read again if the file has changed."""
        try:
            if self._files.modified_ms(self._path) != self._read_at_ms:
                self._read()
        except (OSError, ValueError) as error:
            # Once, however many tokens come meanwhile.
            if not self._is_damaged:
                _keep(self._endpoint, _why(error))
            self._is_damaged = True
        return self._keys

    def miss(self, key_id: str) -> None:
        """Nothing to do: `keys` has looked."""

    def _read(self) -> None:
        # Before it is read: what is written meanwhile is read next time.
        self._read_at_ms = self._files.modified_ms(self._path)
        size = self._files.size(self._path)
        if not size:
            # What is no plain file has no size, and may never end.
            raise ValueError("it is empty, or no plain file")
        if size > DOCUMENT_BYTES_MAX:
            raise ValueError(f"it is longer than {DOCUMENT_BYTES_MAX} bytes")
        self._keys = parse_key_set(self._files.read(self._path))
        self._is_damaged = False


class EndpointKeys:
    """The keys of an HTTP endpoint."""

    def __init__(
        self,
        endpoint: KeyEndpoint,
        supervisor: Supervisor,
        interval_s: float = REFRESH_INTERVAL_S,
    ) -> None:
        self._endpoint = endpoint
        self._supervisor = supervisor
        self._interval_s = interval_s
        self._keys = KeySet([])
        self._tasks = TaskOwner(1)
        self._is_missed = asyncio.Event()
        self._missing: OrderedDict[str, float] = OrderedDict()
        """When each unseen key may ask for a refresh again, the least recent first."""

    async def start(self) -> None:
        """Ask for the keys, and again now and then. Raises KafkaError(INVALID_CONFIG)."""
        endpoint = self._endpoint
        try:
            document = HttpDocument(endpoint.url, endpoint.trusted_path, endpoint.trusted_text)
        except GetError as error:
            raise _unreadable(endpoint, str(error)) from None
        _log.info("Reading the keys that verify tokens from %s", shown_url(endpoint))
        if why := await self._refresh(document):
            raise _unreadable(endpoint, why)
        _check(endpoint, self._keys)
        self._tasks.start(self._run(document), _LOOP)

    async def stop(self) -> None:
        """Stop asking."""
        await self._tasks.stop()

    def keys(self) -> KeySet:
        """The keys of the last good answer."""
        return self._keys

    @property
    def missing_keys(self) -> int:
        """How many ids of unseen keys are remembered."""
        return len(self._missing)

    def miss(self, key_id: str) -> None:
        """Ask for the keys soon, unless this one has done so lately."""
        if len(key_id) > KEY_ID_CHARACTERS_MAX:
            return
        now = asyncio.get_running_loop().time()
        if self._missing.get(key_id, now) > now:
            self._missing.move_to_end(key_id)
            return
        self._missing[key_id] = now + MISSING_KEY_S
        self._missing.move_to_end(key_id)
        if len(self._missing) > MISSING_KEYS_MAX:
            self._missing.popitem(last=False)
        self._is_missed.set()

    async def _run(self, document: HttpDocument) -> None:
        while True:
            await asyncio.sleep(self._interval_s)
            try:
                async with asyncio.timeout(self._endpoint.refresh_ms / 1_000):
                    await self._is_missed.wait()
            except TimeoutError:
                pass
            self._is_missed.clear()
            with self._supervisor.attempt(_LOOP, shown_url(self._endpoint)):
                if why := await self._refresh(document):
                    _keep(self._endpoint, why)

    async def _refresh(self, document: HttpDocument) -> str:
        """Ask until it works or the time is over; returns why it failed."""
        endpoint, loop = self._endpoint, asyncio.get_running_loop()
        end = loop.time() + endpoint.backoff_max_ms / 1_000
        wait_s = endpoint.backoff_ms / 1_000
        while True:
            try:
                self._keys = parse_key_set(await document.get())
            except (GetError, ValueError) as error:
                wait_s = min(wait_s, end - loop.time())
                if wait_s <= 0:
                    return str(error)
            else:
                return ""
            await asyncio.sleep(wait_s)
            wait_s *= 2


def _why(error: Exception) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)


def _keep(endpoint: KeyEndpoint, why: str) -> None:
    _log.warning("Keeping the keys of %s that verify tokens: %s", shown_url(endpoint), why)


def _check(endpoint: KeyEndpoint, keys: KeySet) -> None:
    if not keys:
        raise _unreadable(endpoint, "it holds no key that can verify a signature")


def _unreadable(endpoint: KeyEndpoint, why: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_CONFIG,
        f"The keys that verify tokens cannot be read from {shown_url(endpoint)}: {why}."
        " Correct sasl.oauthbearer.jwks.endpoint.url, or what is there.",
    )
