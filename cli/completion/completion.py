"""`tierlog completion`: prints a shell completion script.

The texts beside this file are short: when the user presses the key, each asks
`tierlog completion --candidates` (candidates.py), which knows the commands of that version.
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
    parser.description = "Print a shell completion script."
    parser.epilog = _EXAMPLES
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help=", ".join(SHELLS))


def run_completion_command(parsed: argparse.Namespace) -> int:
    """Print the text; returns the exit code."""
    text = os.path.join(os.path.dirname(__file__), f"tierlog.{parsed.shell}")
    sys.stdout.buffer.write(OsFiles().read(text))
    sys.stdout.buffer.flush()
    return 0
