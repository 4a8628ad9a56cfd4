"""Runs a command of `tierlog` in this process, as a user would, against a broker in a thread."""

import io
import json
import sys
from dataclasses import dataclass
from typing import Any, TypeAlias

import pytest

from tierlog.cli.command_line import run

Json: TypeAlias = Any
"""What a command printed as JSON: tests look into it, and say what they expect."""


# On a machine that is busy with other things nobody gives up.
_PATIENCE = (
    *("-X", "socket.connection.setup.timeout.ms=120000"),
    *("-X", "request.timeout.ms=120000"),
)


@dataclass(frozen=True)
class Answer:
    """What a command printed, and its exit code."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode()

    @property
    def json(self) -> Json:
        return json.loads(self.out)

    @property
    def words(self) -> list[list[str]]:
        """The lines of the output, each as words."""
        return [line.split() for line in self.text.splitlines()]


class Tierlog:
    """`tierlog WORD… -b BOOTSTRAP`."""

    def __init__(
        self,
        capture: pytest.CaptureFixture[bytes],
        patch: pytest.MonkeyPatch,
        bootstrap: str | None,
    ) -> None:
        """Without `bootstrap` the address comes from the environment, or from a profile."""
        self._capture = capture
        self._patch = patch
        self.bootstrap = bootstrap

    def __call__(self, *words: str, stdin: bytes = b"") -> Answer:
        """Run it, whatever it exits with."""
        self._patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        self._capture.readouterr()
        try:
            address = () if self.bootstrap is None else ("-b", self.bootstrap)
            code = run([*words, *_PATIENCE, *address], 0)
        except SystemExit as usage:
            code = int(str(usage.code))
        out, err = self._capture.readouterr()
        return Answer(code, out, err.decode())

    def done(self, *words: str, stdin: bytes = b"") -> Answer:
        """Run it; AssertionError unless it exits with 0 and has nothing to say on stderr."""
        answer = self(*words, stdin=stdin)
        assert (answer.code, answer.err) == (0, ""), (words, answer)
        return answer
