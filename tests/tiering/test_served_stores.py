"""The storage contract on real servers: two of S3, Google's, Azure's, HDFS, and SSH twice.

What a server needs is fetched or built once on a machine; the time of that counts here.
"""

from collections.abc import Iterator
from typing import cast

import pytest

from tierlog.tests.tiering.served_storage import ServedStorageConformance
from tierlog.tests.tiering.servers.abfs import AzuriteServer
from tierlog.tests.tiering.servers.gs import FakeGcsServer
from tierlog.tests.tiering.servers.s3 import MotoServer, VersityGateway
from tierlog.tests.tiering.servers.server import FETCH_SECONDS, StoreServer
from tierlog.tests.tiering.servers.sftp import AsyncSshServer, OpenSshServer
from tierlog.tests.tiering.servers.webhdfs import HdfsServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(FETCH_SECONDS + 300)]


@pytest.fixture(scope="class")
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StoreServer]:
    suite = cast("type[ServedStorageConformance]", request.node.cls)
    with suite.kind(tmp_path_factory.mktemp(suite.kind.__name__)) as running:
        yield running


class TestMoto(ServedStorageConformance):
    kind = MotoServer

    def after_restart(self, server: StoreServer) -> None:
        server.make_root()


@pytest.mark.requires("go")
class TestVersityGateway(ServedStorageConformance):
    kind = VersityGateway


@pytest.mark.requires("go")
class TestGs(ServedStorageConformance):
    kind = FakeGcsServer


@pytest.mark.requires("node")
class TestAbfs(ServedStorageConformance):
    kind = AzuriteServer


@pytest.mark.requires("java", "mvn")
class TestWebHdfs(ServedStorageConformance):
    kind = HdfsServer


class TestSftp(ServedStorageConformance):
    kind = AsyncSshServer


@pytest.mark.requires("sshd")
class TestOpenSsh(ServedStorageConformance):
    kind = OpenSshServer
