"""Only the image's name changes: what Testcontainers and Kafka's compose files do starts tierlog.

Each library's own variables, command and script run with the files of the image, and its awaited
line appears; then a client writes and reads at the advertised port.
"""

import os
import re
import socket
from functools import partial
from pathlib import Path

import pytest

from tierlog.tests.docker.compose_processes import addresses
from tierlog.tests.docker.image_file import image
from tierlog.tests.docker.image_root import ImageRoot
from tierlog.tests.docker.round_trip import log_in, round_trip, stores
from tierlog.tests.docker.testcontainers.library import ALIAS, CLUSTER_ID, Library, script_of
from tierlog.tests.docker.testcontainers.node import SECRETS
from tierlog.tests.docker.testcontainers.ways import KAFKAS_COMPOSE_FILE, LIBRARIES
from tierlog.tests.waiting import wait_until

pytestmark = pytest.mark.slow

_IN_EVERY_RUN = ("Java, KafkaContainer", "Python", "Node, withSaslSslListener()")
"""One for each tree, of which one has roles and the other has none; and one that adds a user."""
_IN_TMP = "/tmp/zookeeper.properties"
_WITHIN_S = 60.0
_READY = re.compile(r"^tierlog .* ready on ")
_KAFKAS_LINES = re.compile("KafkaServer id|Kafka Server started|Transitioning from RECOVERY")


def _own_address(at: int) -> str:
    hosts = addresses([str(each) for each in range(len(LIBRARIES) + 2)], os.getpid())
    return hosts[str(at)]


def _accepts(address: str, port: int) -> bool:
    try:
        socket.create_connection((address, port), _WITHIN_S).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.mark.parametrize(
    "library",
    [
        pytest.param(
            each, id=each.name, marks=[] if each.name in _IN_EVERY_RUN else pytest.mark.long
        )
        for each in LIBRARIES
    ],
)
def test_a_library_of_testcontainers_starts_it_as_its_own_image(
    library: Library, tmp_path: Path
) -> None:
    address = _own_address(LIBRARIES.index(library))
    files = [library.script_path, _IN_TMP]
    with ImageRoot(image(), tmp_path, address, files, [ALIAS]) as container:
        if library.login is not None:
            for name, content in stores(address, library.login.store_password).items():
                container.put(f"{SECRETS}/{name}", content, 0o644)
        container.start(library.command, library.environment)
        published = {port: port for port in library.ports}
        script = script_of(library, address, published, address)
        container.put(library.script_path, script, 0o755)
        if library.awaited is not None:
            container.wait_for_line(library.awaited)
        for port in (library.port, library.other_port):
            if port is not None:
                is_open = partial(_accepts, address, port)
                wait_until(is_open, _WITHIN_S, lambda: container.output)
        cluster_id = round_trip(f"{address}:{library.port}")
        assert cluster_id == library.cluster_id or library.cluster_id is None
        if library.login is not None:
            log_in(f"{address}:{library.login.port}", library.login, tmp_path)
        assert container.execute("tierlog-ready")[0] == 0
        assert len(_KAFKAS_LINES.findall(container.stdout)) in (1, 2)


@pytest.mark.long
def test_kafkas_own_compose_file_needs_another_image_and_nothing_else(tmp_path: Path) -> None:
    """`docker/examples/docker-compose-files/single-node/plaintext` of Apache Kafka."""
    address = _own_address(len(LIBRARIES))
    data = KAFKAS_COMPOSE_FILE["KAFKA_LOG_DIRS"]
    with ImageRoot(image(), tmp_path, address, [data], [ALIAS]) as container:
        container.start(image().command, KAFKAS_COMPOSE_FILE)
        container.wait_for_line(_KAFKAS_LINES)
        assert round_trip(f"{address}:9092") == CLUSTER_ID
        assert round_trip(f"{address}:19092") == CLUSTER_ID
        assert container.stop() == 0


@pytest.mark.long
def test_tierlog_itself_prints_none_of_kafkas_lines(tmp_path: Path) -> None:
    address = _own_address(len(LIBRARIES) + 1)
    with ImageRoot(image(), tmp_path, address) as container:
        override = f"--override=listeners=PLAINTEXT://{address}:9092"
        container.start(("/opt/tierlog/bin/tierlog", "serve", override), {})
        container.wait_for_line(_READY)
        assert container.stop() == 0
        assert _KAFKAS_LINES.search(container.stdout) is None
