"""The storage contract over SSH, twice."""

import pytest

from tierlog.tests.tiering.served_storage import ServedStorageConformance
from tierlog.tests.tiering.servers.server import FETCH_SECONDS
from tierlog.tests.tiering.servers.sftp import AsyncSshServer, OpenSshServer

# What a server needs is fetched or built once on a machine; the time of that counts here.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(FETCH_SECONDS + 300)]


class TestSftp(ServedStorageConformance):
    kind = AsyncSshServer


@pytest.mark.requires("sshd")
class TestOpenSsh(ServedStorageConformance):
    kind = OpenSshServer
