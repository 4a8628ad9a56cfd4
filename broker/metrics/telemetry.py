"""Metrics that clients push (KIP-714): their subscriptions, and the checks of each push.

A subscription is a configuration of type client-metrics: which clients push which metrics, and how
often (`ClientMetricsManager`). A client requests its subscription, the first time without a client
instance id, and then pushes once in each interval; an earlier push gets THROTTLING_QUOTA_EXCEEDED.
Pushes are counted and dropped: Kafka passes them to a plugin, and tierlog has none.
"""

import logging
import zlib
from collections import OrderedDict
from collections.abc import Mapping
from typing import NamedTuple

from ...clients.errors import ErrorCode, KafkaError
from ...clients.kafka_uuid import ZERO_UUID, Uuid, uuid_to_string
from ...clients.linear_regex import Pattern
from ...replication.control.configs.resource_configs import client_patterns
from ...replication.metadata.cluster_image import ClusterImage, ConfigResource, ConfigResourceType

MAX_BYTES = 1_048_576
_DEFAULT_INTERVAL_MS = 300_000
CLIENTS_MAX = 10_000
"""How many clients are remembered; any other is taken for one that has not pushed yet."""
_INT32 = 1 << 31
_MATCHED_CHARACTERS_MAX = 1_024
"""A client property longer than this matches no pattern: the slowest kind of pattern takes 6 ms for
this length, and 200 ms for the longest client id."""

_SHOWN_CHARACTERS = 200

_log = logging.getLogger(__name__)


class Subscription(NamedTuple):
    """The metrics that one client is to push, how often, and a number that identifies both."""

    number: int
    interval_ms: int
    metrics: tuple[str, ...]


class Push(NamedTuple):
    """A push: the number of the subscription it is for, its size, and whether it is the last."""

    number: int
    nbytes: int
    ends: bool


class _ConfiguredSubscription(NamedTuple):
    """A configured subscription: the clients that match it, and what they are to push."""

    patterns: Mapping[str, Pattern]
    interval_ms: int
    metrics: frozenset[str]

    def concerns(self, traits: Mapping[str, str]) -> bool:
        """Whether a client with these traits matches every pattern."""
        return all(
            len(traits.get(name, "")) <= _MATCHED_CHARACTERS_MAX
            and pattern.matches(traits.get(name, ""))
            for name, pattern in self.patterns.items()
        )


def client_traits(client_id: str | None, host: str) -> dict[str, str]:
    """What subscriptions match a client by."""
    return {"client_id": client_id or "", "client_source_address": host}


class _Client:
    """A client with a subscription, and when it last requested it and pushed."""

    __slots__ = ("is_ending", "must_subscribe", "pushed_s", "subscribed_s", "subscription")

    def __init__(self, subscription: Subscription) -> None:
        self.subscription = subscription
        self.subscribed_s = self.pushed_s = float("-inf")
        self.is_ending = False
        self.must_subscribe = False
        """Whether its last push got UNKNOWN_SUBSCRIPTION_ID: it may subscribe again at once."""


class Telemetry:
    """The clients that push; if there are too many, the least recently active is forgotten."""

    def __init__(self) -> None:
        self._clients: OrderedDict[Uuid, _Client] = OrderedDict()
        self._configs: Mapping[ConfigResource, Mapping[str, str]] | None = None
        self._configured: list[_ConfiguredSubscription] = []

    def subscribe(
        self, image: ClusterImage, client_instance: Uuid, traits: Mapping[str, str], now_s: float
    ) -> Subscription:
        """A client's subscription. Raises KafkaError(THROTTLING_QUOTA_EXCEEDED) if too early."""
        subscription = self._subscription(image, client_instance, traits)
        client = self._clients.get(client_instance)
        is_update_due = client is not None and client.must_subscribe
        if client is not None and client.subscription == subscription and not is_update_due:
            interval_s = subscription.interval_ms / 1000
            if now_s < max(client.subscribed_s, client.pushed_s) + interval_s:
                raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        if client is None:
            client = self._remember(client_instance, subscription)
        client.subscription, client.subscribed_s = subscription, now_s
        client.must_subscribe = False
        return subscription

    def push(
        self,
        image: ClusterImage,
        client_instance: Uuid,
        traits: Mapping[str, str],
        push: Push,
        now_s: float,
    ) -> None:
        """Accept a push.

        A client that is not remembered may have subscribed before this broker was restarted. One
        that goes on to push asks for a changed subscription only after UNKNOWN_SUBSCRIPTION_ID.
        Raises KafkaError: INVALID_REQUEST, THROTTLING_QUOTA_EXCEEDED, UNKNOWN_SUBSCRIPTION_ID or
        TELEMETRY_TOO_LARGE.
        """
        if client_instance == ZERO_UUID:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        subscription = self._subscription(image, client_instance, traits)
        client = self._clients.get(client_instance)
        if client is None:
            client = self._remember(client_instance, subscription)
        if client.is_ending:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        has_changed, client.subscription = subscription != client.subscription, subscription
        is_early = now_s < client.pushed_s + subscription.interval_ms / 1000
        if is_early and not (push.ends or has_changed):
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        client.pushed_s, client.is_ending = now_s, push.ends
        self._clients.move_to_end(client_instance)
        if push.number != subscription.number:
            client.must_subscribe = True
            raise KafkaError(ErrorCode.UNKNOWN_SUBSCRIPTION_ID)
        if push.nbytes > MAX_BYTES:
            raise KafkaError(ErrorCode.TELEMETRY_TOO_LARGE)

    def _remember(self, client_instance: Uuid, subscription: Subscription) -> _Client:
        client = self._clients[client_instance] = _Client(subscription)
        if len(self._clients) > CLIENTS_MAX:
            self._clients.popitem(last=False)
        return client

    def _subscription(
        self, image: ClusterImage, client_instance: Uuid, traits: Mapping[str, str]
    ) -> Subscription:
        all_traits = {**traits, "client_instance_id": uuid_to_string(client_instance)}
        interval_ms = _DEFAULT_INTERVAL_MS
        metrics: set[str] = set()
        for subscription in self._configured_subscriptions(image):
            if subscription.concerns(all_traits):
                metrics |= subscription.metrics
                interval_ms = min(interval_ms, subscription.interval_ms)
        names = tuple(sorted(metrics))
        number = zlib.crc32(repr((interval_ms, names)).encode()) % _INT32
        return Subscription(number, interval_ms, names)

    def _configured_subscriptions(self, image: ClusterImage) -> list[_ConfiguredSubscription]:
        """The subscriptions of the image, compiled once for all clients."""
        if self._configs is not image.configs:
            self._configs = image.configs
            self._configured = [
                subscription
                for (kind, name), values in image.configs.items()
                if kind == ConfigResourceType.CLIENT_METRICS
                and (subscription := _compile(name, values)) is not None
            ]
        return self._configured


def _compile(name: str, values: Mapping[str, str]) -> _ConfiguredSubscription | None:
    """The compiled subscription; None if a pattern is invalid, so that no client matches."""
    try:
        patterns = client_patterns(values.get("match", ""))
    except KafkaError as error:
        # Earlier versions accepted patterns that RE2 does not support.
        _log.warning(
            "Ignoring client metrics subscription %r, whose match is invalid: %s",
            name[:_SHOWN_CHARACTERS],
            error.message[:_SHOWN_CHARACTERS],
        )
        return None
    names = [part.strip() for part in values.get("metrics", "").split(",")]
    metrics = frozenset(each for each in names if each)
    interval_ms = int(values.get("interval.ms", _DEFAULT_INTERVAL_MS))
    return _ConfiguredSubscription(patterns, interval_ms, metrics)
