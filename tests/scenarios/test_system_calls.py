"""What a broker's process asks of its file system, seen by strace: no promise before its fsync."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.tests import wire
from tierlog.tests.broker_process import BrokerProcess, RawClient
from tierlog.tests.storage.log_home import plain
from tierlog.tests.waiting import wait_until

CALLS = "fsync,fdatasync,rename,mkdir,unlink,pwrite64,sendto"
FIRST_SEGMENT = "0" * 20
METADATA_LOG = f"/__remote_log_metadata-0/{FIRST_SEGMENT}.log"
TIERED = {
    "remote.storage.enable": "true",
    "segment.bytes": "1048576",
    "local.retention.bytes": "1",
    "file.delete.delay.ms": "100",
}
TIER_PROPERTIES = {
    "log.retention.check.interval.ms": "200",
    "log.initial.task.delay.ms": "50",
    "remote.log.manager.task.interval.ms": "100",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
}
SYNCS = frozenset({"fsync", "fdatasync"})
_CALL = re.compile(r"^(\d+) +(\w+)\((.*?)(?:\) += (-?\d+).*| <unfinished \.\.\.>)$")
_RESUMED = re.compile(r"^(\d+) +<\.\.\. (\w+) resumed>.*\) += (-?\d+)")
_OPEN_PATH = re.compile(r"^\d+<([^>]*)>")
_WORDS = re.compile(r'"((?:[^"\\]|\\.)*)"')


class Call(NamedTuple):
    """One system call that succeeded: whose, its name, its file, and the answer."""

    thread: str
    name: str
    path: str
    target: str
    result: int


def calls_in(trace: Path) -> list[Call]:
    """Every call that succeeded: a sync when it returns, all others when they begin."""
    calls: list[Call | None] = []
    begun: dict[str, tuple[int, str]] = {}
    for line in trace.read_text(errors="replace").splitlines():
        resumed = _RESUMED.match(line)
        if resumed is not None:
            process, name, result = resumed.groups()
            place, arguments = begun.pop(process)
            if name in SYNCS:
                place = len(calls)
                calls.append(None)
        else:
            call = _CALL.match(line)
            if call is None:
                continue
            process, name, arguments, result = call.groups()
            place = len(calls)
            calls.append(None)
            if result is None:
                begun[process] = (place, arguments)
                continue
        if int(result) >= 0:
            calls[place] = _call(process, name, arguments, int(result))
    return [each for each in calls if each is not None]


def _call(thread: str, name: str, arguments: str, result: int) -> Call:
    path = _OPEN_PATH.match(arguments)
    if path is not None:
        return Call(thread, name, path[1], "", result)
    words = [*_WORDS.findall(arguments), "", ""]
    return Call(thread, name, words[0], words[1], result)


def first(calls: Sequence[Call], name: str, path: str, start: int = 0) -> int:
    """The place of the first such call from `start` on; `path` is the end of its path."""
    for place in range(start, len(calls)):
        each = calls[place]
        if each.name == name and path in (each.path[-len(path) :], each.target[-len(path) :]):
            return place
    raise AssertionError(f"there is no {name} of {path} after call {start}")


def own_sync(calls: Sequence[Call], folder: str, start: int) -> int:
    """Where the folder is synced because of a new name, and not because of one that came later."""
    synced = first(calls, "fsync", folder, start)
    others = [
        each.target
        for each in calls[start + 1 : synced]
        if each.name == "rename" and each.target.rpartition("/")[0] == folder
    ]
    assert not others, f"{folder} is synced for {others} only"
    return synced


def first_answer(calls: Sequence[Call], start: int) -> int:
    """Where the next bytes go to a client; one byte only wakes the loop."""
    return next(
        place
        for place in range(start, len(calls))
        if calls[place].name == "sendto" and calls[place].result > 1
    )


def removals(calls: Sequence[Call], prefix: str) -> list[int]:
    """Where files go whose path begins so."""
    return [
        place
        for place, each in enumerate(calls)
        if each.name == "unlink" and each.path.startswith(prefix)
    ]


def create(client: RawClient, name: str, configs: Mapping[str, str]) -> None:
    topic = wire.CreatableTopic(
        name=name,
        num_partitions=1,
        replication_factor=1,
        assignments=[],
        configs=[wire.CreatableTopicConfig(name=key, value=configs[key]) for key in configs],
    )
    made = wire.CreateTopicsRequest(topics=[topic], timeout_ms=30_000, validate_only=False)
    assert client.ask(made, 7, wire.CreateTopicsResponse).topics[0].error_code == ErrorCode.NONE


def append(client: RawClient, topic: str, records: memoryview) -> None:
    data = wire.PartitionProduceData(index=0, records=bytes(records))
    request = wire.ProduceRequest(
        transactional_id=None,
        acks=-1,
        timeout_ms=30_000,
        topic_data=[wire.TopicProduceData(name=topic, partition_data=[data])],
    )
    answer = client.ask(request, 9, wire.ProduceResponse)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE


def traced(
    directory: Path, properties: Mapping[str, str], story: Callable[[RawClient], None]
) -> list[Call]:
    """What a broker's process asked of the system from its start to its clean stop."""
    trace = directory / "trace"
    # With -D the broker is this process's child, and hears its signals.
    strace = ("strace", "-D", "-f", "-qq", "-y", "-s", "200", "-e", f"trace={CALLS}", "-o")
    with (
        BrokerProcess.on(directory, properties, (*strace, str(trace))) as broker,
        RawClient(broker.port, 60) as client,
    ):
        story(client)
        assert broker.stop() == 0
    return calls_in(trace)


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> list[Call]:
    """A short life: a topic made, written with flush.messages=1 and deleted; a clean stop."""
    directory = tmp_path_factory.mktemp("traced")

    def story(client: RawClient) -> None:
        create(client, "durable", {"flush.messages": "1", "file.delete.delay.ms": "100"})
        append(client, "durable", plain())
        gone = wire.DeleteTopicsRequest(
            topics=[wire.DeleteTopicState(name="durable")], timeout_ms=30_000
        )
        assert client.ask(gone, 6, wire.DeleteTopicsResponse).responses[0].error_code == 0
        data = directory / "data"
        wait_until(lambda: not list(data.glob("durable-0*")), 60, lambda: str(list(data.iterdir())))

    return traced(directory, {"remote.log.storage.system.enable": "false"}, story)


@pytest.fixture(scope="module")
def tiered_calls(tmp_path_factory: pytest.TempPathFactory) -> list[Call]:
    """A topic's first segment is closed, copied to a tier of files, and deleted here."""
    directory = tmp_path_factory.mktemp("tiered")

    def story(client: RawClient) -> None:
        create(client, "tiered", TIERED)
        for _ in range(2):
            append(client, "tiered", plain(count=600, size=1_000))
        folder = directory / "data" / "tiered-0"
        wait_until(
            lambda: not list(folder.glob(FIRST_SEGMENT + "*")),
            60,
            lambda: str(sorted(folder.iterdir())),
        )

    tier = (directory / "remote").as_uri()
    return traced(directory, TIER_PROPERTIES | {"rsm.config.url": tier}, story)


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
    following = next(each for each in calls[renamed + 1 :] if each.thread == calls[renamed].thread)
    # The next sync of the folder may be that of another file.
    assert (following.name, following.path) == ("fsync", folder)


@pytest.mark.requires("strace")
def test_the_vote_is_on_the_disk_before_the_first_record_of_its_epoch(calls: list[Call]) -> None:
    renamed = first(calls, "rename", "/quorum-state")
    named = first(calls, "fsync", "/__cluster_metadata-0", renamed)
    assert renamed < named < first(calls, "pwrite64", f"/__cluster_metadata-0/{FIRST_SEGMENT}.log")


@pytest.mark.requires("strace")
def test_an_answer_of_the_controller_comes_after_the_fsync_of_its_records(
    calls: list[Call],
) -> None:
    made = first(calls, "mkdir", "/durable-0")
    written = max(
        place
        for place in range(made)
        if calls[place].name == "pwrite64"
        and calls[place].path.endswith(f"/__cluster_metadata-0/{FIRST_SEGMENT}.log")
    )
    synced = first(calls, "fdatasync", calls[written].path, written)
    assert written < synced < made < first_answer(calls, written)


@pytest.mark.requires("strace")
def test_a_record_is_acknowledged_after_its_log_and_the_names_of_it_are_on_the_disk(
    calls: list[Call],
) -> None:
    log = f"/durable-0/{FIRST_SEGMENT}.log"
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
    named = own_sync(calls, folder, renamed)
    removed = removals(calls, calls[renamed].target + "/")
    assert any(calls[place].path.endswith(".log") for place in removed)
    assert named < removed[0]


@pytest.mark.requires("strace")
def test_a_copied_segment_goes_after_the_fsync_of_the_event_that_finished_its_copy(
    tiered_calls: list[Call],
) -> None:
    calls = tiered_calls
    renamed = first(calls, "rename", f"/tiered-0/{FIRST_SEGMENT}.log")
    events = [
        place
        for place, each in enumerate(calls[:renamed])
        if each.name == "pwrite64" and each.path.endswith(METADATA_LOG)
    ]
    assert len(events) == 2, "COPY_SEGMENT_STARTED and COPY_SEGMENT_FINISHED"
    log = calls[events[1]].path
    folder = log.rpartition("/")[0]
    synced = first(calls, "fdatasync", log, events[1])
    assert synced < renamed
    assert first(calls, "fsync", folder) < renamed
    assert first(calls, "fsync", folder.rpartition("/")[0], first(calls, "mkdir", folder)) < renamed
    removed = removals(calls, f"{folder.rpartition('/')[0]}/tiered-0/{FIRST_SEGMENT}")
    assert synced < removed[0]


@pytest.mark.requires("strace")
def test_a_copy_is_finished_after_its_objects_and_their_names_are_on_the_disk(
    tiered_calls: list[Call],
) -> None:
    calls = tiered_calls
    manifest = first(calls, "rename", ".manifest")
    finished = first(calls, "pwrite64", METADATA_LOG, manifest)
    folder = calls[manifest].target.rpartition("/")[0]
    objects = [
        place
        for place, each in enumerate(calls[:finished])
        if each.name == "rename" and each.target.startswith(folder + "/")
    ]
    assert {calls[place].target.rpartition(".")[2] for place in objects} >= {"log", "manifest"}
    for place in objects:
        synced = {each.path for each in calls[:place] if each.name in {"fsync", "fdatasync"}}
        assert calls[place].path in synced
        assert first(calls, "fsync", folder, place) < finished
    closed = first(calls, "fdatasync", f"/tiered-0/{FIRST_SEGMENT}.log")
    assert closed < objects[0], "what is copied must survive here as long as its copy"
    for path in (folder, folder.rpartition("/")[0]):
        made = first(calls, "mkdir", path)
        assert made < own_sync(calls, path.rpartition("/")[0], made) < finished
