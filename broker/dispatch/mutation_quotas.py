"""The quota on the partitions that a client may create and delete per second (KIP-599).

Each partition costs a token from a bucket, which starts full, holds the tokens of a whole window
(eleven seconds) and is refilled steadily. Unless there is a debt, a request may use more tokens
than are left, because a large change would be impossible otherwise; the result is a debt
(`TokenBucket`). While there is one, strict charges are refused and permissive ones are still made;
either way the client is throttled until the debt is gone (`StrictControllerMutationQuota`,
`PermissiveControllerMutationQuota`).
"""

from collections.abc import Callable

from ...clients.errors import ErrorCode, KafkaError
from ..quota.quotas import SAMPLE_S, SAMPLES


class TokenBucket:
    """The tokens that may still be used. Times are seconds of a monotonic clock."""

    __slots__ = ("_filled_at", "_tokens")

    def __init__(self) -> None:
        self._tokens = float("inf")
        self._filled_at = 0.0

    def tokens(self, limit: float, now: float) -> float:
        """The tokens left, refilled with `limit` a second; less than 0 is a debt."""
        burst = limit * SAMPLES * SAMPLE_S
        self._tokens = min(burst, self._tokens + limit * (now - self._filled_at))
        self._filled_at = now
        return self._tokens

    def take(self, amount: float) -> None:
        """Use some tokens, even if that leaves a debt."""
        self._tokens -= amount


class MutationCharge:
    """Charges a bucket for one request."""

    __slots__ = ("_bucket", "_clock", "_is_strict", "_limit", "_until")

    def __init__(
        self, bucket: TokenBucket, limit: float, is_strict: bool, clock: Callable[[], float]
    ) -> None:
        self._bucket = bucket
        self._limit = limit
        self._is_strict = is_strict
        self._clock = clock
        self._until = 0.0

    def charge(self, partitions: int) -> None:
        """Count a change of that many partitions.

        Raises KafkaError(THROTTLING_QUOTA_EXCEEDED), without a message, as in Kafka.
        """
        now = self._clock()
        tokens = self._bucket.tokens(self._limit, now)
        if self._is_strict and tokens < 0:
            self._until = now - tokens / self._limit
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        self._bucket.take(partitions)
        if not self._is_strict and tokens < partitions:
            self._until = now + (partitions - tokens) / self._limit

    def wait_s(self, now: float) -> float:
        """How long to throttle the client."""
        return max(self._until - now, 0.0)
