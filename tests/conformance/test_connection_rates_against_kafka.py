"""Connections that an address opens too fast are kept waiting and closed as by Kafka (KIP-612)."""

import asyncio
from typing import NamedTuple

import pytest

from tierlog.clients.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    OpData,
)
from tierlog.clients.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

from ..broker_process import RawClient
from ..waiting import wait_until
from .side_by_side import both_brokers

pytestmark = pytest.mark.requires("java", "mvn")

ADDRESS, RATE, AT_ONCE = "127.0.0.1", "connection_creation_rate", 25
DELAY_MAX_S = 1.0


class Outcome(NamedTuple):
    """How many of many connections at once were served; how long the others were kept."""

    served: int
    kept_s: list[float]


def limit(client: RawClient, rate: float | None) -> None:
    op = OpData(key=RATE, value=rate or 0.0, remove=rate is None)
    entity = [EntityData(entity_type="ip", entity_name=ADDRESS)]
    request = AlterClientQuotasRequest(entries=[EntryData(entity=entity, ops=[op])])
    assert client.ask(request, 1, AlterClientQuotasResponse).entries[0].error_code == 0


def connect_at_once(port: int) -> Outcome:
    """Open many connections, ask on each, and look how it is answered."""
    clock = asyncio.new_event_loop()
    clients = [(RawClient(port), clock.time()) for _ in range(AT_ONCE)]
    asked = [(each, begun, each.send(ApiVersionsRequest(), 0)) for each, begun in clients]
    served, kept_s = 0, list[float]()
    for client, begun, header in asked:
        with client:
            try:
                assert isinstance(client.receive(header), ApiVersionsResponse)
                served += 1
            except (EOFError, ConnectionResetError):
                kept_s.append(clock.time() - begun)
    clock.close()
    return Outcome(served, kept_s)


def test_an_address_gets_its_rate_and_what_comes_faster_is_closed_after_a_while(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    outcomes: list[Outcome] = []
    with both_brokers(tmp_path_factory.mktemp("both")) as ports:
        for port in ports:
            with RawClient(port) as client:
                assert connect_at_once(port).served == AT_ONCE
                limit(client, 1.0)

                def is_limited(port: int = port) -> bool:
                    return connect_at_once(port).served < AT_ONCE

                wait_until(is_limited, 20, "the quota is not obeyed")
                outcomes.append(connect_at_once(port))
                limit(client, None)

                def is_free(port: int = port) -> bool:
                    return connect_at_once(port).served == AT_ONCE

                wait_until(is_free, 20, "the quota is not gone")
    for outcome in outcomes:
        # A new second may begin meanwhile, and there may be a slow one among them.
        assert outcome.served <= 5
        assert max(outcome.kept_s) > DELAY_MAX_S / 2
        assert sorted(outcome.kept_s)[len(outcome.kept_s) // 2] < DELAY_MAX_S + 1
