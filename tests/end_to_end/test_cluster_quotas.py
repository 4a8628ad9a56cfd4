"""Quotas of clients in a cluster of several processes."""

from itertools import count
from pathlib import Path

import pytest

from tierlog.bench.harness.processes.cluster import Cluster, combined, separate
from tierlog.bench.harness.requests.wire import Wire
from tierlog.clients.errors import ErrorCode
from tierlog.clients.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    OpData,
)
from tierlog.clients.protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

from ..waiting import wait_until

pytestmark = pytest.mark.slow

SEATS = {
    "combined": combined("tierlog", "tierlog", "tierlog"),
    "separate": separate(["tierlog"], ["tierlog"]),
}


def set_default(wire: Wire, key: str, rate: float) -> None:
    """Give every client id without a quota of its own this one."""
    entry = EntryData(
        entity=[EntityData(entity_type="client-id", entity_name=None)],
        ops=[OpData(key=key, value=rate)],
    )
    request = AlterClientQuotasRequest(entries=[entry])
    assert wire.ask(request, 1, AlterClientQuotasResponse).entries[0].error_code == 0


def create(wire: Wire, name: str) -> tuple[int, int]:
    """Create a topic of ten partitions; its error, and how long to wait."""
    topic = CreatableTopic(name=name, num_partitions=10, replication_factor=1)
    answer = wire.ask(CreateTopicsRequest(topics=[topic]), 7, CreateTopicsResponse)
    return answer.topics[0].error_code, answer.throttle_time_ms


@pytest.mark.parametrize("kind", SEATS)
def test_the_quotas_of_clients_do_not_hold_up_the_quorum(tmp_path: Path, kind: str) -> None:
    with Cluster(tmp_path, SEATS[kind]) as cluster:
        lead = cluster.wait_for_leader()
        with Wire(cluster.brokers[-1].bootstrap) as wire:
            for key in ("consumer_byte_rate", "request_percentage"):
                set_default(wire, key, 1.0)
        described = cluster.nodes[lead.node_id].quorum()
        assert described is not None
        end = described.high_watermark

        def goes_on() -> bool:
            now = cluster.nodes[lead.node_id].quorum()
            return now is not None and now.high_watermark > end + 12

        wait_until(goes_on, 60, cluster.log_tails)
        assert cluster.wait_for_leader() == lead


@pytest.mark.parametrize("kind", SEATS)
def test_what_a_broker_forwards_counts_against_the_clients_quota(tmp_path: Path, kind: str) -> None:
    with Cluster(tmp_path, SEATS[kind]) as cluster:
        lead = cluster.wait_for_leader()
        broker = next(node for node in cluster.brokers if node.node_id != lead.node_id)
        with Wire(broker.bootstrap) as wire:
            set_default(wire, "controller_mutation_rate", 1.0)
            assert create(wire, "topic") == (ErrorCode.NONE, 0)
            numbers = count()

            def is_refused() -> bool:
                error, wait_ms = create(wire, f"topic-{next(numbers)}")
                return error == ErrorCode.THROTTLING_QUOTA_EXCEEDED and wait_ms > 0

            # The quota comes to the controller first, and mutes the client from then on.
            wait_until(is_refused, 60, lambda: "a refusal")
