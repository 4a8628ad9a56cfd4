"""The storage contract on two servers of S3, moto and the Versity gateway."""

import pytest

from tierlog.tests.tiering.served_storage import ServedStorageConformance
from tierlog.tests.tiering.servers.s3 import MotoServer, VersityGateway
from tierlog.tests.tiering.servers.server import FETCH_SECONDS, StoreServer

# What a server needs is fetched or built once on a machine; the time of that counts here.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(FETCH_SECONDS + 300)]


class TestMoto(ServedStorageConformance):
    kind = MotoServer

    def after_restart(self, server: StoreServer) -> None:
        server.make_root()


@pytest.mark.requires("go")
class TestVersityGateway(ServedStorageConformance):
    kind = VersityGateway
