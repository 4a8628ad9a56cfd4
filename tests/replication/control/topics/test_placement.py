"""Where replicas go: every broker its share, racks first, fenced brokers last."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, strategies as st

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.kafka_uuid import ZERO_UUID
from tierlog.replication.control.topics.placement import place_replicas
from tierlog.replication.metadata.cluster_image import BrokerImage


def broker(broker_id: int, rack: str | None = None, fenced: bool = False) -> BrokerImage:
    return BrokerImage(broker_id, 0, ZERO_UUID, {}, rack, fenced)


def brokers(*described: BrokerImage) -> dict[int, BrokerImage]:
    return {one.broker_id: one for one in described}


racks = st.lists(
    st.tuples(st.sampled_from([None, "a", "b", "c"]), st.booleans()), min_size=1, max_size=9
)


@given(racks, st.integers(1, 12), st.data())
def test_replicas_are_distinct_brokers_and_the_first_is_never_fenced(
    described: list[tuple[str | None, bool]], partitions: int, data: st.DataObject
) -> None:
    cluster = brokers(*(broker(n, rack, fenced) for n, (rack, fenced) in enumerate(described)))
    replication_factor = data.draw(st.integers(1, len(cluster)))
    random = Random(data.draw(st.integers(0, 99)))
    if all(one.fenced for one in cluster.values()):
        with pytest.raises(KafkaError, match="All brokers are currently fenced"):
            place_replicas(cluster, partitions, replication_factor, random)
        return
    placed = place_replicas(cluster, partitions, replication_factor, random)
    assert len(placed) == partitions
    active = sum(not one.fenced for one in cluster.values())
    for replicas in placed:
        assert len(set(replicas)) == replication_factor
        fenced = [cluster[replica].fenced for replica in replicas]
        assert fenced == sorted(fenced)
        assert sum(fenced) == max(0, replication_factor - active)


@pytest.mark.parametrize("seed", range(5))
def test_leaders_are_spread_evenly(seed: int) -> None:
    cluster = brokers(*(broker(n) for n in range(3)))
    placed = place_replicas(cluster, 9, 2, Random(seed))
    leaders = [replicas[0] for replicas in placed]
    assert sorted(leaders) == [0, 0, 0, 1, 1, 1, 2, 2, 2]


@pytest.mark.parametrize("seed", range(5))
def test_replicas_of_a_partition_are_in_different_racks(seed: int) -> None:
    cluster = brokers(*(broker(n, "abc"[n % 3]) for n in range(6)))
    placed = place_replicas(cluster, 12, 3, Random(seed))
    for replicas in placed:
        assert len({cluster[replica].rack for replica in replicas}) == 3
    leaders = [replicas[0] for replicas in placed]
    assert sorted(leaders.count(n) for n in range(6)) == [2] * 6


def test_too_few_brokers() -> None:
    with pytest.raises(KafkaError) as refused:
        place_replicas(brokers(broker(1)), 1, 2, Random(0))
    assert refused.value.code is ErrorCode.INVALID_REPLICATION_FACTOR


@pytest.mark.parametrize("seed", range(5))
def test_a_broker_in_controlled_shutdown_gets_no_replica(seed: int) -> None:
    stopping = replace(broker(1), in_controlled_shutdown=True)
    cluster = brokers(broker(0), stopping, broker(2, fenced=True))
    assert place_replicas(cluster, 4, 1, Random(seed)) == [[0]] * 4
    assert place_replicas(cluster, 1, 2, Random(seed)) == [[0, 2]]
    with pytest.raises(KafkaError) as refused:
        place_replicas(cluster, 1, 3, Random(seed))
    assert refused.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
