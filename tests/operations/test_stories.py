"""The stories of docs/operations.md, told with three processes: the commands of a section in order.

What the page says that an operator sees is checked where it can be seen; and nothing that was
acknowledged may be lost but what the page says is lost.
"""

import json
from pathlib import Path

import pytest

from tierlog.bench.harness.processes.live_files import live_paths
from tierlog.tests.scenarios.object_store import BUCKET, ObjectStore
from tierlog.tests.scenarios.plain_io import produce, read, value_of
from tierlog.tests.waiting import wait_until

from .operated_cluster import NODES, TIERED, TOPIC, WITHIN_S, OperatedCluster, operated
from .page import blocks, commands, log_lines

RECORDS = 500
MANY = 4_000
"""Some segments."""


def write(cluster: OperatedCluster, first: int = 0, count: int = RECORDS) -> None:
    values = map(value_of, range(first, first + count))
    assert not produce(cluster.cluster.bootstrap, TOPIC, values, timeout_ms=60_000).refused


def check(cluster: OperatedCluster, count: int, start: int = 0) -> None:
    """Everything from an offset on is there, each record at its offset."""
    expected = [(at, value_of(at)) for at in range(start, count)]
    records = read(cluster.cluster.bootstrap, TOPIC, count - start, start=start, timeout_s=WITHIN_S)
    assert records == expected


@pytest.mark.slow
def test_a_broker_dies(tmp_path: Path) -> None:
    kill, restart = commands("A broker dies")
    with operated(tmp_path) as cluster:
        cluster.create_topic()
        write(cluster)
        cluster.run_all(kill)
        hint, fenced = log_lines("A broker dies")
        cluster.wait_for_log((1, 3), fenced)
        hints = (hint, "The process of controller and broker 2 has ended")
        assert any(each in cluster.log(node_id) for each in hints for node_id in (1, 3))
        write(cluster, RECORDS)
        others = (1, 3)
        assert sum(cluster.metric(each, "UnderReplicatedPartitions") for each in others) > 0
        cluster.run_all(restart[:2])
        # As `--under-replicated-partitions`, which the other stories run.
        wait_until(
            lambda: not sum(cluster.metric(each, "UnderReplicatedPartitions") for each in NODES),
            WITHIN_S,
            cluster.cluster.log_tails,
        )
        assert sum(cluster.metric(each, "LeaderCount") for each in NODES) >= 1
        check(cluster, 2 * RECORDS)


@pytest.mark.long
@pytest.mark.requires("java", "mvn")
def test_all_is_well_and_every_node_is_restarted(tmp_path: Path) -> None:
    (look,) = commands("Is all well?")
    one, leaders = commands("Restart and upgrade")
    with operated(tmp_path) as cluster:
        cluster.create_topic(TIERED)
        write(cluster, count=MANY)
        wait_until(
            lambda: len(list(live_paths(tmp_path / "tier", "**/*.log"))) >= 2, WITHIN_S, "no copy"
        )
        ready, unavailable, under_min, under_replicated, status, verify = look
        assert cluster.run(ready).strip() == "ready"
        for line in (unavailable, under_min, under_replicated):
            cluster.until_empty(line)
        assert "LeaderId" in cluster.run(status)
        cluster.run(verify)
        for node_id in NODES:
            stop, *back = [line.replace("node1", f"node{node_id}") for line in one]
            cluster.run(stop)
            for line in log_lines("Restart and upgrade"):
                assert line in cluster.log(node_id)
            write(cluster, MANY + (node_id - 1) * RECORDS)
            cluster.run_all(back[:1])
            assert "ready" in cluster.run(back[1].replace("9404", str(9304 + 100 * node_id)))
            cluster.until_empty(back[2])
        cluster.run_all(leaders)
        check(cluster, MANY + 3 * RECORDS)


@pytest.mark.long
@pytest.mark.requires("java", "mvn")
def test_a_disk_is_lost(tmp_path: Path) -> None:
    (replace,) = commands("A disk is lost")
    with operated(tmp_path) as cluster:
        cluster.create_topic()
        write(cluster)
        cluster.lose_the_disk(3)
        write(cluster, RECORDS)
        cluster.run_all(replace[:-1])
        cluster.until_empty(replace[-1])
        # The new replica has everything: the others may go.
        cluster.run("systemctl stop tierlog@node1")
        check(cluster, 2 * RECORDS)


@pytest.mark.long
def test_a_majority_is_lost_and_comes_back(tmp_path: Path) -> None:
    back, _, _ = commands("A majority is lost")
    (waits,) = log_lines("A majority is lost")
    with operated(tmp_path) as cluster:
        cluster.create_topic()
        write(cluster)
        for node_id in (1, 2):
            cluster.run(f"systemctl kill --signal SIGKILL tierlog@node{node_id}")
        cluster.wait_for_log((3,), waits)
        assert cluster.run("curl http://127.0.0.1:9604/ready").startswith("503")
        cluster.run_all(back)
        write(cluster, RECORDS)
        check(cluster, 2 * RECORDS)


@pytest.mark.long
@pytest.mark.requires("java", "mvn")
def test_a_majority_is_lost_with_its_disks(tmp_path: Path) -> None:
    _, again, give_up = commands("A majority is lost")
    (waits,) = log_lines("A majority is lost")
    with operated(tmp_path) as cluster:
        cluster.create_topic()
        write(cluster)
        cluster.cluster.wait_until_caught_up()
        cluster.lose_the_disk(1, 2)
        # Before, a clean stop of the third would leave its replicas to the two that are dead.
        cluster.wait_for_log((3,), waits)
        cluster.run_all(again[:-1])
        cluster.run("curl --retry 60 http://127.0.0.1:9404/ready")
        cluster.until_empty(again[-1])
        cluster.run_all(give_up)
        write(cluster, RECORDS)
        check(cluster, 2 * RECORDS)


@pytest.mark.long
@pytest.mark.requires("java", "mvn")
def test_every_node_is_lost_and_the_cluster_comes_back_from_its_tier(tmp_path: Path) -> None:
    (verify,), (plan, *rebuild), spread = commands("Backup and restore")
    with operated(tmp_path) as cluster:
        cluster.create_topic(TIERED)
        write(cluster, count=MANY)

        def copied() -> float:
            return sum(cluster.metric(each, "RemoteCopyLagSegments") for each in NODES)

        wait_until(
            lambda: len(list(live_paths(tmp_path / "tier", "**/*.log"))) >= 3, WITHIN_S, "no copy"
        )
        wait_until(lambda: copied() == 0, WITHIN_S, "the copies lag")
        cluster.run(verify)
        cluster.lose_the_disk(*NODES)
        assert "dry run" in cluster.run(plan)
        cluster.run_all(rebuild[:-1])
        cluster.run("curl --retry 60 http://127.0.0.1:9404/ready")
        cluster.until_empty(rebuild[-1])
        _three_replicas(cluster)
        cluster.run(spread[0])
        wait_until(
            lambda: "still in progress" not in cluster.run(spread[1]),
            WITHIN_S,
            lambda: cluster.run(spread[1]),
        )
        cluster.until_empty(spread[2])
        restored = cluster.end()
        assert restored >= MANY // 2
        check(cluster, restored)
        write(cluster, restored)
        # Each node has it all: the one that was rebuilt may go.
        cluster.run("systemctl stop tierlog@node1")
        check(cluster, restored + RECORDS)


def _three_replicas(cluster: OperatedCluster) -> None:
    """The file of the page, with a line for every partition."""
    (block,) = blocks("Backup and restore", "json")
    (shape,) = json.loads(block.text)["partitions"]
    partitions = [
        {**shape, "topic": topic, "partition": at} for topic, at in cluster.every_partition()
    ]
    path = cluster.directory / "three-replicas.json"
    path.write_text(json.dumps({"version": 1, "partitions": partitions}))


@pytest.mark.long
@pytest.mark.requires("java", "mvn")
def test_the_bucket_is_lost(tmp_path: Path) -> None:
    (verify,), give_up = commands("The bucket is lost")
    store = ObjectStore(tmp_path)
    store.start()
    with store, operated(tmp_path, store.properties) as cluster:
        cluster.create_topic(TIERED)
        write(cluster, count=MANY)
        wait_until(lambda: len(_segments(store)) >= 3, WITHIN_S, "no copy")
        lost = set(_segments(store))
        store.stop()
        write(cluster, MANY, MANY)
        errors = [
            lambda: sum(cluster.metric(each, "RemoteCopyErrorsPerSec", "Count") for each in NODES),
            lambda: sum(cluster.metric(each, "RemoteCopyLagSegments") for each in NODES),
        ]
        for each in errors:
            wait_until(lambda each=each: each() > 0, WITHIN_S, cluster.cluster.log_tails)  # type: ignore[misc]  # bound now
        store.start()
        # Those that were not copied yet may be there at once.
        assert not lost.intersection(_segments(store))
        cluster.run(verify, expected_code=1)
        first = int(cluster.run(give_up[0]).strip().rpartition(":")[2])
        assert 0 < first < 2 * MANY
        (block,) = blocks("The bucket is lost", "json")
        stated = block.text.replace("5000", str(first))
        (cluster.directory / "first-on-disk.json").write_text(stated)
        cluster.run_all(give_up[1:])
        write(cluster, 2 * MANY, MANY)
        wait_until(lambda: len(_segments(store)) >= 2, WITHIN_S, cluster.cluster.log_tails)
        check(cluster, 3 * MANY, start=first)


def _segments(store: ObjectStore) -> list[str]:
    return [each for each in store.bucket().find(BUCKET) if each.endswith(".log")]
