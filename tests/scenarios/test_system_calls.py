"""What a broker's process asks of its file system, seen by strace: no promise before its fsync."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.clients.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tierlog.clients.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from tierlog.tests.broker_process import BrokerProcess, RawClient
from tierlog.tests.scenarios.test_few_descriptors import produce

CALLS = "fsync,fdatasync,rename,mkdir,unlink,pwrite64,sendto"
_CALL = re.compile(r"^(\d+) +(\w+)\((.*?)(?:\) += (-?\d+).*| <unfinished \.\.\.>)$")
_RESUMED = re.compile(r"^(\d+) +<\.\.\. (\w+) resumed>.*\) += (-?\d+)")
_OPEN_PATH = re.compile(r"^\d+<([^>]*)>")
_WORDS = re.compile(r'"((?:[^"\\]|\\.)*)"')


class Call(NamedTuple):
    """One system call, at the time of its return: its name, its file, and the answer."""

    name: str
    path: str
    target: str
    result: int


def calls_in(trace: Path) -> list[Call]:
    """Every call that succeeded. One that writes or sends counts from its begin."""
    calls: list[Call] = []
    begun: dict[str, tuple[str, str]] = {}
    for line in trace.read_text(errors="replace").splitlines():
        resumed = _RESUMED.match(line)
        if resumed is not None:
            process, name, result = resumed.groups()
            arguments = begun.pop(process, (name, ""))[1]
        else:
            call = _CALL.match(line)
            if call is None:
                continue
            process, name, arguments, result = call.groups()
            if result is None:
                begun[process] = (name, arguments)
                continue
        if int(result) >= 0:
            calls.append(_call(name, arguments, int(result)))
    return calls


def _call(name: str, arguments: str, result: int) -> Call:
    path = _OPEN_PATH.match(arguments)
    if path is not None:
        return Call(name, path[1], "", result)
    words = [*_WORDS.findall(arguments), "", ""]
    return Call(name, words[0], words[1], result)


def first(calls: Sequence[Call], name: str, path: str, start: int = 0) -> int:
    """The place of the first such call from `start` on; `path` is the end of its path."""
    for place in range(start, len(calls)):
        each = calls[place]
        if each.name == name and path in (each.path[-len(path) :], each.target[-len(path) :]):
            return place
    raise AssertionError(f"there is no {name} of {path} after call {start}")


def first_answer(calls: Sequence[Call], start: int) -> int:
    """Where the next bytes go to a client; one byte only wakes the loop."""
    return next(
        place
        for place in range(start, len(calls))
        if calls[place].name == "sendto" and calls[place].result > 1
    )


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> list[Call]:
    """A short life: a topic made, written with flush.messages=1 and deleted; a clean stop."""
    directory = tmp_path_factory.mktemp("traced")
    trace = directory / "trace"
    # With -D the broker is this process's child, and hears its signals.
    strace = ("strace", "-D", "-f", "-qq", "-y", "-s", "200", "-e", f"trace={CALLS}", "-o")
    properties = {"remote.log.storage.system.enable": "false"}
    with (
        BrokerProcess.on(directory, properties, (*strace, str(trace))) as broker,
        RawClient(broker.port, 60) as client,
    ):
        topic = CreatableTopic(
            name="durable",
            num_partitions=1,
            replication_factor=1,
            assignments=[],
            configs=[CreatableTopicConfig(name="flush.messages", value="1")],
        )
        made = CreateTopicsRequest(topics=[topic], timeout_ms=30_000, validate_only=False)
        assert client.ask(made, 7, CreateTopicsResponse).topics[0].error_code == ErrorCode.NONE
        assert produce(client, "durable", 0) == ErrorCode.NONE
        gone = DeleteTopicsRequest(topics=[DeleteTopicState(name="durable")], timeout_ms=30_000)
        assert client.ask(gone, 6, DeleteTopicsResponse).responses[0].error_code == 0
        assert broker.stop() == 0
    return calls_in(trace)


@pytest.mark.requires("strace")
@pytest.mark.parametrize(
    "name",
    [
        "meta.properties",
        "quorum-state",
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
        "log-start-offset-checkpoint",
        ".kafka_cleanshutdown",
    ],
)
def test_a_file_that_is_replaced_is_synced_before_and_its_name_after(
    calls: list[Call], name: str
) -> None:
    renamed = first(calls, "rename", f"/{name}")
    temporary, folder = calls[renamed].path, calls[renamed].target.rpartition("/")[0]
    written = first(calls, "pwrite64", temporary)
    synced = first(calls, "fdatasync", temporary, written)
    assert written < synced < renamed
    assert calls[first(calls, "fsync", folder, renamed)].path == folder


@pytest.mark.requires("strace")
def test_the_vote_is_on_the_disk_before_the_first_record_of_its_epoch(calls: list[Call]) -> None:
    renamed = first(calls, "rename", "/quorum-state")
    named = first(calls, "fsync", "/__cluster_metadata-0", renamed)
    assert renamed < named < first(calls, "pwrite64", "/__cluster_metadata-0/" + "0" * 20 + ".log")


@pytest.mark.requires("strace")
def test_an_answer_of_the_controller_comes_after_the_fsync_of_its_records(
    calls: list[Call],
) -> None:
    made = first(calls, "mkdir", "/durable-0")
    written = max(
        place
        for place in range(made)
        if calls[place].name == "pwrite64" and "/__cluster_metadata-0/" in calls[place].path
    )
    synced = first(calls, "fdatasync", calls[written].path, written)
    assert written < synced < made < first_answer(calls, written)


@pytest.mark.requires("strace")
def test_a_record_is_acknowledged_after_its_log_and_the_names_of_it_are_on_the_disk(
    calls: list[Call],
) -> None:
    log = "/durable-0/" + "0" * 20 + ".log"
    written = first(calls, "pwrite64", log)
    answered = first_answer(calls, written)
    folder = calls[written].path.rpartition("/")[0]
    for name, path in (
        ("fdatasync", log),
        ("fdatasync", "/durable-0/partition.metadata"),
        ("fsync", folder),
        ("fsync", folder.rpartition("/")[0]),
    ):
        assert written < first(calls, name, path, written) < answered, f"{name} of {path}"


@pytest.mark.requires("strace")
def test_a_deleted_log_has_its_new_name_on_the_disk_before_a_file_of_it_goes(
    calls: list[Call],
) -> None:
    renamed = first(calls, "rename", "-delete")
    folder = calls[renamed].target.rpartition("/")[0]
    named = first(calls, "fsync", folder, renamed)
    removed = [
        place
        for place, each in enumerate(calls)
        if each.name == "unlink" and each.path.startswith(calls[renamed].target)
    ]
    assert all(named < place for place in removed)
