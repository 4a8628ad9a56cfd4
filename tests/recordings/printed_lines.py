"""What a program of Kafka's printed: its tools, and programs that use its classes.

In a section, `0 > Program.java 'line'` is what a program was asked, and `0 < 'line'` a line that it
printed: all that it was asked first, then all that it printed.
"""

import ast
from collections.abc import Callable

from tierlog.clients.runtime.environment import SystemEnvironment

from . import run
from .player import MissingRequestError
from .sections import running
from .transcript import PROGRAMS


def printed_lines(asked: list[str], program: Callable[[], list[str]]) -> list[str]:
    """What a program prints that is asked this, as `--kafka` says; `program` runs it."""
    test_file, title, _ = running()
    if run.mode() == run.RECORDED:
        answers = run.recording(test_file).section(title).play_program(asked)
        if answers is None:
            raise MissingRequestError(
                f"the recording of `{title}` has no answer to this: run `make record`, which needs "
                f"Java and Maven, and read the difference.\n{asked[0][:300]}"
            )
        return [str(ast.literal_eval(each)) for each in answers]
    answers = program()
    if run.mode() == run.RECORD:
        text = run.recorded_text(test_file)
        for each in asked:
            text.add(title, PROGRAMS, ">", each)
        for each in answers:
            text.add(title, PROGRAMS, "<", repr(each))
    return answers


def kafkas_now_ms() -> int:
    """The present for Kafka: when its answers were recorded, where they are played."""
    now_ms = SystemEnvironment().wall_clock_ms()
    return int(printed_lines(["the time in ms"], lambda: [str(now_ms)])[0])
