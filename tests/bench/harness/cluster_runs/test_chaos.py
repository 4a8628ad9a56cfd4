"""Three brokers lose nothing acknowledged, and copy exactly, while they are killed."""

from pathlib import Path

import pytest

from tierlog.bench.harness.cluster_runs.durability import run
from tierlog.bench.harness.cluster_runs.exactly_once import run_copies, run_histories
from tierlog.bench.harness.loads.acknowledged.producers import clients_here
from tierlog.bench.harness.loads.acknowledged.steady_producers import LIBRDKAFKA

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


def test_every_acknowledged_record_is_read_back_once_and_in_order(tmp_path: Path) -> None:
    done = run(tmp_path, "tierlog", clients_here(), seconds=24)
    assert done.ended_by_themselves == []
    assert {fault.name for fault in done.faults} & {"kill", "pause"}
    for acknowledged in done.acknowledged.values():
        assert acknowledged.records > 0
        assert acknowledged.failures == []


def test_a_copy_is_exact_however_often_a_broker_is_killed(tmp_path: Path) -> None:
    copies = run_copies(tmp_path, "tierlog", [LIBRDKAFKA], kills=2)
    assert copies.records[LIBRDKAFKA] > 0


def test_a_history_under_faults_shows_only_what_kafka_allows(tmp_path: Path) -> None:
    histories = run_histories(tmp_path, "tierlog", histories=1, acts=500)
    assert len(histories.judged) == 1
