"""`tierlog completion`: prints what completes the words of `tierlog` in a shell.

The texts beside this file are written from the parsers by `tests/completion_text.py`: nothing is
computed when a shell starts. Names of topics and groups come from `tierlog topic ls --names` and
`tierlog group ls --names` when the user presses the key.
"""

import argparse
import os
import sys

from ...storage.files import OsFiles

SHELLS = ("bash", "zsh", "fish")

_EXAMPLES = """\
examples:
  eval "$(tierlog completion bash)"              in ~/.bashrc
  tierlog completion zsh > ~/.zfunc/_tierlog     with ~/.zfunc in fpath before compinit
  tierlog completion fish > ~/.config/fish/completions/tierlog.fish
"""


def add_completion_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments to the parser of `tierlog completion`."""
    parser.description = "Print what completes the words of tierlog in a shell."
    parser.epilog = _EXAMPLES
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help=", ".join(SHELLS))


def run_completion_command(parsed: argparse.Namespace) -> int:
    """Print the text; returns the exit code."""
    sys.stdout.buffer.write(OsFiles().read(completion_file(parsed.shell)))
    sys.stdout.buffer.flush()
    return 0


def completion_file(shell: str) -> str:
    """The path of the text for a shell."""
    return os.path.join(os.path.dirname(__file__), f"tierlog.{shell}")
