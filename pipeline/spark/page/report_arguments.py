"""The arguments of jobs that write a report, and the atomic write of its HTML page."""

import os
from argparse import ArgumentParser

from ....clients.errors import ErrorCode, KafkaError
from ....clients.runtime.absolute_path import absolute_path
from ....storage.files import OsFiles
from ....tiering.tools.terminal import Output
from ..arguments.tier_arguments import add_tier_arguments


def add_report_arguments(parser: ArgumentParser) -> None:
    """Add the arguments that select the tier, its topics and the output."""
    add_tier_arguments(parser)
    parser.add_argument(
        "--topic", metavar="NAME", action="append", default=[], help="only this topic; repeatable"
    )
    parser.add_argument("--html", metavar="FILE", help="write a report with plots there")
    parser.add_argument("--json", action="store_true", help="print lines of JSON, for machines")
    parser.add_argument(
        "--dry-run", action="store_true", help="print what would be read, and read no records"
    )


def check_place(path: str, option: str = "--html") -> None:
    """Raise KafkaError if the page's folder does not exist; called first, as reading takes long."""
    folder = os.path.dirname(absolute_path(path))
    if not OsFiles().is_directory(folder):
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"{option} {path}: there is no folder {folder} to write it to.",
        )


def save_page(path: str, html: str, output: Output, option: str = "--html") -> None:
    """Write a page, which replaces one that is there. Raises KafkaError(INVALID_CONFIG)."""
    try:
        OsFiles().atomic_replace(path, html.encode(), durable=False)
    except OSError as error:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"{option} {path} cannot be written: {error.strerror}."
        ) from error
    output.line(f"the report is in {path}")
