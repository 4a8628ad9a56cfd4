"""docker/Containerfile is built, and what comes of it runs, without an engine.

buildah builds it, runc runs it (`built_image.py`, `runc_container.py`). Not run here: the base that
the Containerfile names, an engine's own `--init`, `HEALTHCHECK` and restarts, and the libraries of
Testcontainers themselves, whose commands and scripts are run word for word.
"""

import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from tierlog.bench.harness.processes.live_files import live_paths
from tierlog.bench.harness.requests.probe import free_port
from tierlog.tests.docker.built_image import BuiltImage
from tierlog.tests.docker.round_trip import log_in, round_trip, stores
from tierlog.tests.docker.runc_container import NAME, RuncContainer, Volume, new_volume
from tierlog.tests.docker.testcontainers.library import CLUSTER_ID, Library, script_of
from tierlog.tests.docker.testcontainers.node import SECRETS
from tierlog.tests.docker.testcontainers.ways import KAFKAS_COMPOSE_FILE, LIBRARIES
from tierlog.tests.tiering.servers.s3 import versitygw

pytestmark = [
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.requires("buildah", "mmdebstrap", "runc", "go"),
    pytest.mark.timeout(1800),
]

_DATA = "/var/lib/kafka/data"
_WITHIN_S = 120.0
_STOPS_WITHIN_S = 20.0
_BYTES_MAX = 200_000_000
_KAFKAS_BYTES = 457_860_000
"""Of apache/kafka with Java 21, uncompressed, as KIP-975 publishes it."""
_LOG_LINE = re.compile(r"\d{4}-\d\d-\d\d ")
_OTHER_ID = "MvDxzVmcRsaTz33bUuRU6A"


@contextmanager
def _built(folder: Path) -> Generator[BuiltImage]:
    image = BuiltImage(folder)
    try:
        yield image
    finally:
        image.remove()


def test_the_image_takes_the_place_of_kafkas(tmp_path: Path) -> None:
    """One build, and one story after the other in what it made."""
    with _built(tmp_path / "build") as image:
        _it_is_small(image)
        _it_keeps_its_records(image, tmp_path)
        _it_runs_where_it_may_write_to_its_volume_only(image, tmp_path)
        _it_has_what_s3_needs(image, tmp_path)
        _it_stops_at_once_where_it_has_not_started(image, tmp_path)
        for number, library in enumerate(LIBRARIES):
            _a_library_starts_it(image, library, tmp_path / f"library-{number}")
        _kafkas_own_compose_file_starts_it(image, tmp_path / "compose")
        _what_is_wrong_is_said_in_a_sentence(image, tmp_path)


def _it_is_small(image: BuiltImage) -> None:
    whole, ours = image.nbytes(), image.nbytes("opt/tierlog")
    print(
        f"the image: {whole / 1e6:.0f} MB, of which tierlog and what it needs {ours / 1e6:.0f} MB;"
        f" apache/kafka: {_KAFKAS_BYTES / 1e6:.0f} MB"
    )
    assert whole < _BYTES_MAX


def _it_keeps_its_records(image: BuiltImage, folder: Path) -> None:
    """The image alone, without any variable, on a volume; then again on the same."""
    assert image.settings.volumes == {_DATA}
    assert image.settings.health == ("CMD", "tierlog-ready")
    volume = Volume(new_volume(folder / "data", image), _DATA)
    port = free_port()
    advertised = {
        "KAFKA_LISTENERS": "HOST://:9092,INSIDE://:9093",
        "KAFKA_ADVERTISED_LISTENERS": f"HOST://localhost:{port},INSIDE://{NAME}:9093",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "HOST:PLAINTEXT,INSIDE:PLAINTEXT",
        "KAFKA_INTER_BROKER_LISTENER_NAME": "INSIDE",
        "KAFKA_LOG4J_ROOT_LOGLEVEL": "DEBUG",
        "KAFKA_LOG4J_LOGGERS": "tierlog.storage=WARN,kafka=TRACE",
    }
    with RuncContainer(image, folder / "first", advertised, volumes=[volume]) as container:
        container.publish({port: 9092})
        container.wait_until(lambda: container.execute("tierlog-ready")[0] == 0)
        assert container.execute("id", "-u") == (0, "1000\n")
        assert container.execute("tierlog-bucket")[0] == 2
        tokens_and_stores = ("python", "-c", "import joserfc, cryptography")
        assert container.execute(*tokens_and_stores) == (0, "")
        cluster_id = round_trip(f"localhost:{port}")
        assert container.execute("tierlog-in-sync", "--wait", "60")[0] == 0
        names = container.execute("tierlog", "topic", "ls", "--names", "-b", f"{NAME}:9093")
        assert names == (0, "greetings\n")
        assert " DEBUG " in container.stderr
        assert " INFO tierlog.storage" not in container.stderr
        stopped = container.stop()
        print(f"the first stop: {stopped.took_s:.2f} s")
        assert stopped.code == 0, container.output
        assert stopped.took_s < _STOPS_WITHIN_S
    with RuncContainer(image, folder / "second", advertised, volumes=[volume]) as container:
        container.publish({port: 9092})
        container.wait_until(lambda: container.execute("tierlog-ready")[0] == 0)
        assert _first_value(f"localhost:{port}") == b"hello"
        assert round_trip(f"localhost:{port}") == cluster_id
        assert container.stop().code == 0, container.output


def _first_value(bootstrap: str) -> bytes | None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none"})
    consumer.assign([TopicPartition("greetings", 0, 0)])
    message = consumer.poll(_WITHIN_S)
    consumer.close()
    return None if message is None else message.value()


def _it_runs_where_it_may_write_to_its_volume_only(image: BuiltImage, folder: Path) -> None:
    """As in docker/compose.yaml and docker/kubernetes.yaml."""
    volume = Volume(new_volume(folder / "only", image), _DATA)
    with RuncContainer(
        image, folder / "read-only", {}, volumes=[volume], is_read_only=True
    ) as container:
        container.wait_until(lambda: container.execute("tierlog-ready")[0] == 0)
        assert container.execute("touch", "/home/appuser/x")[0] == 1
        assert container.execute("tierlog", "cluster", "ping")[0] == 0
        assert container.stop().code == 0, container.output


_PRODUCE = """
from confluent_kafka import Producer
producer = Producer({"bootstrap.servers": "localhost:9092"})
for _ in range(2500):
    producer.produce("history", bytes(1000))
print(producer.flush(60))
"""


def _it_has_what_s3_needs(image: BuiltImage, folder: Path) -> None:
    """A bucket is made and a segment copied: of botocore's services the image has but a few."""
    credentials = {"AWS_ACCESS_KEY_ID": "tierlog", "AWS_SECRET_ACCESS_KEY": "of-a-test"}
    server = {"AWS_ENDPOINT_URL": "http://127.0.0.1:7070", "AWS_DEFAULT_REGION": "us-east-1"}
    tier = {
        "KAFKA_REMOTE_LOG_STORAGE_SYSTEM_ENABLE": "true",
        "KAFKA_LOG_REMOTE_STORAGE_ENABLE": "true",
        "KAFKA_LOG_SEGMENT_BYTES": "1048576",
        "KAFKA_RSM_CONFIG_URL": "s3://tierlog/one",
    }
    store = folder / "store"
    store.mkdir()
    gateway = (str(versitygw()), "--port", "127.0.0.1:7070", "--quiet", "posix", str(store))
    keys = {"ROOT_ACCESS_KEY": "tierlog", "ROOT_SECRET_KEY": "of-a-test"}
    with (
        RuncContainer(image, folder / "s3", {**credentials, **server, **tier}) as container,
        container.neighbour(gateway, keys),
    ):
        container.wait_until(lambda: container.execute("tierlog-ready")[0] == 0)
        assert container.execute("tierlog-bucket", "tierlog") == (0, "The bucket tierlog is new.\n")
        assert container.from_next_to_it(_PRODUCE) == "0\n"
        container.wait_until(lambda: any(live_paths(store, "**/*.manifest")))
        assert container.stop().code == 0, container.output


def _it_stops_at_once_where_it_has_not_started(image: BuiltImage, folder: Path) -> None:
    """A member of a cluster that waits for the others is stopped."""
    waiting = {
        "CLUSTER_ID": CLUSTER_ID,
        "KAFKA_NODE_ID": "1",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_LISTENERS": "PLAINTEXT://:9092,CONTROLLER://:9093",
        "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://{NAME}:9092,CONTROLLER://{NAME}:9093",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": f"1@{NAME}:9093,2@nobody:9093,3@nobody:9093",
    }
    with RuncContainer(image, folder / "waiting", waiting) as container:
        container.wait_until(lambda: " is now STARTING" in container.stderr)
        code, said = container.execute("tierlog-ready")
        print(f"tierlog-ready before that: {said.strip()}")
        assert code == 1
        stopped = container.stop()
        print(f"the stop before it was ready: {stopped.took_s:.2f} s")
        assert stopped.code == 0, container.output
        assert stopped.took_s < _STOPS_WITHIN_S


def _a_library_starts_it(image: BuiltImage, library: Library, folder: Path) -> None:
    """Its variables, its command and its script; what it waits for; then its user's client."""
    published = {each: free_port() for each in library.ports}
    port = published[library.port]
    with RuncContainer(image, folder, library.environment, library.command) as container:
        container.publish({ours: theirs for theirs, ours in published.items()})
        if library.login is not None:
            for name, content in stores("localhost", library.login.store_password).items():
                container.put(f"{SECRETS}/{name}", content, 0o644)
        script = script_of(library, "localhost", published, NAME)
        if library.name.startswith("Rust"):
            _write_inside(container, library.script_path, script)
        else:
            container.put(library.script_path, script, 0o777)
        container.wait_until(lambda: _is_awaited_line_on_stdout(library, container))
        cluster_id = round_trip(f"localhost:{port}")
        print(f"{library.name}: awaited line on stdout, a record there and back")
        if library.login is not None:
            log_in(f"localhost:{published[library.login.port]}", library.login, folder)
            print("its user logs in")
        assert cluster_id == library.cluster_id or library.cluster_id is None
        assert container.execute("tierlog-ready")[0] == 0
        if library.other_port is not None:
            assert container.execute("bash", "-c", f"</dev/tcp/{NAME}/{library.other_port}")[0] == 0


def _is_awaited_line_on_stdout(library: Library, container: RuncContainer) -> bool:
    """A library without such a line waits for its ports; here, for the broker to be ready."""
    if library.awaited is None:
        return container.execute("tierlog-ready")[0] == 0
    return any(library.awaited.search(line) for line in container.stdout.splitlines())


def _write_inside(container: RuncContainer, place: str, text: str) -> None:
    """Testcontainers for Rust copies by a command in the container, as its user."""
    command = f'printf %s "$1" > {place}.new && mv {place}.new {place}'
    container.wait_until(lambda: container.execute("true")[0] == 0)
    assert container.execute("sh", "-c", command, "sh", text) == (0, "")


def _kafkas_own_compose_file_starts_it(image: BuiltImage, folder: Path) -> None:
    """Its single node with plaintext; the client is in its network, at the port of the file."""
    program = "from tierlog.tests.docker.round_trip import round_trip as r;"
    program += "print(r('localhost:9092'))"
    with RuncContainer(image, folder, KAFKAS_COMPOSE_FILE) as container:
        container.wait_until(lambda: "Kafka Server started" in container.stdout)
        assert container.from_next_to_it(program) == f"{CLUSTER_ID}\n"
        print("Kafka's plaintext compose file: a record there and back at localhost:9092")
        code, said = container.execute("tierlog", "topic", "ls", "--names", "-b", f"{NAME}:19092")
        assert (code, said) == (0, "greetings\n")
        assert container.stop().code == 0, container.output


_REFUSED: Mapping[str, tuple[dict[str, str], str]] = {
    "a level that is none": (
        {"KAFKA_LOG4J_ROOT_LOGLEVEL": "LOUD"},
        "KAFKA_LOG4J_ROOT_LOGLEVEL: 'LOUD' states no log level",
    ),
    "a node id that is no number": ({"KAFKA_NODE_ID": "one"}, "node.id"),
    "a node id out of range": ({"KAFKA_NODE_ID": "99999999999"}, "node.id"),
    "a negative size": ({"KAFKA_LOG_SEGMENT_BYTES": "-1"}, "log.segment.bytes"),
    "a port out of range": ({"KAFKA_LISTENERS": "PLAINTEXT://:99999"}, "99999"),
    "a port of metrics out of range": (
        {"KAFKA_TIERLOG_METRICS_PORT": "99999"},
        "tierlog.metrics.port",
    ),
    "a listener that is none": ({"KAFKA_LISTENERS": "nonsense"}, "nonsense"),
    "a protocol that is none": (
        {
            "KAFKA_LISTENERS": "A://:9092",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "A:NONSENSE",
        },
        "NONSENSE",
    ),
    "a member without an id": ({"KAFKA_PROCESS_ROLES": "broker"}, "CLUSTER_ID"),
}


def _what_is_wrong_is_said_in_a_sentence(image: BuiltImage, folder: Path) -> None:
    ours = new_volume(folder / "ours", image)
    for number, (what, (variables, part)) in enumerate(_REFUSED.items()):
        with RuncContainer(image, folder / f"refused-{number}", variables) as container:
            _check_refused(container, what, part)
    read_only = [Volume(ours, _DATA, is_read_only=True)]
    with RuncContainer(image, folder / "read", {}, volumes=read_only) as container:
        _check_refused(container, "a volume that is read-only", _DATA)
    roots = folder / "roots"
    roots.mkdir(mode=0o755)
    with RuncContainer(image, folder / "root-s", {}, volumes=[Volume(roots, _DATA)]) as container:
        _check_refused(container, "a volume of root's", _DATA)
    (ours / "meta.properties").write_text(f"version=1\ncluster.id={_OTHER_ID}\nnode.id=1\n")
    stated = {"CLUSTER_ID": CLUSTER_ID}
    with RuncContainer(image, folder / "other", stated, volumes=[Volume(ours, _DATA)]) as container:
        _check_refused(container, "another cluster's volume", _OTHER_ID)


def _check_refused(container: RuncContainer, what: str, part: str) -> None:
    """Exit code 1, nothing on stdout, and one sentence that has `part`."""
    code = container.wait()
    said = [line for line in container.stderr.splitlines() if not _LOG_LINE.match(line)]
    print(f"{what}: {' / '.join(said)}")
    assert (code, container.stdout, len(said)) == (1, "", 1), f"{what}: {code} {container.output}"
    assert part in said[0]
