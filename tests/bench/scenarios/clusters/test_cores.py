"""Which numbers of processes `tierlog-bench run cores` measures, and how partitions are spread."""

import pytest

from tierlog.bench.harness.targets.kafka import KafkaTarget
from tierlog.bench.harness.targets.tierlog import TierlogTarget
from tierlog.bench.scenario import Scale
from tierlog.bench.scenarios.clusters.cores import SCENARIO, Processes, process_counts


@pytest.mark.parametrize(
    ("cores", "counts"),
    [
        (1, [1, 2, 3]),
        (2, [1, 2, 3]),
        (4, [1, 2, 3, 4, 5]),
        (6, [1, 2, 3, 4, 6, 7]),
        (16, [1, 2, 3, 4, 8, 16, 17]),
        (64, [1, 2, 3, 4, 8, 16, 32, 64, 65]),
    ],
)
def test_the_numbers_of_processes_go_up_to_one_more_than_the_cores(
    cores: int, counts: list[int]
) -> None:
    assert process_counts(cores) == counts


@pytest.mark.parametrize("processes", [1, 2, 3, 4, 5, 7, 16])
def test_each_process_leads_as_many_partitions_as_a_single_one(processes: int) -> None:
    case = Processes("", processes=processes)
    assert case.partitions == processes * Processes("").partitions
    assert case.clients == max(2, processes)


def test_kafka_is_one_process_and_ours_are_all() -> None:
    cases = SCENARIO.cases(Scale.SMALL)
    ours, kafka = TierlogTarget(), KafkaTarget()
    assert [case.name for case in cases if SCENARIO.refuses(case, kafka) is None] == [
        "1 process, RF 1"
    ]
    assert all(SCENARIO.refuses(case, ours) is None for case in cases)
    assert {"1 process, RF 1", "2 processes, RF 1", "2 processes, RF 2"} < {
        case.name for case in cases
    }
