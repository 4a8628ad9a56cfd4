"""What lies in a remote tier, seen from outside: a directory, or a bucket of an object store."""

import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from tierlog.tests.scenarios.object_store import BUCKET, ObjectStore


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

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...


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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """The directory goes with the test's."""


class BucketTier:
    """A tier in an S3 that is a process of its own; it is out of reach while that stands still."""

    def __init__(self, directory: Path) -> None:
        self._store = ObjectStore(directory)

    @property
    def properties(self) -> Mapping[str, str]:
        return self._store.properties

    def names(self) -> list[str]:
        prefix = f"{BUCKET}/broker/"
        return sorted(key.removeprefix(prefix) for key in self._store.bucket().find(BUCKET))

    def read(self, key: str) -> bytes:
        return self._store.bucket().cat_file(f"{BUCKET}/broker/{key}")

    def __enter__(self) -> Self:
        self._store.__enter__()
        self._store.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._store.__exit__(kind, error, traceback)


STORES: Mapping[str, type[DirectoryTier] | type[BucketTier]] = {
    "file": DirectoryTier,
    "s3": BucketTier,
}
