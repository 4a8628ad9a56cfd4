"""The quota of partitions created and deleted: what a bucket holds, and who is refused."""

from contextlib import suppress

import pytest
from hypothesis import given, strategies as st

from tierlog.broker.dispatch.mutation_quotas import MutationCharge, TokenBucket
from tierlog.broker.quota.quotas import SAMPLES
from tierlog.clients.errors import ErrorCode, KafkaError


class Client:
    """Someone who changes partitions at times of our choice, under one a second or more."""

    def __init__(self, limit: float = 1.0, *, is_strict: bool = True) -> None:
        self.now = 1_000.0
        self._limit = limit
        self._is_strict = is_strict
        self._bucket = TokenBucket()

    def request(self) -> MutationCharge:
        return MutationCharge(self._bucket, self._limit, self._is_strict, lambda: self.now)

    def wait_after(self, *partitions: int) -> float:
        """For how long a request with these changes is held back; what is refused is left out."""
        request = self.request()
        for count in partitions:
            with suppress(KafkaError):
                request.charge(count)
        return request.wait_s(self.now)


def test_whoever_finds_a_token_may_take_any_number_and_owes_the_rest() -> None:
    client = Client()
    assert client.wait_after(10) == 0
    assert client.wait_after(5) == 0
    # Eleven tokens were there, fifteen were taken.
    with pytest.raises(KafkaError) as refused:
        client.request().charge(1)
    assert refused.value.code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert client.wait_after(1) == pytest.approx(4)
    client.now += 4
    assert client.wait_after(1) == 0


def test_what_is_refused_costs_nothing() -> None:
    client = Client()
    client.wait_after(13)
    for _ in range(5):
        assert client.wait_after(1_000) == pytest.approx(2)


def test_a_permissive_charge_is_never_refused_and_waits_for_all_of_its_debt() -> None:
    client = Client(is_strict=False)
    assert client.wait_after(11) == 0
    assert client.wait_after(5) == pytest.approx(5)
    assert client.wait_after(1, 2) == pytest.approx(8)


def test_of_several_changes_of_one_request_those_behind_the_debt_are_refused() -> None:
    client = Client(limit=100.0)
    request = client.request()
    request.charge(1_200)
    with pytest.raises(KafkaError):
        request.charge(1)
    assert request.wait_s(client.now) == pytest.approx(1)


def test_the_time_that_the_request_took_is_not_waited_again() -> None:
    client = Client()
    client.wait_after(14)
    request = client.request()
    with pytest.raises(KafkaError):
        request.charge(1)
    assert request.wait_s(client.now + 2) == pytest.approx(1)
    assert request.wait_s(client.now + 20) == 0


def test_a_lower_limit_holds_at_once_for_a_bucket_that_is_fuller() -> None:
    bucket = TokenBucket()
    assert bucket.tokens(100.0, 0.0) == 100.0 * SAMPLES
    assert bucket.tokens(1.0, 0.0) == SAMPLES


@given(
    st.floats(0.1, 50),
    st.lists(st.tuples(st.floats(0, 20), st.integers(1, 40)), min_size=1, max_size=60),
)
def test_nobody_gets_more_than_a_full_bucket_the_refill_and_one_change(
    limit: float, uses: list[tuple[float, int]]
) -> None:
    client, granted, elapsed = Client(limit), 0, 0.0
    for pause, partitions in uses:
        client.now += pause
        elapsed += pause
        try:
            client.request().charge(partitions)
        except KafkaError:
            continue
        granted += partitions
        assert granted <= limit * (SAMPLES + elapsed) + partitions + 1e-6
