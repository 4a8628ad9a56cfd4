"""The installed tierlog: `tierlog serve` with its tier in a folder or at the URL of `--tier`.

Its objects in a remote store are removed when it is discarded.
"""

import asyncio
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from urllib.parse import urlsplit
from urllib.request import url2pathname

from ....tiering.store.object_keys import LOG_SUFFIX, parse_object_key
from ....tiering.store.remote_url import RemoteUrl, remote_url
from ....tiering.tools.opened_tier import opened_tier
from ..processes.live_files import size_of
from ..processes.tierlog_node import TierlogNode
from .node_target import OFTEN, OneNode, logs_of_topic
from .target import Capability

_PREFIX = "rsm.config."


@dataclass(frozen=True, slots=True)
class TierlogTarget:
    """The target; `tier_options` are the options of the tier's file system, if there is a tier."""

    tier_options: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    name: str = "tierlog"
    capabilities: frozenset[Capability] = frozenset({"start", "tier", "durable", "usage", "quorum"})

    def check(self) -> None:
        """Do nothing: the harness is a part of tierlog."""

    def versions(self) -> Mapping[str, str]:
        from .... import __version__

        return {"tierlog": __version__}

    def prepare(self, directory: Path, properties: Mapping[str, str], tier: str | None) -> OneNode:
        if tier is None:
            stated = {"remote.log.storage.system.enable": "false", **properties}
            return OneNode(self.name, directory, TierlogNode(directory, properties=stated))
        options = {f"{_PREFIX}option.{name}": value for name, value in self.tier_options.items()}
        stated = {**OFTEN, f"{_PREFIX}url": tier, **options, **properties}
        own = {
            name.removeprefix(_PREFIX): value
            for name, value in stated.items()
            if name.startswith(_PREFIX)
        }
        place = Tier(remote_url(own))
        node = TierlogNode(directory, properties=stated)
        # A scenario that sets its own tier also cleans it up.
        made = OneNode(self.name, directory, node, place.bytes_of)
        return replace(made, remove_tier=place.remove) if own["url"] == tier else made


@dataclass(frozen=True, slots=True)
class Tier:
    """The tier of one broker."""

    location: RemoteUrl

    @property
    def folder(self) -> Path | None:
        """Its local folder; None if it is elsewhere."""
        if self.location.protocol != "file":
            return None
        return Path(url2pathname(urlsplit(self.location.url).path))

    def bytes_of(self, topic: str) -> int:
        """The bytes of the topic's log in the tier."""
        if self.folder is not None:
            return size_of(logs_of_topic(self.folder, topic))
        return asyncio.run(self._bytes_of(topic))

    async def _bytes_of(self, topic: str) -> int:
        total = 0
        async with opened_tier(self.location) as tier:
            for entry in await tier.list():
                key = parse_object_key(entry.key)
                if key and key.suffix == LOG_SUFFIX and key.topic_id_partition.topic == topic:
                    total += entry.size
        return total

    def remove(self) -> None:
        """Remove everything in the tier."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
        else:
            asyncio.run(self._remove())

    async def _remove(self) -> None:
        async with opened_tier(self.location) as tier:
            await tier.remove_all([entry.key for entry in await tier.list()])
