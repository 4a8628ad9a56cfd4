"""The storage contract on HDFS."""

import pytest

from tierlog.tests.tiering.served_storage import ServedStorageConformance
from tierlog.tests.tiering.servers.server import FETCH_SECONDS
from tierlog.tests.tiering.servers.webhdfs import HdfsServer

# What a server needs is fetched or built once on a machine; the time of that counts here.
pytestmark = [pytest.mark.long, pytest.mark.timeout(FETCH_SECONDS + 300)]


@pytest.mark.requires("java", "mvn")
class TestWebHdfs(ServedStorageConformance):
    kind = HdfsServer
