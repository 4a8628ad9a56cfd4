"""Iceberg's own REST server, with jars from Maven Central: its catalog is in SQLite, its tables in
S3. The same jars have SQLite's driver, for a catalog that is reached by JDBC.
"""

import hashlib
import shutil
from pathlib import Path

from tierlog.tests.tiering.servers.s3 import BUCKET, KEY, SECRET, VersityGateway
from tierlog.tests.tiering.servers.server import StoreServer, cached, fetch, program

_RECIPE = Path(__file__).with_name("rest_catalog.xml")


class RestCatalog(StoreServer):
    """The server: the files of its tables are in the bucket of a gateway."""

    secrets = (SECRET,)

    def __init__(self, directory: Path, store: VersityGateway) -> None:
        super().__init__(directory)
        self._store = store

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def reader_settings(self) -> dict[str, str]:
        """What a client of this catalog, which hands out no credentials, has to know of S3."""
        return {
            "s3.endpoint": f"http://127.0.0.1:{self._store.port}",
            "s3.path-style-access": "true",
            "client.region": "us-east-1",
        }

    def command(self) -> list[str]:
        flags = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        classes = f"{catalog_jars()}/*"
        return [
            program("java"),
            *flags,
            "-cp",
            classes,
            "org.apache.iceberg.rest.RESTCatalogServer",
        ]

    def environment(self) -> dict[str, str]:
        settings = {
            **self.reader_settings,
            "rest.port": str(self.port),
            "uri": f"jdbc:sqlite:{self.directory / 'catalog.db'}",
            "warehouse": f"s3://{BUCKET}/rest",
            "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            "s3.access-key-id": KEY,
            "s3.secret-access-key": SECRET,
        }
        # The server reads a setting `a.b-c` as CATALOG_A_B__C.
        return {
            "CATALOG_" + name.replace("-", "__").replace(".", "_").upper(): value
            for name, value in settings.items()
        }

    def make_root(self) -> None:
        """Its root is the bucket."""

    def properties(self) -> dict[str, str]:
        return self._store.properties()

    def wrong_credentials(self) -> dict[str, str] | None:
        return None


def sqlite_driver() -> Path:
    """The jar of SQLite's JDBC driver."""
    (path,) = catalog_jars().glob("sqlite-jdbc-*.jar")
    return path


def catalog_jars() -> Path:
    """The folder with the server's jars, fetched when it is not there yet (130 MB)."""
    version = hashlib.sha256(_RECIPE.read_bytes()).hexdigest()[:16]

    def download(folder: Path) -> None:
        recipe = folder / "pom.xml"
        shutil.copyfile(_RECIPE, recipe)
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
        fetch([program("mvn"), "--quiet", "--batch-mode", f"--file={recipe}", *goal], folder)

    return cached(f"rest-catalog-{version}", download)
