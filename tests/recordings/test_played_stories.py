"""What was recorded of a broker is played to a test as the broker answered; all else fails it.

The broker that is recorded here is our own: it is there without Java.
"""

import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tierlog.clients.kafka_uuid import ZERO_UUID
from tierlog.clients.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tierlog.clients.protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from tierlog.clients.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from tierlog.clients.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from tierlog.clients.protocol.schema import Message
from tierlog.tests.broker_process import BrokerThread, RawClient
from tierlog.tests.conformance.twins import prepare
from tierlog.tests.recordings import run, sections
from tierlog.tests.recordings.player import Player, Recording, UnaskedRequestError
from tierlog.tests.recordings.recorder import Recorder
from tierlog.tests.recordings.server import Server
from tierlog.tests.recordings.text_files import RecordedText, with_counted_ids
from tierlog.tests.recordings.transcript import read

Story = Callable[[int], list[object]]


@contextmanager
def serving(server: Server) -> Generator[int]:
    server.start()
    try:
        yield server.port
    finally:
        server.stop()


def record(story: Story, directory: Path) -> tuple[list[object], Path]:
    """What a story sees of our broker, and the recording of it."""
    text = RecordedText(directory / "recorded" / "story.txt")
    unasked = {"auto.create.topics.enable": "false"}
    with BrokerThread(directory / "data", unasked) as broker:
        server = Server(lambda connection: recorder.serve("PORT", connection))
        ports = {"PORT": broker.port}, {"PORT": server.port}
        recorder = Recorder(text, *ports, directory / "data")
        with serving(server) as port:
            seen = story(port)
    text.save(None)
    return seen, text.path


def play(story: Story, path: Path, directory: Path) -> tuple[list[object], list[str]]:
    """What a story sees of a recording, and what it misses there."""
    server = Server(lambda connection: player.serve(connection))
    player = Player(Recording(path), {"PORT": server.port}, directory)
    with serving(server) as port:
        seen = story(port)
    return seen, player.errors


def metadata(client: RawClient, *names: str) -> MetadataResponse:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return client.ask(MetadataRequest(topics=topics), 12, MetadataResponse)


def creation(name: str) -> CreateTopicsRequest:
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1)]
    return CreateTopicsRequest(topics=topics, timeout_ms=9_000)


def create(client: RawClient, name: str) -> Message:
    return client.receive(client.send(creation(name), 7))


def topics(port: int) -> list[object]:
    with RawClient(port) as client:
        create(client, "t")
        answer = metadata(client, "t", "missing")
        assert answer.topics[0].topic_id != ZERO_UUID
        assert answer.brokers[0].port == port
        again = MetadataRequestTopic(topic_id=answer.topics[0].topic_id, name=None)
        by_id = client.ask(MetadataRequest(topics=[again]), 12, MetadataResponse)
        return [[each.error_code for each in found.topics] for found in (answer, by_id)]


def test_a_story_sees_the_same_when_it_is_played(tmp_path: Path) -> None:
    seen, path = record(topics, tmp_path)
    assert seen == [[0, 3], [0]]
    assert play(topics, path, tmp_path) == (seen, [])
    text = path.read_text()
    assert f"=== {sections.running().title}\n1 > v7 CreateTopicsRequest(" in text
    assert "port=PORT" in text
    assert text.count("topic_id='drawn-id-") == 4


def test_a_request_that_is_not_in_the_recording_is_named(tmp_path: Path) -> None:
    _, path = record(topics, tmp_path)

    def another(port: int) -> list[object]:
        with RawClient(port) as client:
            client.send(MetadataRequest(topics=[MetadataRequestTopic(name="other")]), 12)
            return [client.is_closed()]

    seen, errors = play(another, path, tmp_path)
    assert seen == [True]
    assert len(errors) == 1
    assert "run `make record`" in errors[0]
    assert "MetadataRequestTopic(name='other')" in errors[0]


def test_a_request_that_comes_before_its_turn_is_named(tmp_path: Path) -> None:
    _, path = record(topics, tmp_path)

    def at_once(port: int) -> list[object]:
        with RawClient(port) as client:
            names = [MetadataRequestTopic(name=name) for name in ("t", "missing")]
            client.send(MetadataRequest(topics=names), 12)
            return [client.is_closed()]

    seen, errors = play(at_once, path, tmp_path)
    assert seen == [True]
    assert len(errors) == 1


def test_the_answer_to_another_test_is_none_to_this_one(tmp_path: Path) -> None:
    _, path = record(topics, tmp_path)
    title = f"=== {sections.running().title}"
    path.write_text(path.read_text().replace(title, "=== test_another_story"))

    def first(port: int) -> list[object]:
        with RawClient(port) as client:
            client.send(creation("t"), 7)
            return [client.is_closed()]

    seen, errors = play(first, path, tmp_path)
    assert seen == [True]
    assert len(errors) == 1


def test_what_a_story_leaves_out_is_named(tmp_path: Path) -> None:
    path = tmp_path / "recorded" / "story.txt"
    path.parent.mkdir()
    asked = "1 > asked\n1 > polled\n1 > polled\n1 > left out\n1 < x\n0 > info\n0 < 'y'\n"
    path.write_text(f"=== test\n{asked}")
    section = Recording(path).section("test")
    with socket.socket() as connection:
        assert section.find("asked", connection) == 0
        assert section.find("polled", connection) == 1
    assert section.unasked() == ["left out", "info"]
    assert section.play_program(["info"]) == ["'y'"]
    assert section.unasked() == ["left out"]
    test_file = tmp_path / "test_story.py"
    run.recording(test_file)
    with pytest.raises(UnaskedRequestError, match=r"(?s)run `make record`.*\nasked\npolled\n"):
        run.end_section(test_file, "test")
    run.end_section(test_file, "test that is not recorded")


def test_a_poll_that_asks_more_often_gets_the_last_answer_again(tmp_path: Path) -> None:
    def poll(times: int) -> Story:
        def story(port: int) -> list[object]:
            with RawClient(port) as client:
                before = [metadata(client, "t").topics[0].error_code for _ in range(2)]
                create(client, "t")
                after = [metadata(client, "t").topics[0].error_code for _ in range(times)]
                return [*before, *after[-1:]]

        return story

    seen, path = record(poll(2), tmp_path)
    assert seen == [3, 3, 0]
    assert play(poll(9), path, tmp_path) == (seen, [])


def test_who_waits_for_another_member_waits_when_it_is_played(tmp_path: Path) -> None:
    def joining(protocol: str) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id="g",
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=protocol)],
        )

    def story(port: int) -> list[object]:
        prepare(port)
        order: list[str] = []
        with RawClient(port) as first, RawClient(port) as second:
            leader = first.ask(joining("p"), 3, JoinGroupResponse)
            again = joining("p")
            again.member_id = leader.member_id
            waiting = second.send(joining("p"), 3)

            def wait() -> None:
                second.receive(waiting)
                order.append("second")

            thread = threading.Thread(target=wait)
            thread.start()
            thread.join(0.5)
            order.append("first asks again" if thread.is_alive() else "too early")
            first.ask(again, 3, JoinGroupResponse)
            thread.join()
        return [*order]

    seen, path = record(story, tmp_path)
    assert seen == ["first asks again", "second"]
    assert play(story, path, tmp_path) == (seen, [])


def test_the_directory_and_what_is_no_message_are_written_down(tmp_path: Path) -> None:
    def story(port: int) -> list[object]:
        with RawClient(port) as client, RawClient(port) as victim:
            found = client.ask(DescribeLogDirsRequest(topics=None), 4, DescribeLogDirsResponse)
            victim.send_frame(b"\x00")
            return [found.results[0].log_dir, victim.is_closed()]

    seen, path = record(story, tmp_path)
    assert seen == [str(tmp_path / "data"), True]
    text = path.read_text()
    assert "log_dir='DIRECTORY'" in text
    assert "2 > hex:00\n2 closed\n" in text
    for name in ("elsewhere", "o'brien's", 'a "b" c', "back\\slash", "both '\""):
        elsewhere = tmp_path / name
        assert play(story, path, elsewhere) == ([str(elsewhere), True], [])


def test_an_answer_that_was_changed_by_hand_is_seen(tmp_path: Path) -> None:
    _, path = record(topics, tmp_path)
    path.write_text(path.read_text().replace("error_code=3,", "error_code=29,"))
    seen, _ = play(topics, path, tmp_path)
    assert seen == [[0, 29], [0]]


def test_a_program_that_is_asked_the_same_twice_prints_what_it_printed_then(
    tmp_path: Path,
) -> None:
    path = tmp_path / "story.txt"
    path.write_text("=== test\n0 > format\n0 < 'done'\n0 > format\n0 < 'again'\n0 < 'refused'\n")
    section = Recording(path).section("test")
    assert section.play_program(["format"]) == ["'done'"]
    assert section.play_program(["format"]) == ["'again'", "'refused'"]
    assert section.play_program(["format"]) is None
    section.rewind()
    assert section.play_program(["info"]) is None
    assert section.play_program(["format"]) == ["'done'"]


def test_ids_are_counted_unless_a_test_has_chosen_them() -> None:
    drawn, chosen = "8f14e45f-ceea-467f-a0e6-000000000042", "11111111-1111-4111-8111-111111111111"
    body = f"1 > v1 A(member='{chosen}')\n1 < B(\n  member='raw-{drawn}',\n)\n1 > v1 A(x='{drawn}')"
    counted = with_counted_ids(body)
    assert chosen in counted
    assert counted.count("00000000-0000-4000-8000-000000000002") == 2
    assert drawn not in counted


@pytest.mark.parametrize("text", ["x > nothing", "1 ? nothing"])
def test_a_line_that_is_no_entry_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.txt"
    path.write_text(f"=== test\n{text}\n")
    with pytest.raises(ValueError, match="line 2 is no entry"):
        Recording(path)


def test_in_a_new_recording_a_section_has_the_place_that_it_had(tmp_path: Path) -> None:
    path = tmp_path / "recorded" / "story.txt"
    for titles in (
        ["fixture ports", "test_a", "test_gone"],
        ["test_a", "test_new", "fixture ports"],
    ):
        text = RecordedText(path)
        for title in titles:
            text.add(title, 1, ">", "hex:00")
        text.save({title for title in titles if title.startswith("test")})
    assert list(read(path)) == ["fixture ports", "test_a", "test_new"]
