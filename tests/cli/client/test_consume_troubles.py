"""A consumer that cannot read says why on stderr, once for each cause, and goes on trying."""

import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tierlog.bench.harness.processes.tierlog_node import tierlog_command, user_environment
from tierlog.cli.client.consumer_troubles import PRINTED_AFTER_S, LastingTroubles
from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.testing import Broker
from tierlog.tests.cli.client.command_run import Tierlog

WITHIN_S = 120

STORAGE = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "t-0 cannot be read at offset 0.")
ANOTHER = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "t-1 cannot be read at offset 7.")
LEADERLESS = KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, "t-2 has no leader.")


def test_what_passes_soon_is_not_reported() -> None:
    lasting = LastingTroubles()
    assert lasting.due_messages([STORAGE], 100.0) == []
    assert lasting.due_messages([], 100.1) == []
    assert lasting.due_messages([STORAGE], 100.2) == []
    assert lasting.due_messages([STORAGE], 100.1 + PRINTED_AFTER_S) == []


def test_each_cause_is_reported_once_however_many_partitions_have_it() -> None:
    lasting = LastingTroubles()
    assert lasting.due_messages([STORAGE, ANOTHER], 0.0) == []
    assert lasting.due_messages([STORAGE, ANOTHER, LEADERLESS], PRINTED_AFTER_S) == [
        "t-0 cannot be read at offset 0 [KAFKA_STORAGE_ERROR] (and 1 other like it):"
        " its broker's log says why; still trying"
    ]
    assert lasting.due_messages([ANOTHER, LEADERLESS], 2 * PRINTED_AFTER_S) == [
        "t-2 has no leader [LEADER_NOT_AVAILABLE]; still trying"
    ]
    assert lasting.due_messages([ANOTHER, LEADERLESS], 9 * PRINTED_AFTER_S) == []


def send(broker: Broker, lines: bytes) -> None:
    command = tierlog_command("produce", "t", "-b", broker.bootstrap_servers)
    subprocess.run(command, input=lines, env=user_environment(), check=True, timeout=WITHIN_S)


@contextmanager
def consuming(broker: Broker, *words: str) -> Generator[subprocess.Popen[bytes]]:
    """`tierlog consume` as a process, which is killed at the end."""
    command = tierlog_command("consume", *words, "-b", broker.bootstrap_servers)
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, env=user_environment()) as process:
        try:
            yield process
        finally:
            process.kill()


def first_error(process: subprocess.Popen[bytes]) -> str:
    assert process.stderr is not None
    return process.stderr.readline().decode()


@pytest.mark.slow
@pytest.mark.parametrize("words", [(), ("-e",), ("-g", "readers")], ids=["follow", "end", "group"])
def test_a_disk_that_cannot_be_read_is_reported(words: tuple[str, ...]) -> None:
    with Broker() as broker:
        broker.create_topic("t")
        send(broker, b"one\n")
        fault = broker.faults.fail("Fetch", "KAFKA_STORAGE_ERROR")
        with consuming(broker, "t", *words) as process:
            assert first_error(process) == (
                "tierlog: t-0 cannot be read at offset 0 [KAFKA_STORAGE_ERROR]: its broker's log"
                " says why; still trying.\n"
            )
            fault.end()
            assert process.stdout is not None
            assert process.stdout.readline() == b"one\n"


@pytest.mark.slow
def test_a_broker_that_does_not_answer_is_reported() -> None:
    with Broker() as broker, broker.faults.silence("Fetch"):
        broker.create_topic("t")
        with consuming(broker, "t") as process:
            assert "does not answer a fetch [REQUEST_TIMED_OUT]" in first_error(process)


@pytest.mark.slow
def test_a_tier_that_is_gone_is_reported() -> None:
    with Broker(tier="memory") as broker:
        broker.create_topic("t")
        send(broker, b"one\n")
        broker.offload("t")
        with broker.faults.tier.outage(), consuming(broker, "t", "-e") as process:
            said = first_error(process)
    assert said.startswith("tierlog: t-0 ")
    assert said.endswith(": its broker's log says why; still trying.\n")


@pytest.mark.slow
def test_a_coordinator_that_is_not_there_is_reported() -> None:
    with Broker() as broker, broker.faults.fail("JoinGroup", "COORDINATOR_NOT_AVAILABLE"):
        broker.create_topic("t")
        with consuming(broker, "t", "-g", "readers", "-e") as process:
            assert "[COORDINATOR_NOT_AVAILABLE]; still trying" in first_error(process)


@pytest.mark.slow
def test_a_missing_read_right_is_reported_at_once() -> None:
    with Broker() as broker, broker.faults.fail("Fetch", "TOPIC_AUTHORIZATION_FAILED"):
        broker.create_topic("t")
        with consuming(broker, "t") as process:
            assert first_error(process) == "tierlog: Not authorized to access topic t.\n"
            assert process.wait(WITHIN_S) == 1


@pytest.mark.slow
def test_a_consumer_that_only_waits_says_nothing() -> None:
    with Broker() as broker:
        broker.create_topic("t")
        with consuming(broker, "t") as process:
            # As long as it takes to tell a trouble, in answers that have no records.
            broker.faults.delay("Fetch", 0.0).wait(times=15, timeout_s=WITHIN_S)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=WITHIN_S)
            assert (process.returncode, err) == (0, b"")


@pytest.mark.parametrize(
    ("place", "said", "printed"),
    [
        ("999999", "Offset 999999 is out of range in ranged-0, which ends at 2: ", ""),
        ("0", "Offset 0 is out of range in ranged-0, which begins at 1: ", "two\n"),
        ("999999:end", "Offset 999999 is out of range in ranged-0, which ends at 2: ", ""),
        ("2", "", ""),
        ("1", "", "two\n"),
        ("+9", "", ""),
        ("-9", "", "two\n"),
        ("1:99", "", "two\n"),
    ],
)
def test_an_offset_that_is_not_there_is_reported_with_what_is_read_instead(
    tierlog: Tierlog, place: str, said: str, printed: str
) -> None:
    tierlog.done("topic", "create", "ranged", "--if-not-exists", "-c", "retention.ms=-1")
    if not tierlog.done("consume", "ranged", "-e").out:
        tierlog.done("produce", "ranged", stdin=b"one\ntwo\n")
        tierlog.done("topic", "trim", "ranged", "-o", "1")
    answer = tierlog("consume", "ranged", "-o", place, "-e")
    expected = f"tierlog: {said}reading from there.\n" if said else ""
    assert (answer.code, answer.text, answer.err) == (0, printed, expected)


def test_an_offset_that_many_partitions_lack_is_reported_once(
    tierlog: Tierlog, tmp_path: Path
) -> None:
    tierlog.done("topic", "create", "many", "-p", "3")
    answer = tierlog("consume", "many", "-o", "5", "-e")
    assert answer.err == (
        "tierlog: Offset 5 is out of range in many-0, which ends at 0: reading from there, and so"
        " in 2 more partitions.\n"
    )
