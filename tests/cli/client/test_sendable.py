"""What no cluster can be sent ends a command with one sentence, before anything is sent."""

import pytest

from tierlog.tests.cli.client.command_run import Tierlog

_NO_TEXT = b"\xff".decode(errors="surrogateescape")
_LONG = "x" * 40_000


@pytest.mark.parametrize(
    "words",
    [
        ("topic", "create", _NO_TEXT),
        ("topic", "create", _LONG),
        ("topic", "create", "t", "-c", f"retention.ms={_NO_TEXT}"),
        ("topic", "create", "t", "-p", "99999999999"),
        ("topic", "create", "t", "-r", "40000"),
        ("topic", "alter", "t", "-p", "99999999999"),
        ("topic", "describe", _NO_TEXT),
        ("consume", _NO_TEXT, "-e"),
        ("consume", "t", "-e", "-g", _NO_TEXT),
        ("consume", "t", "-e", "-g", ""),
        ("produce", "t", "-X", "batch.size=99999999999"),
        ("produce", "t", "-X", "linger.ms=9999999999999999999"),
        ("group", "describe", _NO_TEXT),
        ("produce", _NO_TEXT),
        ("produce", "t", "-H", f"{_NO_TEXT}=v"),
    ],
)
def test_arguments_that_cannot_be_sent_are_refused(tierlog: Tierlog, words: tuple[str]) -> None:
    answer = tierlog(*words, stdin=b"line\n")
    assert (answer.code, answer.out) == (2, b"")
    assert "Traceback" not in answer.err
    last = answer.err.splitlines()[-1]
    assert last.startswith("tierlog"), answer.err
    assert tierlog.done("topic", "ls", "--names").text == ""


@pytest.mark.parametrize(
    "fields", [b'"ts":99999999999999999999', b'"headers":["\\ud800","x"]', b'"key":"\\udfff"']
)
def test_a_line_that_cannot_be_sent_is_named(tierlog: Tierlog, fields: bytes) -> None:
    answer = tierlog("produce", "t", "--json", stdin=b'{"payload":"x",%s}' % fields)
    assert (answer.code, len(answer.err.splitlines())) == (2, 1)
    assert "Line 1" in answer.err
    assert "field" not in answer.err


def test_keys_headers_and_formats_are_whatever_bytes(tierlog: Tierlog) -> None:
    tierlog.done("topic", "create", "bytes")
    words = ("-k", _NO_TEXT, "-H", f"h={_NO_TEXT}", "-D", _NO_TEXT)
    tierlog.done("produce", "bytes", *words, stdin=b"a\xffb")
    answer = tierlog.done("consume", "bytes", "-e", "-f", f"%k %h %s{_NO_TEXT}")
    assert answer.out == b"\xff h=\xff a\xff\xff h=\xff b\xff"
    tierlog.done("topic", "delete", "bytes")
