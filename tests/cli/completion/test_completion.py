"""`tierlog completion`: the shipped texts are those of the parsers, and bash takes them."""

import subprocess

import pytest

from tierlog.cli.command_line import run
from tierlog.cli.completion.completion import SHELLS
from tierlog.tests.completion_text import completion_text

_ASK_BASH = """
eval "$(cat)"
complete -p tierlog
tierlog() { [ "$*" = "topic ls --names" ] && echo orders orphans; }
COMP_WORDS=(tierlog topic describe or)
COMP_CWORD=3
_shtab_tierlog tierlog or describe
echo "${COMPREPLY[@]}"
"""


@pytest.mark.parametrize("shell", SHELLS)
def test_the_shipped_text_is_the_one_that_would_be_written_now(
    shell: str, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert run(["completion", shell], 0) == 0
    assert capsysbinary.readouterr().out.decode() == completion_text(shell)


def test_bash_completes_words_and_names_of_topics() -> None:
    answer = subprocess.run(
        ["bash", "-c", _ASK_BASH],
        input=completion_text("bash"),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    registered, completed = answer.stdout.splitlines()
    assert registered.endswith(" tierlog")
    assert completed.split() == ["orders", "orphans"]
