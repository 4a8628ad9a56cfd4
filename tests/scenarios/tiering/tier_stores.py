"""What lies in a remote tier, seen from outside: a directory, or a bucket of an object store."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, Self

from tierlog.tests.scenarios.object_store import BUCKET, ObjectStore
from tierlog.tests.scenarios.tiering.relay import Relay


class TierStore(Protocol):
    """A tier that a broker is pointed at."""

    @property
    def properties(self) -> Mapping[str, str]:
        """What the broker must be told."""
        ...

    def names(self) -> list[str]:
        """The names of all objects, each from the folder of its partition on."""
        ...

    def read(self, key: str) -> bytes: ...

    def lose(self) -> None:
        """Let it be out of the broker's reach."""
        ...

    def come_back(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *exception: object) -> None: ...


class DirectoryTier:
    """A tier in a directory: it is out of reach while its name is taken by a file."""

    def __init__(self, directory: Path) -> None:
        self._root = directory / "tier"
        self._aside = directory / "tier-aside"

    @property
    def properties(self) -> Mapping[str, str]:
        return {"rsm.config.url": self._root.resolve().as_uri()}

    def names(self) -> list[str]:
        # Unlike a glob, a walk does not mind that folders go while it looks.
        return sorted(
            f"{Path(folder).name}/{name}"
            for folder, _, names in os.walk(self._root)
            for name in names
        )

    def read(self, key: str) -> bytes:
        return (self._root / key).read_bytes()

    def lose(self) -> None:
        self._root.rename(self._aside)
        self._root.write_text("not a directory")

    def come_back(self) -> None:
        self._root.unlink()
        self._aside.rename(self._root)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        """The directory goes with the test's."""


class BucketTier:
    """A tier in an S3 that is a process of its own; the broker's way there can be cut."""

    def __init__(self, directory: Path) -> None:
        self._store = ObjectStore(directory)
        self._way = Relay(self._store.port)

    @property
    def properties(self) -> Mapping[str, str]:
        endpoint = f"http://127.0.0.1:{self._way.port}"
        return {**self._store.properties, "rsm.config.option.endpoint_url": endpoint}

    def names(self) -> list[str]:
        prefix = f"{BUCKET}/broker/"
        return sorted(key.removeprefix(prefix) for key in self._store.bucket().find(BUCKET))

    def read(self, key: str) -> bytes:
        return self._store.bucket().cat_file(f"{BUCKET}/broker/{key}")

    def lose(self) -> None:
        self._way.cut()

    def come_back(self) -> None:
        self._way.open()

    def __enter__(self) -> Self:
        self._store.start()
        self._way.open()
        return self

    def __exit__(self, *exception: object) -> None:
        self._way.cut()
        self._store.stop()


STORES: Mapping[str, type[DirectoryTier] | type[BucketTier]] = {
    "file": DirectoryTier,
    "s3": BucketTier,
}
