"""A path that a person states, made absolute: what they see is what is used, whatever comes."""

import os

from ..errors import ErrorCode, KafkaError


def absolute_path(path: str) -> str:
    """The path from the root. Raises KafkaError(INVALID_CONFIG) for `x` where nothing can be.

    A directory that was removed while a shell was in it is no place to begin a path from.
    """
    try:
        return os.path.abspath(path)
    except FileNotFoundError:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"The current directory is gone, and {path} would be in it: change to a directory that"
            " is there, or state an absolute path.",
        ) from None
