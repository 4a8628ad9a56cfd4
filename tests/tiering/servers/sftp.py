"""Two SSH servers with SFTP: asyncssh, from PyPI, and OpenSSH where it is installed.

`python -m tierlog.tests.tiering.servers.sftp PORT FOLDER` is the first of them.
"""

import asyncio
import getpass
import os
import sys
from pathlib import Path

import asyncssh
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from tierlog.tests.tiering.servers.server import StoreServer, program

USER = "tierlog"
PASSWORD = "the-password-of-a-test"
AUTHORIZED = "authorized"
_PRIVILEGE_SEPARATION = Path("/run/sshd")
"""The empty folder into which sshd locks its child; who is not root has none."""


class AsyncSshServer(StoreServer):
    """asyncssh in a process of its own, which lets one user in by password."""

    secrets: tuple[str, ...] = (PASSWORD, "another-password-of-a-test")

    def command(self) -> list[str]:
        module = "tierlog.tests.tiering.servers.sftp"
        return [sys.executable, "-m", module, str(self.port), str(self._folder)]

    @property
    def _folder(self) -> Path:
        return self.directory / "home"

    def make_root(self) -> None:
        self._folder.mkdir(exist_ok=True)

    def properties(self) -> dict[str, str]:
        return {
            "rsm.config.url": f"sftp://127.0.0.1{self._folder}/tier",
            "rsm.config.option.port": str(self.port),
            "rsm.config.option.username": USER,
            "rsm.config.option.password": PASSWORD,
            "rsm.config.option.look_for_keys": "false",
            "rsm.config.option.allow_agent": "false",
        }

    def wrong_credentials(self) -> dict[str, str] | None:
        return self.properties() | {"rsm.config.option.password": "another-password-of-a-test"}


class KeyedAsyncSshServer(AsyncSshServer):
    """The same, which lets its user in by a key."""

    secrets = ()

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        make_key(directory / "user_key")
        make_key(directory / "other_key")
        (directory / AUTHORIZED).write_bytes((directory / "user_key.pub").read_bytes())

    def properties(self) -> dict[str, str]:
        return self._by_key("user_key")

    def wrong_credentials(self) -> dict[str, str] | None:
        return self._by_key("other_key")

    def _by_key(self, name: str) -> dict[str, str]:
        kept = super().properties()
        del kept["rsm.config.option.password"]
        return kept | {"rsm.config.option.key_filename": str(self.directory / name)}


class OpenSshServer(StoreServer):
    """sshd, which lets the user of the tests in by a key."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        for name in ("host_key", "user_key", "other_key"):
            make_key(directory / name)
        (directory / "authorized").write_text((directory / "user_key.pub").read_text())

    def command(self) -> list[str]:
        settings = {
            "ListenAddress": "127.0.0.1",
            "HostKey": self.directory / "host_key",
            "AuthorizedKeysFile": self.directory / "authorized",
            "PidFile": self.directory / "sshd.pid",
            "StrictModes": "no",
            "UsePAM": "no",
            "PasswordAuthentication": "no",
            "PermitRootLogin": "prohibit-password",
            "Subsystem": "sftp internal-sftp",
        }
        options = [f"-o{name}={value}" for name, value in settings.items()]
        # It wants to be called by its full path, and not to become a daemon.
        return [program("sshd"), "-D", "-e", "-f", "/dev/null", "-p", str(self.port), *options]

    def start(self) -> None:
        if os.geteuid() == 0:
            # Its service makes it at every boot; where only the package is, nothing has.
            _PRIVILEGE_SEPARATION.mkdir(mode=0o755, exist_ok=True)
        super().start()

    def make_root(self) -> None:
        (self.directory / "home").mkdir(exist_ok=True)

    def properties(self) -> dict[str, str]:
        return {
            "rsm.config.url": f"sftp://127.0.0.1{self.directory}/home/tier",
            "rsm.config.option.port": str(self.port),
            "rsm.config.option.username": getpass.getuser(),
            "rsm.config.option.key_filename": str(self.directory / "user_key"),
            "rsm.config.option.look_for_keys": "false",
            "rsm.config.option.allow_agent": "false",
        }

    def wrong_credentials(self) -> dict[str, str] | None:
        other = {"rsm.config.option.key_filename": str(self.directory / "other_key")}
        return self.properties() | other


def make_key(path: Path) -> None:
    """Write a new private key, and its public half beside it."""
    private = Ed25519PrivateKey.generate()
    path.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    path.chmod(0o600)
    public = private.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    path.with_name(path.name + ".pub").write_bytes(public)


class _Door(asyncssh.SSHServer):
    def begin_auth(self, username: str) -> bool:
        return True

    def password_auth_supported(self) -> bool:
        return True

    def validate_password(self, username: str, password: str) -> bool:
        return (username, password) == (USER, PASSWORD)


async def serve(port: int, folder: Path) -> None:
    """Serve SFTP until the process is ended."""
    key_path = folder.parent / "host_key"
    if not key_path.exists():
        make_key(key_path)
    authorized = folder.parent / AUTHORIZED
    await asyncssh.listen(
        "127.0.0.1",
        port,
        server_factory=_Door,
        server_host_keys=[key_path],
        authorized_client_keys=str(authorized) if authorized.exists() else None,
        sftp_factory=True,
    )
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), Path(sys.argv[2])))
