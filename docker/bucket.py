#!/usr/bin/env python3
"""`tierlog-bucket NAME`: makes a bucket on an S3 server, unless it is there; runs once, then ends.

Credentials and address are in the variables that every client of S3 reads: `AWS_ACCESS_KEY_ID`,
`AWS_SECRET_ACCESS_KEY`, `AWS_ENDPOINT_URL`. It waits a minute for a server that is starting.

Exit code 0 if the bucket is there and these credentials may list it, 1 otherwise.
"""

import os
import sys
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Protocol, cast

_SERVER_WITHIN_S = 60.0
_POLL_S = 0.5


class Buckets(Protocol):
    """What is needed of s3fs."""

    def mkdir(self, path: str) -> None:
        """Make a bucket. Raises FileExistsError if it is there."""

    def ls(self, path: str) -> Sequence[object]:
        """The objects of a bucket. Raises OSError."""
        ...


def make_bucket(buckets: Buckets, name: str) -> str:
    """Make the bucket if it is missing; returns what happened. Raises OSError."""
    try:
        buckets.ls(name)
    except FileNotFoundError:
        try:
            buckets.mkdir(name)
        except FileExistsError:
            buckets.ls(name)  # another one was faster
        return f"The bucket {name} is new."
    return f"The bucket {name} is there."


def main(arguments: Sequence[str]) -> int:
    """Make the bucket, print, and return the exit code."""
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print("usage: tierlog-bucket NAME\n\n" + (__doc__ or ""))
        return 2
    connect = cast("Callable[..., Buckets]", import_module("s3fs").S3FileSystem)
    unreachable = cast("type[Exception]", import_module("botocore.exceptions").BotoCoreError)
    endpoint = os.environ.get("AWS_ENDPOINT_URL")
    deadline = time.monotonic() + _SERVER_WITHIN_S
    while True:
        try:
            buckets = connect(
                endpoint_url=endpoint, use_listings_cache=False, skip_instance_cache=True
            )
            print(make_bucket(buckets, arguments[0]))
            return 0
        except PermissionError as error:
            print(f"The S3 server refuses: {error}. Check AWS_ACCESS_KEY_ID and its secret.")
            return 1
        except (OSError, unreachable) as error:
            if time.monotonic() >= deadline:
                print(f"No answer from the S3 server at {endpoint}: {error}")
                return 1
            time.sleep(_POLL_S)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
