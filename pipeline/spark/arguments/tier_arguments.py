"""The arguments that name a Spark job's tier: `--tier URL`, or a broker's server.properties.

    --tier s3://bucket/prefix --option endpoint_url=http://10.0.0.5:9000
    --config server.properties

A plain path means local files. Options are passed to the file system, as with
`rsm.config.option.<name>`. Keep secrets out of the command line, which the shell saves in its
history: put them in server.properties, or where the store's own library reads them
(AWS_ACCESS_KEY_ID and similar variables).
"""

import os
from argparse import ArgumentParser, Namespace

from ....clients.errors import ErrorCode, KafkaError
from ....clients.properties import parse_properties
from ....clients.runtime.absolute_path import absolute_path
from ....storage.files import OsFiles
from ....tiering.store.remote_url import OPTION_PREFIX, URL_PROPERTY, RemoteUrl, remote_url

_PREFIX = "rsm.config."


def add_tier_arguments(parser: ArgumentParser, *, or_table: bool = False) -> None:
    """Add the arguments that name a tier, or optionally a table."""
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--tier", metavar="URL", help="the tier: s3://bucket/prefix, or a folder")
    where.add_argument(
        "--config", metavar="FILE", help="the server.properties of the tier's broker"
    )
    if or_table:
        where.add_argument("--table", help="a path or URL; for Iceberg catalog.namespace.table")
    parser.add_argument(
        "--option",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="an option of the tier's file system, such as endpoint_url=http://10.0.0.5:9000; "
        "may be given several times (no secrets: they belong in --config or the environment)",
    )


def stated_tier(options: Namespace) -> RemoteUrl:
    """The tier that the arguments name. Raises KafkaError(INVALID_CONFIG)."""
    properties: dict[str, str] = {}
    if options.config is not None:
        properties = {
            name.removeprefix(_PREFIX): value
            for name, value in parse_properties(_text(options.config)).items()
            if name.startswith(_PREFIX)
        }
        if not properties.get(URL_PROPERTY, "").strip():
            raise _bad(f"The file {options.config} names no tier: it does not set rsm.config.url.")
    elif "://" in options.tier:
        properties[URL_PROPERTY] = options.tier
    else:
        properties[URL_PROPERTY] = f"file://{absolute_path(os.path.expanduser(options.tier))}"
    for each in options.option:
        name, equals, value = each.partition("=")
        if not equals or not name.strip():
            raise _bad(f"--option {each} is not of the form name=value.")
        properties[OPTION_PREFIX + name.strip()] = value
    return remote_url(properties)


def _text(file: str) -> str:
    try:
        return OsFiles().read(file).decode()
    except OSError as error:
        raise _bad(f"The file {file} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise _bad(f"The file {file} is not UTF-8 text.") from error


def _bad(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, message)
