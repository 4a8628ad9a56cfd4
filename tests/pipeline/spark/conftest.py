"""One Spark session for all tests of a worker, and tiers for them: in a folder and on real S3.

A session takes some seconds of both cores to start, so it has all jars that any test wants.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import cast
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from tierlog.bench.harness.processes.tierlog_node import TierlogNode
from tierlog.pipeline.spark.session import spark_session
from tierlog.pipeline.spark.source import TierlogDataSource
from tierlog.tests.forgotten_sockets import collect_forgotten_sockets
from tierlog.tests.pipeline.spark.folder_tier import Tier
from tierlog.tests.pipeline.spark.small_spark import SMALL_SPARK
from tierlog.tests.pipeline.spark.tiers import TierPlace, broker_on
from tierlog.tests.pipeline.spark.typed.apicurio import Apicurio
from tierlog.tests.pipeline.spark.worker_session import WorkerSession
from tierlog.tests.tiering.servers.s3 import BUCKET, VersityGateway

HERE = Path(__file__).parent
FORGOTTEN_SOCKETS = "unclosed <socket\\.socket .*laddr=\\('127\\.0\\.0\\.1'"
"""PySpark forgets to close the sockets over which rows come from its JVM."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            ignored = f"ignore:{FORGOTTEN_SOCKETS}:ResourceWarning"
            item.add_marker(pytest.mark.filterwarnings(ignored))


@pytest.fixture(scope="module", autouse=True)
def no_forgotten_sockets() -> Iterator[None]:
    """They are collected before another module's tests would pay for them."""
    yield
    collect_forgotten_sockets(FORGOTTEN_SOCKETS)


@pytest.fixture(scope="session")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the Iceberg catalog `lake` of the session keeps its tables."""
    return tmp_path_factory.mktemp("warehouse")


@pytest.fixture(scope="session")
def worker_session(warehouse: Path) -> Iterator[WorkerSession]:
    """A session with the connector, both table formats and `format("tierlog")`."""

    def begin() -> SparkSession:
        session = spark_session(
            "tests",
            master="local[2]",
            jars=("kafka", "iceberg", "delta", "s3", "avro"),
            warehouse=str(warehouse),
            settings={
                **SMALL_SPARK,
                "spark.default.parallelism": "2",
                "spark.sql.globalTempDatabase": "tier",
            },
        )
        session.dataSource.register(TierlogDataSource)
        return session

    shared = WorkerSession(begin)
    yield shared
    shared.stop()


@pytest.fixture(scope="module")
def spark(worker_session: WorkerSession) -> SparkSession:
    """That session; it is begun again if an earlier module has left it broken."""
    return worker_session.session()


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VersityGateway]:
    """A server that speaks S3, signs and checks. Its tests need `requires("go")`."""
    with VersityGateway(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture(scope="session")
def apicurio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apicurio]:
    """A schema registry; each test has subjects of its own. Needs `requires("java", "mvn")`."""
    with Apicurio(tmp_path_factory.mktemp("apicurio")) as running:
        yield running


@pytest.fixture
def tier(tmp_path: Path) -> Tier:
    """A tier in a folder that holds the offsets 0 to 99."""
    made = Tier(tmp_path / "tier")
    made.bucket.put(1, (0, 99))
    made.write()
    return made


@pytest.fixture
def file_tier(tmp_path: Path) -> TierPlace:
    """A tier in a folder, empty."""
    return TierPlace((tmp_path / "remote").as_uri())


@pytest.fixture
def s3_tier(s3: VersityGateway) -> TierPlace:
    """A tier in a bucket, empty."""
    options = cast("dict[str, str]", dict(s3.location.options))
    return TierPlace(f"s3://{BUCKET}/{uuid4().hex}", options)


@pytest.fixture
def broker(tmp_path: Path, file_tier: TierPlace) -> Iterator[TierlogNode]:
    """A broker whose tier is the folder."""
    with broker_on(tmp_path, file_tier) as node:
        yield node


@pytest.fixture
def s3_broker(tmp_path: Path, s3_tier: TierPlace) -> Iterator[TierlogNode]:
    """A broker whose tier is the bucket."""
    with broker_on(tmp_path, s3_tier) as node:
        yield node
