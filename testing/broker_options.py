"""The properties of a test's broker: small and quick; what the test states wins."""

import os
from collections.abc import Mapping
from typing import Any, Final

DEFAULTS: Final[Mapping[str, str]] = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    # Internal topics are created when they are first used, and each partition takes its time.
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.segment.delete.delay.ms": "1000",
    # A test may send records from any time, and the broker's own clock is the system's: none of
    # them is refused, and none is gone before the test looks for it (docs/decisions/031).
    "log.message.timestamp.after.max.ms": "9223372036854775807",
    "log.retention.hours": "-1",
    "remote.log.manager.task.interval.ms": "1000",
}

CALLBACKS: Final = frozenset(
    ("error_cb", "oauth_cb", "on_commit", "on_delivery", "stats_cb", "throttle_cb")
)
"""The settings of confluent-kafka that have an underscore; all others have dots."""

MEMORY_TIER: Final = "memory"
"""A tier that is as short-lived as the broker's data, and stored beside it."""


def broker_properties(
    stated: Mapping[str, object], directory: str, tier: str | None
) -> dict[str, str]:
    """All properties of a broker with its data in `directory`.

    `tier` is `MEMORY_TIER`, a URL of fsspec, or None.
    """
    properties = {**DEFAULTS}
    if not log_dirs(stated):
        properties["log.dirs"] = f"{directory}/data"
    if tier is not None:
        url = f"file://{directory}/tier" if tier == MEMORY_TIER else tier
        properties["rsm.config.url"] = url
    return {**properties, **{name: _text(value) for name, value in stated.items()}}


def log_dirs(stated: Mapping[str, object]) -> list[str]:
    """The directories that a test names for the data; empty if it leaves that to the broker."""
    text = str(stated.get("log.dirs") or stated.get("log.dir") or "")
    return [os.path.abspath(part.strip()) for part in text.split(",") if part.strip()]


def client_config(bootstrap_servers: str, settings: Mapping[str, object]) -> dict[str, Any]:
    """A configuration for confluent-kafka; `group_id` is `group.id`, `error_cb` itself."""
    named = {
        name if name in CALLBACKS else name.replace("_", "."): value
        for name, value in settings.items()
    }
    return {"bootstrap.servers": bootstrap_servers, **named}


def topic_configs(configs: Mapping[str, object], *, is_tiered: bool) -> dict[str, str]:
    """A topic's properties from keyword arguments: `retention_ms=1000` is `retention.ms`.

    A topic is tiered where the broker is, unless it says otherwise or is compacted.
    """
    named = {name.replace("_", "."): _text(value) for name, value in configs.items()}
    if is_tiered and "compact" not in named.get("cleanup.policy", ""):
        named.setdefault("remote.storage.enable", "true")
    return named


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
