"""A root of Debian's unstable suite, whose Python is the newest; made and entered as root.

It shares `/proc`, `/dev`, `/tmp` and this checkout with the machine, and its names and
certificates. The mounts are those of one command and go with it.

    python -m tierlog.tests.pythons.debian_root     makes it, in about a minute
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tierlog.tests.house_rules import ROOT

DIRECTORY = Path(os.environ.get("TIERLOG_TEST_DEBIAN_ROOT", "/var/cache/tierlog-debian-sid"))
PYTHON = "/usr/bin/python3"
_READY = DIRECTORY / ".ready"
_MAKE_WITHIN_S = 900
_PACKAGES = "python3,python3-venv,ca-certificates,git,procps,strace,gcc,libc6-dev"

_ENTER = """
root=$1 checkout=$2; shift 2
for each in /proc /dev /tmp; do mount --rbind $each $root$each; done
for each in /etc/resolv.conf /etc/hosts /etc/ssl/certs/ca-certificates.crt; do
    [ ! -e $each ] || { [ -e $root$each ] || touch $root$each; mount --bind $each $root$each; }
done
mkdir -p "$root$checkout"
mount --bind "$checkout" "$root$checkout"
exec chroot "$root" env --chdir "$checkout" "$@"
"""


def is_there() -> bool:
    """Whether the root is complete, and this process may enter it."""
    return os.geteuid() == 0 and _READY.exists()


def command(words: Sequence[str]) -> list[str]:
    """The command line that runs these words there, in this checkout."""
    shell = ["unshare", "--mount", "sh", "-euc", _ENTER, "sh"]
    return [*shell, str(DIRECTORY), str(ROOT), *words]


def make() -> str:
    """Make the root unless it is there; an empty text, or why it cannot be made."""
    if is_there():
        return ""
    if os.geteuid() != 0:
        return "it takes root to make a root of Debian"
    if shutil.which("debootstrap") is None:
        return "debootstrap is not installed: apt-get install debootstrap"
    shutil.rmtree(DIRECTORY, ignore_errors=True)
    options = ["--variant=minbase", f"--include={_PACKAGES}"]
    answer = subprocess.run(
        ["debootstrap", *options, "sid", str(DIRECTORY)],
        capture_output=True,
        text=True,
        timeout=_MAKE_WITHIN_S,
        check=False,
    )
    if answer.returncode != 0:
        return f"debootstrap failed: {(answer.stdout + answer.stderr)[-400:]}"
    _READY.touch()
    return ""


if __name__ == "__main__":
    sys.exit(make())
