"""What a command prints at its end arrives where the output goes, a file or a stream of text."""

import argparse
import io
from contextlib import redirect_stdout

import pytest

from tierlog.cli.printed_output import printed_at_its_end


def greet(parsed: argparse.Namespace) -> int:
    print(parsed.words)
    return 3


@pytest.mark.parametrize(
    ("words", "printed"), [("Grüße", "Grüße\n"), ("not \udcff UTF-8", "not \\xff UTF-8\n")]
)
def test_a_stream_of_text_gets_text(words: str, printed: str) -> None:
    # As notebooks, and programs that call a command and keep what it says.
    output = io.StringIO()
    with redirect_stdout(output):
        code = printed_at_its_end(greet, argparse.Namespace(command="format", words=words))
    assert (code, output.getvalue()) == (3, printed)


def test_a_file_gets_the_bytes_as_they_were(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    parsed = argparse.Namespace(command="format", words="not \udcff UTF-8")
    assert printed_at_its_end(greet, parsed) == 3
    assert capfdbinary.readouterr().out == b"not \xff UTF-8\n"
