"""The model of a cluster's costs: what must hold whatever the constants are."""

from dataclasses import fields, replace

import pytest

from tierlog.bench.sizing.costs import MEASURED, TABLE, Cost, Costs
from tierlog.bench.sizing.model import (
    CORES_MAX,
    Plan,
    PlanError,
    Share,
    disk_gb,
    failover_s,
    fetches_per_s,
    fewest_brokers,
    metadata_mb,
    needs_of,
    open_files,
    share_of,
)

TEN = Plan(10, 1_000, 3, 50.0, readers=2)
FREE = Costs(**{field.name: 0.0 for field in fields(Costs)})


def test_each_constant_is_a_row_that_says_of_what_and_where() -> None:
    assert [cost.name for cost in TABLE] == [field.name for field in fields(Costs)]
    for cost in TABLE:
        assert cost.value >= 0, cost.name
        assert cost.unit, cost.name
        assert cost.meaning, cost.name
        assert cost.where, cost.name


def test_ten_brokers_share_a_thousand_partitions() -> None:
    share = share_of(TEN)
    assert (share.led, share.followed, share.elsewhere) == (100, 200, 700)
    assert (share.produced_mb, share.followed_mb) == (5.0, 10.0)
    assert share.batches == pytest.approx(5_000_000 / 16_384)
    assert (share.leaders, share.followers, share.copies) == (9, 9, 2)


def test_what_all_brokers_get_is_what_producers_send_as_often_as_there_are_replicas() -> None:
    needs = needs_of(share_of(TEN), MEASURED)
    assert needs.disk_written_mb * TEN.brokers == pytest.approx(50 * 3)
    # Each byte leaves for two followers and two readers.
    assert needs.network_out_mb * TEN.brokers == pytest.approx(50 * 4)


def test_the_others_lead_what_a_broker_that_is_down_led() -> None:
    share = share_of(TEN, down=1)
    assert share.led == 112
    assert share.led + share.followed == 300
    assert share.leaders == 8
    # Replicas there are not fetched for: 16 of 18 are left.
    assert share.copies == pytest.approx(2 * 8 / 9)


def test_one_replica_is_fetched_by_nobody() -> None:
    share = share_of(Plan(4, 100, 1, 10.0, readers=0))
    assert (share.led, share.followed, share.followers, share.leaders) == (25, 0, 0, 0)
    costs = replace(FREE, fetch_us=1.0, fetch_answered_us=1.0, read_us=1.0, idle_fetcher_ms=1.0)
    assert needs_of(share, costs).cpu_cores == 0


def test_fetches_are_one_a_batch_at_first_and_never_more_than_their_time_allows() -> None:
    costs = replace(FREE, fetch_ms=2.0)
    assert fetches_per_s(10, 1, costs) == pytest.approx(10, rel=0.03)
    assert fetches_per_s(1_000_000, 1, costs) == pytest.approx(500, rel=0.01)
    assert fetches_per_s(1_000_000, 3, costs) == pytest.approx(1_500, rel=0.01)
    assert fetches_per_s(0, 3, costs) == 0
    assert fetches_per_s(10, 0, costs) == 0


@pytest.mark.parametrize("cost", TABLE, ids=lambda cost: cost.name)
def test_each_constant_counts(cost: Cost) -> None:
    """Twice as dear is dearer, somewhere; but more time between fetches makes fewer of them."""
    name = cost.name
    plan = replace(TEN, local_retention_hours=1.0, connections=100)
    # A constant may have come out as nothing.
    costs = Costs(**{each.name: each.value or 1.0 for each in TABLE})
    dearer = replace(costs, **{name: 2 * getattr(costs, name)})

    def figures(costs: Costs) -> list[float]:
        needs = needs_of(share_of(plan), costs)
        return [
            *(needs.memory_mib, needs.cpu_cores, needs.start_s),
            *(metadata_mb(plan, costs), open_files(plan, costs), failover_s(plan, costs, 9.0)),
        ]

    pairs = list(zip(figures(dearer), figures(costs), strict=True))
    if name == "fetch_ms":
        assert any(after < before for after, before in pairs)
        return
    assert all(after >= before for after, before in pairs)
    assert any(after > before for after, before in pairs)


def test_tiered_topics_stay_on_the_disk_for_the_local_hours_only() -> None:
    whole = Plan(3, 10, 3, 1.0, retention_hours=100)
    tiered = replace(whole, local_retention_hours=10.0)
    assert disk_gb(whole) == pytest.approx(360)
    assert disk_gb(tiered) == pytest.approx(36)
    assert tiered.tier_gb == pytest.approx(360)
    assert whole.tier_gb == 0
    assert disk_gb(replace(tiered, local_retention_hours=1_000.0)) == pytest.approx(360)


def test_the_fewest_brokers_do_with_one_down_and_one_less_does_not() -> None:
    plan = Plan(3, 300, 3, 400.0)
    fewest = fewest_brokers(plan, MEASURED)
    assert fewest is not None
    assert fewest > 4

    def cores(brokers: int) -> float:
        share = share_of(replace(plan, brokers=brokers), down=1)
        return needs_of(share, MEASURED).cpu_cores

    assert cores(fewest) <= CORES_MAX < cores(fewest - 1)


def test_a_load_that_no_number_of_brokers_carries_has_no_fewest() -> None:
    assert fewest_brokers(Plan(3, 10, 3, 10_000_000.0), MEASURED) is None


def test_a_broker_without_clients_uses_what_it_uses_idle() -> None:
    needs = needs_of(Share(led=10, followed=10), MEASURED)
    assert needs.cpu_cores == needs.idle_cores > 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"replication_factor": 4}, "4 replicas need as many brokers, and there are 3"),
        ({"replication_factor": 0}, "0 replicas"),
        ({"brokers": 0}, "0 brokers: the model is for 1 to 1000"),
        ({"partitions": -1}, "no partition"),
        ({"mb_per_s": -1.0}, "above zero"),
        ({"batch_kib": 0.0}, "above zero"),
        ({"local_retention_hours": -1.0}, "above zero"),
        ({"mb_per_s": float("nan")}, "numbers above zero"),
        ({"retention_hours": float("inf")}, "numbers above zero"),
    ],
)
def test_a_plan_that_cannot_be_is_refused_in_a_sentence(words: dict[str, float], says: str) -> None:
    with pytest.raises(PlanError, match=says):
        replace(Plan(3, 10), **words)  # type: ignore[arg-type]  # numbers of either type


def test_no_broker_is_left() -> None:
    with pytest.raises(PlanError, match="no broker"):
        share_of(Plan(1, 10, 1), down=1)
