"""The storage contract on a server of Google Cloud Storage."""

import pytest

from tierlog.tests.tiering.served_storage import ServedStorageConformance
from tierlog.tests.tiering.servers.gs import FakeGcsServer
from tierlog.tests.tiering.servers.server import FETCH_SECONDS

# What a server needs is fetched or built once on a machine; the time of that counts here.
pytestmark = [pytest.mark.long, pytest.mark.timeout(FETCH_SECONDS + 300)]


@pytest.mark.requires("go")
class TestGs(ServedStorageConformance):
    kind = FakeGcsServer
