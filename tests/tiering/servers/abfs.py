"""Azurite, Microsoft's own emulator of Azure Blob Storage, from npm. It checks credentials."""

import asyncio
import signal
from importlib import import_module
from pathlib import Path
from typing import Any

from tierlog.tests.tiering.servers.server import StoreServer, cached, fetch, program

AZURITE = "azurite@3.37.0"
CONTAINER = "tier"
ACCOUNT = "tierlogtests"
# A key is base64; these spell what they are.
KEY = "dGhlLWFjY291bnQta2V5LW9mLWEtdGVzdA=="
OTHER_KEY = "YW5vdGhlci1hY2NvdW50LWtleS1vZi1hLXRlc3Q="


class AzuriteServer(StoreServer):
    """The server, on a folder."""

    secrets = (KEY, OTHER_KEY)
    end_signal = signal.SIGTERM  # it writes its tables every few seconds, and then

    def command(self) -> list[str]:
        main = azurite() / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
        return [
            program("node"),
            str(main),
            "--blobHost=127.0.0.1",
            f"--blobPort={self.port}",
            f"--location={self.directory}",
            "--skipApiVersionCheck",
            "--disableTelemetry",
            "--silent",
        ]

    def environment(self) -> dict[str, str]:
        return {"AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}"}

    def _connection(self, key: str) -> str:
        endpoint = f"http://127.0.0.1:{self.port}/{ACCOUNT}"
        return (
            f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={key};"
            f"BlobEndpoint={endpoint};"
        )

    def make_root(self) -> None:
        blob: Any = import_module("azure.storage.blob.aio")

        async def make() -> None:
            async with blob.BlobServiceClient.from_connection_string(self._connection(KEY)) as it:
                await it.create_container(CONTAINER)

        asyncio.run(make())

    def properties(self) -> dict[str, str]:
        return {
            "rsm.config.url": f"abfs://{CONTAINER}/broker",
            "rsm.config.option.connection_string": self._connection(KEY),
        }

    def wrong_credentials(self) -> dict[str, str] | None:
        wrong = {"rsm.config.option.connection_string": self._connection(OTHER_KEY)}
        return self.properties() | wrong


def azurite() -> Path:
    """The folder it is installed in, fetched when it is not there yet."""

    def install(folder: Path) -> None:
        command = [program("npm"), "install", "--no-audit", "--no-fund", "--omit=optional"]
        fetch([*command, "--ignore-scripts", "--no-package-lock", AZURITE], folder)

    return cached("azurite-3.37.0", install)
