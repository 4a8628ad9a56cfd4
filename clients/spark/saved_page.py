"""Where a job's page goes: to a file that is there whole or not at all."""

import os

from ...storage.files import OsFiles
from ...tiering.tools.terminal import Output
from ..errors import ErrorCode, KafkaError


def check_place(path: str) -> None:
    """Raise KafkaError if no page can be written there: before an hour of reading, not after it."""
    folder = os.path.dirname(os.path.abspath(path))
    if not OsFiles().is_directory(folder):
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"--html {path}: there is no folder {folder} to write it to."
        )


def save_page(path: str, html: str, output: Output) -> None:
    """Write a page. Raises KafkaError with one plain sentence."""
    try:
        OsFiles().atomic_replace(path, html.encode(), durable=False)
    except OSError as error:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"--html {path} cannot be written: {error.strerror}."
        ) from error
    output.line(f"the report is in {path}")
