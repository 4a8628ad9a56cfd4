"""The table of served APIs agrees with the messages, and costs nothing that nobody asked for."""

import subprocess
import sys

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.protocol.api import (
    APIS,
    SERVED,
    SERVED_ON,
    Api,
    ApiKey,
    ListenerKind,
    request_class,
    response_class,
)
from tierlog.clients.protocol.schema import is_flexible, version_range
from tierlog.tests.house_rules import ROOT


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_what_is_in_the_table_can_be_read_and_answered(api: Api) -> None:
    for cls in (request_class(api.key), response_class(api.key)):
        assert cls.api_key == api.key
        versions = version_range(cls.versions)
        # Produce 0 to 2 are announced for old librdkafka's sake only (KAFKA-18659).
        lowest = 3 if api.key == ApiKey.PRODUCE else api.lowest_version
        assert versions.lowest == lowest
        # InitProducerId 6 is defined and not announced yet.
        highest = 6 if api.key == ApiKey.INIT_PRODUCER_ID else api.highest_version
        assert versions.highest == highest
        for version in range(versions.lowest, versions.highest + 1):
            assert is_flexible(cls, version) == api.is_flexible(version)


def test_an_api_that_is_not_in_the_table_has_no_messages() -> None:
    for find in (request_class, response_class):
        with pytest.raises(KafkaError) as raised:
            find(ApiKey.SHARE_FETCH)
        assert raised.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_a_controller_takes_what_administrators_ask_and_nothing_of_clients() -> None:
    of_brokers, of_controllers = (SERVED_ON[kind].keys() for kind in ListenerKind)
    assert of_brokers | of_controllers == SERVED.keys()
    shared = {ApiKey.API_VERSIONS, ApiKey.CREATE_TOPICS, ApiKey.DESCRIBE_QUORUM}
    assert shared < of_controllers & of_brokers
    # The Fetch of the metadata log is not that of clients.
    assert not of_controllers & {ApiKey.PRODUCE, ApiKey.METADATA, ApiKey.FETCH}


def test_the_edges_of_a_range_are_served_and_nothing_beyond() -> None:
    fetch = SERVED[ApiKey.FETCH]
    assert [fetch.serves(version) for version in (-1, 3, 4, 18, 19)] == [
        False,
        False,
        True,
        True,
        False,
    ]


def test_the_table_can_be_read_without_importing_a_message() -> None:
    program = (
        "import sys\n"
        "from tierlog.clients.protocol import api, codec, connection, header\n"
        "print([name for name in sys.modules if '.messages.' in name])"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(ROOT / ".namespace")},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert answer.stdout.strip() == "[]"
