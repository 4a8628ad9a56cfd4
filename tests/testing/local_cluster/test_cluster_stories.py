"""`tierlog cluster` and `tierlog.testing` with real processes, as a developer uses them."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient

from tierlog.bench.harness.processes.live_files import live_paths
from tierlog.bench.harness.processes.tierlog_node import tierlog_command, user_environment
from tierlog.clients.admin import Admin, NewTopic
from tierlog.testing import AsyncCluster, Cluster, ClusterError
from tierlog.tests.testing.local_cluster.cluster_terminal import ClusterTerminal, is_there
from tierlog.tests.waiting import wait_until

pytestmark = pytest.mark.slow

WITHIN_S = 120.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    # Few partitions of offsets: their creation is a second of each group's first test.
    with Cluster(properties={"offsets.topic.num.partitions": "3"}) as cluster:
        yield cluster


def produce(bootstrap: str, topic: str, values: list[str]) -> None:
    """Produce values, each acknowledged by all replicas in sync."""
    failures: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(WITHIN_S) == 0
    assert set(failures) == {None}


def consume(bootstrap: str, topic: str, count: int) -> list[str]:
    """The first values of a topic, through a consumer group."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"{topic}-readers",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    values: list[str] = []

    def has_all() -> bool:
        for message in consumer.consume(count, 0.1):
            assert message.error() is None
            values.append((message.value() or b"").decode())
        return len(values) >= count

    try:
        wait_until(has_all, WITHIN_S, lambda: f"{len(values)} of {count} values of {topic}")
    finally:
        consumer.close()
    return values


async def create(bootstrap: str, topic: NewTopic) -> None:
    async with Admin(bootstrap) as admin:
        await admin.create_topics([topic])


def test_three_brokers_serve_a_client_each(cluster: Cluster) -> None:
    addresses = cluster.bootstrap_servers.split(",")
    assert len(addresses) == 3
    for at, address in enumerate(addresses):
        produce(address, f"through-{at}", ["hello"])
    for at, address in enumerate(addresses):
        assert consume(address, f"through-{2 - at}", 1) == ["hello"]


def test_a_topic_has_three_replicas_of_which_two_must_be_in_sync(cluster: Cluster) -> None:
    produce(cluster.bootstrap_servers, "defaults", ["a"])
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    (partition,) = admin.list_topics("defaults").topics["defaults"].partitions.values()
    assert sorted(partition.replicas) == [1, 2, 3]


def test_a_broker_crashes_and_is_there_again(cluster: Cluster) -> None:
    produce(cluster.bootstrap_servers, "crash", ["before"])
    # Of the active controller, the next one has no connection whose end it could hear.
    crashed = next(each.node_id for each in cluster.status().nodes if not each.is_active_controller)
    cluster.kill(crashed)
    stopped = cluster.status().node(crashed)
    assert (stopped.state, stopped.pid, stopped.exit_code) == ("stopped", None, -signal.SIGKILL)
    produce(cluster.bootstrap_servers, "crash", ["during"])
    cluster.start(crashed)
    assert cluster.status().node(crashed).state == "running"
    assert consume(cluster.bootstrap_servers, "crash", 2) == ["before", "during"]


def test_a_broker_is_paused_and_goes_on(cluster: Cluster) -> None:
    cluster.pause(3)
    status = cluster.status()
    assert status.node(3).state == "paused"
    assert not status.is_in_sync
    with pytest.raises(ClusterError, match="broker-3 is paused, not running"):
        cluster.pause(3)
    cluster.resume(3)
    wait_until(lambda: cluster.status().is_in_sync, WITHIN_S, "all in sync")


def test_what_there_is_not_is_a_sentence(cluster: Cluster) -> None:
    with pytest.raises(ClusterError, match="There is no node 9: the nodes are broker-1, broker-2"):
        cluster.kill(9)
    with pytest.raises(ClusterError, match="broker-1 is running, not paused"):
        cluster.resume(1)
    with pytest.raises(ClusterError, match="broker-1 cannot leave: it is a controller"):
        cluster.remove(1)


def verb(cluster: Cluster, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command as in another terminal."""
    return subprocess.run(
        tierlog_command("cluster", *words, "--dir", cluster.directory),
        capture_output=True,
        text=True,
        env=user_environment(),
        timeout=WITHIN_S,
        check=False,
    )


def test_another_terminal_sees_the_cluster(cluster: Cluster) -> None:
    wait_until(lambda: cluster.status().is_in_sync, WITHIN_S, "all in sync")
    answered = verb(cluster, "status", "--json")
    assert answered.returncode == 0, answered.stderr
    status = json.loads(answered.stdout)
    assert status["bootstrap_servers"] == cluster.bootstrap_servers
    assert [node["state"] for node in status["nodes"]] == ["running"] * 3
    assert [node["is_active_controller"] for node in status["nodes"]].count(True) == 1
    assert all(node["replicas"] == node["in_sync"] for node in status["nodes"])
    assert all(is_there(node["pid"]) for node in status["nodes"])
    table = verb(cluster, "status").stdout
    assert "broker-2  running" in table
    refused = verb(cluster, "kill", "9")
    assert refused.returncode == 1
    assert refused.stderr.startswith("tierlog cluster: There is no node 9")


def test_no_cluster_is_a_sentence(tmp_path: Path) -> None:
    for directory in (tmp_path, tmp_path / "absent"):
        answered = subprocess.run(
            tierlog_command("cluster", "status", "--dir", str(directory)),
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
            check=False,
        )
        assert answered.returncode == 2
        assert "`tierlog cluster up` starts one" in answered.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--brokers", "0"], "has 1 to 50 brokers"),
        (["--override", "node.id=3"], "node.id cannot be set"),
        (["--override", "nonsense"], "is not of the form name=value"),
        (["--properties", "/nowhere"], "The file /nowhere cannot be read"),
        (["--dir", "/tmp/a,b"], "commas separate paths"),
    ],
)
def test_bad_arguments_are_a_sentence(tmp_path: Path, words: list[str], sentence: str) -> None:
    answered = subprocess.run(
        tierlog_command("cluster", "up", "--dir", str(tmp_path / "c"), *words),
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert answered.returncode == 2
    assert sentence in answered.stderr
    assert "Traceback" not in answered.stderr


def test_a_terminal_from_the_ready_line_to_ctrl_c(tmp_path: Path) -> None:
    """One node is enough for what does not depend on their number."""
    with ClusterTerminal(tmp_path / "c", "--brokers", "1") as terminal:
        bootstrap = terminal.wait_until_ready()
        produce(bootstrap, "kept", ["a"])
        assert any(line.startswith("broker-1 | ") for line in terminal.lines)
        (pid,) = terminal.node_pids()
        assert terminal.interrupt() == 0
        assert not is_there(pid)
        assert "\x1b[" not in "".join(terminal.lines)


def test_no_node_outlives_the_process_of_a_test(tmp_path: Path) -> None:
    """It dies as by SIGKILL, so that no code of its own can stop them."""
    script = (
        "import os, signal\n"
        "from tierlog.testing import Cluster\n"
        "cluster = Cluster(brokers=1)\n"
        "cluster.up()\n"
        "status = cluster.status()\n"
        "print(status.pid, status.nodes[0].pid, status.directory, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    answered = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert answered.returncode == -signal.SIGKILL, answered.stderr
    own, node, directory = answered.stdout.split()
    wait_until(lambda: not is_there(int(own)), WITHIN_S, "the cluster's process has ended")
    assert not is_there(int(node))
    assert not Path(directory).exists()


def is_for_the_user_only(directory: str, name: str) -> bool:
    return Path(directory, name).stat().st_mode & 0o077 == 0


def test_an_asynchronous_test_has_the_same_acts() -> None:
    async def story() -> str:
        async with AsyncCluster(brokers=1) as cluster:
            assert (await cluster.status()).node(1).state == "running"
            # What a user states may be a password.
            for name in ("cluster.json", "broker-1.properties"):
                assert is_for_the_user_only(cluster.directory, name)
            await cluster.terminate(1)
            assert (await cluster.status()).node(1).exit_code == 0
            with pytest.raises(ClusterError, match="one process that accepts no other"):
                await cluster.add()
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(cluster.start(1), 0.01)
            # Nobody waits for the answer to the start; it is not the answer to the next act.
            with pytest.raises(ClusterError, match="There is no node 7"):
                await cluster.pause(7)
            async with Admin(cluster.bootstrap_servers) as admin:
                await admin.create_topics([NewTopic("t")])
            return cluster.directory

    assert not Path(asyncio.run(story())).exists()


def test_no_command_line_shows_the_properties(cluster: Cluster) -> None:
    nodes = [node.pid for node in cluster.status().nodes if node.pid is not None]
    supervisor = int(Path(f"/proc/{nodes[0]}/stat").read_text().rpartition(")")[2].split()[1])
    for pid in (supervisor, *nodes):
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
        assert b"tierlog" in words
        assert b"offsets.topic" not in words


def test_a_cluster_that_does_not_start_says_why() -> None:
    with pytest.raises(ClusterError, match="broker-1 has ended with exit code 1 before it was"):
        Cluster(brokers=1, properties={"log.segment.bytes": "lots"}).up()


@pytest.mark.long
def test_the_same_directory_is_the_same_cluster(tmp_path: Path) -> None:
    with ClusterTerminal(tmp_path / "c") as terminal:
        bootstrap = terminal.wait_until_ready()
        produce(bootstrap, "kept", ["a", "b"])
        assert terminal.interrupt() == 0
    with ClusterTerminal(tmp_path / "c") as terminal:
        assert terminal.wait_until_ready() == bootstrap
        assert consume(bootstrap, "kept", 2) == ["a", "b"]
        second = subprocess.run(
            tierlog_command("cluster", "up", "--dir", str(tmp_path / "c")),
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
            check=False,
        )
        assert second.returncode == 1
        assert "runs in" in second.stderr
        assert terminal.interrupt() == 0
    other = subprocess.run(
        tierlog_command("cluster", "up", "--dir", str(tmp_path / "c"), "--brokers", "5"),
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert other.returncode == 2
    assert "has a cluster of 3 brokers" in other.stderr


@pytest.mark.long
def test_controllers_of_their_own_and_racks() -> None:
    with Cluster(brokers=2, controllers=1, racks=["a", "b"]) as cluster:
        status = cluster.status()
        assert [(node.name, node.rack) for node in status.nodes] == [
            ("broker-1", "a"),
            ("broker-2", "b"),
            ("controller-101", ""),
        ]
        assert status.active_controller == 101
        produce(cluster.bootstrap_servers, "t", ["a"])
        with pytest.raises(ClusterError, match="t-0 has 2 replicas, and no other broker is free"):
            cluster.remove(1)
        assert cluster.add("c") == 3
        cluster.remove(1)
        cluster.terminate(101)
        cluster.start(101)
        cluster.roll()
        assert consume(cluster.bootstrap_servers, "t", 1) == ["a"]


@pytest.mark.long
def test_closed_segments_go_to_the_tier_of_the_directory() -> None:
    with Cluster() as cluster:
        tiered = {"remote.storage.enable": "true", "segment.bytes": "1048576"}
        asyncio.run(create(cluster.bootstrap_servers, NewTopic("t", 1, 3, tiered)))
        produce(cluster.bootstrap_servers, "t", ["x" * 100_000] * 30)
        remote = Path(cluster.directory) / "remote"
        wait_until(
            lambda: any(live_paths(remote, "**/*.log")), WITHIN_S, "a segment is in the tier"
        )


@pytest.mark.long
def test_a_reader_that_leaves_ends_the_cluster(tmp_path: Path) -> None:
    with ClusterTerminal(tmp_path / "c", "--brokers", "1") as terminal:
        terminal.wait_until_ready()
        (pid,) = terminal.node_pids()
        terminal.leave()
        # Its next line is that of an end.
        os.kill(pid, signal.SIGTERM)
        assert terminal.process.wait(WITHIN_S) == 0
        assert not is_there(pid)


@pytest.mark.long
def test_a_port_that_somebody_else_has_now_is_replaced(tmp_path: Path) -> None:
    with ClusterTerminal(tmp_path / "c") as terminal:
        before = terminal.wait_until_ready().split(",")
        produce(",".join(before), "kept", ["a"])
        terminal.interrupt()
    port = int(before[1].rpartition(":")[2])
    with socket.create_server(("127.0.0.1", port)):
        with ClusterTerminal(tmp_path / "c") as terminal:
            after = terminal.wait_until_ready().split(",")
            assert [a == b for a, b in zip(before, after, strict=True)] == [True, False, True]
            assert any(f"Port {port} of broker-2 belongs" in line for line in terminal.lines)
            assert consume(",".join(after), "kept", 1) == ["a"]
            terminal.interrupt()


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP])
def test_no_node_outlives_its_cluster(tmp_path: Path, number: int) -> None:
    with ClusterTerminal(tmp_path / "c") as terminal:
        terminal.wait_until_ready()
        pids = terminal.node_pids()
        assert len(pids) == 3
        os.kill(pids[0], signal.SIGSTOP)
        terminal.process.send_signal(number)
        wait_until(lambda: not any(map(is_there, pids)), WITHIN_S, "all nodes have ended")


@pytest.mark.long
def test_the_second_ctrl_c_kills(tmp_path: Path) -> None:
    with ClusterTerminal(tmp_path / "c") as terminal:
        terminal.wait_until_ready()
        pids = terminal.node_pids()
        # These two can neither stop nor let the third do so.
        for pid in pids[:2]:
            os.kill(pid, signal.SIGSTOP)
        terminal.process.send_signal(signal.SIGINT)
        wait_until(
            lambda: any("Ctrl-C once more" in line for line in terminal.lines), WITHIN_S, "stopping"
        )
        assert terminal.interrupt() in (0, 130)
        assert not any(map(is_there, pids))


@pytest.mark.long
def test_a_broker_joins_and_leaves(tmp_path: Path) -> None:
    with Cluster(properties={"num.partitions": "6"}) as cluster:
        produce(cluster.bootstrap_servers, "old", ["a"])
        assert cluster.add() == 4
        assert len(cluster.bootstrap_servers.split(",")) == 4
        asyncio.run(create(cluster.bootstrap_servers, NewTopic("new", 8, 2)))
        values = [str(each) for each in range(100)]
        produce(cluster.bootstrap_servers, "new", values)
        wait_until(lambda: bool(cluster.status().node(4).replicas), WITHIN_S, "it has replicas")
        cluster.remove(4)
        assert [node.node_id for node in cluster.status().nodes] == [1, 2, 3]
        assert cluster.status().is_in_sync
        assert sorted(consume(cluster.bootstrap_servers, "new", 100)) == sorted(values)
        assert cluster.add() == 5


@pytest.mark.long
def test_a_rolling_restart_under_load_loses_nothing() -> None:
    with Cluster(properties={"num.partitions": "3"}) as cluster:
        acknowledged: list[str] = []
        failures: list[str] = []
        pids = {node.pid for node in cluster.status().nodes}
        with ThreadPoolExecutor(1) as threads:
            rolled = threads.submit(cluster.roll)
            producer = Producer(
                {"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True}
            )

            def on_delivery(error: KafkaError | None, message: Message) -> None:
                value = (message.value() or b"").decode()
                (failures if error else acknowledged).append(value)

            at = 0
            while not rolled.done():
                producer.produce("load", str(at), on_delivery=on_delivery)
                at += 1
                producer.poll(0.01)
            rolled.result()
            assert producer.flush(WITHIN_S) == 0
        assert failures == []
        assert not pids & {node.pid for node in cluster.status().nodes}
        read = consume(cluster.bootstrap_servers, "load", len(acknowledged))
        assert sorted(read) == sorted(acknowledged)
