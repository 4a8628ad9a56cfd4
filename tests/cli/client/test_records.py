"""`tierlog produce` and `tierlog consume`: what goes in comes out, and the end is an end."""

import json
import threading

import pytest
from confluent_kafka import Producer

from tierlog.tests.broker_process import BrokerThread
from tierlog.tests.cli.client.command_run import Json, Tierlog
from tierlog.tests.waiting import wait_until


def test_a_line_becomes_a_record_and_a_record_a_line(tierlog: Tierlog) -> None:
    tierlog.done("topic", "create", "lines")
    tierlog.done("produce", "lines", "-K:", "-H", "a=b", stdin=b"k:v\nno key\n")
    answer = tierlog.done("consume", "lines", "-e", "-f", r"%t[%p]@%o %k=%s %h %K %S%%\n")
    assert answer.text == "lines[0]@0 k=v a=b 1 1%\nlines[0]@1 =no key a=b -1 6%\n"
    hexed = tierlog.done("consume", "lines", "-e", "-n", "1", "-f", "%v{hex} %k{base64};")
    assert hexed.text == "76 aw==;"


def test_json_leaves_bytes_as_they_were(tierlog: Tierlog, broker: BrokerThread) -> None:
    tierlog.done("topic", "create", "from", "to")
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    headers: list[tuple[str, str | bytes | None]] = [("h", b"\xff"), ("n", None), ("t", b"x")]
    producer.produce("from", value=b"\xff\x00", key=b"\xfe", headers=headers)
    producer.produce("from", value=None, key="ключ".encode())
    producer.produce("from", value=b"", headers=[("e", b""), ("e", b'"\n')])
    producer.flush()
    lines = tierlog.done("consume", "from", "-e", "--json").out
    tierlog.done("produce", "to", "--json", stdin=lines)
    copied = tierlog.done("consume", "to", "-e", "--json").out
    assert copied.replace(b'"topic":"to"', b'"topic":"from"') == lines
    first = json.loads(lines.splitlines()[0])
    assert (first["key_base64"], first["payload_base64"]) == ("/g==", "/wA=")
    assert first["headers_base64"] == ["h", "/w==", "n", None, "t", "eA=="]
    assert (first["tstype"], first["offset"]) == ("create", 0)


def test_a_line_that_is_no_record_ends_it_and_says_which(tierlog: Tierlog) -> None:
    tierlog.done("topic", "create", "bad")
    answer = tierlog("produce", "bad", "--json", stdin=b'{"payload":"good"}\n{"payload":5}\n')
    assert answer.code == 2
    assert "Line 2" in answer.err
    assert tierlog.done("consume", "bad", "-e").text == "good\n"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b'{"order": 1, "price": 5}', "unknown field 'order': with --json the value stands in"),
        (b'{"key": "k", "paylod": "x"}', "unknown field 'paylod' (did you mean \"payload\"?)."),
        (b'{"key": "k", "value": "x"}', "unknown field 'value' (did you mean \"payload\"?)."),
        (b'{"payload": "x", "Headers": []}', "'Headers' (did you mean \"headers\"?)."),
        (b'{"key": "k"}', 'no "payload": write "payload": null for a record without value.'),
        (b"{}", 'no "payload"'),
        (b'{"payload": "x", "payload_base64": "eA=="}', 'both "payload" and "payload_base64"'),
        (b'{"payload": "x", "ts": -2}', "ts is less than -1, which stands for no timestamp"),
    ],
)
def test_json_that_is_not_a_records_becomes_no_tombstone(
    tierlog: Tierlog, line: bytes, said: str
) -> None:
    tierlog.done("topic", "create", "own", "--if-not-exists")
    answer = tierlog("produce", "own", "--json", stdin=line)
    assert (answer.code, len(answer.err.splitlines())) == (2, 1)
    assert "Line 1 of the input is not a record" in answer.err
    assert said in answer.err
    assert tierlog.done("consume", "own", "-e").text == ""


def test_a_record_without_value_is_one_that_says_so(tierlog: Tierlog) -> None:
    tierlog.done("topic", "create", "deleted")
    line = b'{"topic":"t","broker":1,"key":"k","payload":null}'
    tierlog.done("produce", "deleted", "--json", stdin=line)
    assert tierlog.done("consume", "deleted", "-e", "-f", "%k %S\n").text == "k -1\n"


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("start", "0123456789"),
        ("end", ""),
        ("3", "3456789"),
        ("+8", "89"),
        ("-2", "89"),
        ("2:4", "23"),
        (":3", "012"),
        ("-3:end", "789"),
        ("8:1000", "89"),
        ("@1000000000004", "456789"),
        ("@1000000000004:1000000000006", "45"),
        ("@2001-09-09T01:46:40.007Z:end", "789"),
        ("@-1h", ""),
        ("s@1000000000009", "9"),
    ],
)
def test_a_place_to_begin_and_a_place_to_stop(tierlog: Tierlog, place: str, expected: str) -> None:
    tierlog.done("topic", "create", "places", "--if-not-exists", "-c", "retention.ms=-1")
    if not tierlog.done("consume", "places", "-e").out:
        lines = [{"payload": str(n), "ts": 1_000_000_000_000 + n} for n in range(10)]
        text = "\n".join(map(json.dumps, lines)).encode()
        tierlog.done("produce", "places", "--json", stdin=text)
    assert tierlog.done("consume", "places", "-o", place, "-e", "-f", "%s").text == expected


@pytest.mark.parametrize("time", ["1969-12-31T23:59:59.999Z", "0001-01-01"])
def test_a_time_before_1970_is_no_special_place(tierlog: Tierlog, time: str) -> None:
    """ListOffsets has -1 for the end."""
    tierlog.done("topic", "create", "old", "--if-not-exists")
    tierlog.done("produce", "old", stdin=b"one\n")
    assert tierlog.done("consume", "old", "-o", f"@{time}", "-n", "1").text == "one\n"
    assert tierlog.done("topic", "trim", "old", "-o", f"@{time}").text == "old-0 starts at 0\n"


def test_an_empty_topic_has_an_end(tierlog: Tierlog) -> None:
    tierlog.done("topic", "create", "empty", "-p", "3")
    assert tierlog.done("consume", "empty", "-e").out == b""


def test_the_end_may_be_the_marker_of_a_transaction(tierlog: Tierlog, broker: BrokerThread) -> None:
    tierlog.done("topic", "create", "marked")
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "marker"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("marked", b"committed")
    producer.commit_transaction()
    producer.begin_transaction()
    producer.produce("marked", b"aborted")
    producer.flush()
    producer.abort_transaction()
    assert tierlog.done("consume", "marked", "-e").text == "committed\n"
    both = tierlog.done("consume", "marked", "-e", "-X", "isolation.level=read_uncommitted")
    assert both.text == "committed\naborted\n"


def test_the_end_is_that_of_the_beginning_while_others_write(
    tierlog: Tierlog, broker: BrokerThread
) -> None:
    tierlog.done("topic", "create", "busy")
    stopping = threading.Event()
    written = threading.Event()

    def write() -> None:
        producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0})
        while not stopping.is_set():
            producer.produce("busy", b"x")
            producer.flush()
            written.set()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert written.wait(60)
        count = len(tierlog.done("consume", "busy", "-e").text.split())
    finally:
        stopping.set()
        writer.join()
    assert 1 <= count <= len(tierlog.done("consume", "busy", "-e").text.split())


def test_what_is_in_the_tier_is_shown_and_read_like_the_rest(tierlog: Tierlog) -> None:
    tierlog.done(
        *("topic", "create", "tiered", "-c", "remote.storage.enable=true"),
        *("-c", "segment.bytes=1048576", "-c", "local.retention.ms=1"),
    )
    lines = "".join(f"{n:03}{'x' * 200_000}\n" for n in range(12))
    tierlog.done("produce", "tiered", "-X", "batch.size=1", stdin=lines.encode())

    def storage() -> Json:
        return tierlog.done("topic", "storage", "tiered", "--json").json[0]["partitions"][0]

    wait_until(lambda: storage()["local_start"] >= 5, 120, lambda: str(storage()))
    partition = storage()
    assert partition["log_start"] == 0
    assert partition["last_tiered"] >= partition["local_start"] - 1
    assert partition["tier_only"] == partition["local_start"]
    assert partition["local"] == 12 - partition["local_start"]
    read = tierlog.done("consume", "tiered", "-e").text.splitlines()
    assert [int(line[:3]) for line in read] == list(range(12))


def test_a_group_goes_on_where_it_was_and_moves_where_it_is_sent(tierlog: Tierlog) -> None:
    tierlog.done("topic", "create", "read", "-p", "2")
    tierlog.done("produce", "read", "-p", "0", stdin=b"a\nb\nc\nd\n")
    assert tierlog.done("consume", "read", "-g", "readers", "-n", "3", "-f", "%s").text == "abc"
    (group,) = tierlog.done("group", "describe", "readers", "--json").json
    assert (group["state"], group["members"], group["lag"]) == ("Empty", [], 1)
    assert tierlog.done("consume", "read", "-g", "readers", "-e", "-f", "%s").text == "d"
    assert ["readers", "Empty", "classic"] in tierlog.done("group", "ls").words
    assert tierlog.done("group", "describe", "readers").text.endswith("none\n")
    moved = tierlog.done("group", "seek", "readers", "--to", "+1", "--topic", "read")
    assert moved.words[1] == ["read", "0", "4", "1"]
    assert tierlog.done("consume", "read", "-g", "readers", "-e", "-f", "%s").text == "bcd"
    assert tierlog.done("group", "delete", "readers").text == "readers deleted\n"
    assert tierlog("group", "describe", "readers").code == 1
