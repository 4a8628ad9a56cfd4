"""A process that is forked has no descriptor that its parent keeps for itself."""

import subprocess
import sys

_WITHOUT_A_DESCRIPTOR_LEFT = """
import os, resource, socket
from tierlog.clients.runtime.own_descriptors import keep_from_forks

kept, also_kept = socket.socketpair()
keep_from_forks(kept)
keep_from_forks(also_kept)
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (also_kept.fileno() + 1, hard))
if os.fork():
    _, status = os.wait()
    os._exit(os.waitstatus_to_exitcode(status))
null = os.stat(os.devnull)
os._exit(sum(not os.path.samestat(os.fstat(each.fileno()), null) for each in (kept, also_kept)))
"""


def test_a_process_with_as_many_descriptors_as_it_may_have_keeps_its_own() -> None:
    answer = subprocess.run(
        [sys.executable, "-c", _WITHOUT_A_DESCRIPTOR_LEFT],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (answer.returncode, answer.stderr) == (0, "")
