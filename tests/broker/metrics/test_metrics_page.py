"""docs/metrics.md lists every metric that a broker has, and none that it does not have."""

import re
from pathlib import Path

from tierlog.broker.metrics.metrics import Sample
from tierlog.clients.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

from ...broker_process import BrokerThread, RawClient
from ...house_rules import ROOT

_ROW = re.compile(r"^\| `([^`]+:type=[^`]+)` \| ([^|]+) \|", re.MULTILINE)
_ONLY_ONCE_USED = {"kafka.server:type=client-metrics"}
"""Counters that are made when the first client pushes."""


def listed() -> set[tuple[str, str]]:
    page = (ROOT / "docs" / "metrics.md").read_text()
    return {
        (name, attribute)
        for name, attributes in _ROW.findall(page)
        for attribute in attributes.strip().split(", ")
    }


def generic(sample: Sample) -> tuple[str, str]:
    """The MBean's type and name, without what tells topics, requests and the like apart."""
    domain, _, properties = sample.name.partition(":")
    kept = [each for each in properties.split(",") if each.startswith(("type=", "name="))]
    return f"{domain}:{','.join(kept)}", sample.attribute


def test_the_page_lists_every_metric_and_no_other(tmp_path: Path) -> None:
    tier = {"rsm.config.url": (tmp_path / "remote").as_uri()}
    with BrokerThread(tmp_path / "logs", tier) as broker, RawClient(broker.port) as client:
        client.ask(
            ApiVersionsRequest(client_software_name="x", client_software_version="1"),
            4,
            ApiVersionsResponse,
        )

        async def read() -> list[Sample]:
            assert broker.broker is not None
            metrics = broker.broker.metrics
            return metrics.samples()

        found = {generic(sample) for sample in broker.run(read())}
    retention = "kafka.log.remote:type=RemoteLogManager,name="
    found |= {(f"{retention}{which}RetentionSizeInPercent", "Value") for which in ("", "Local")}
    assert found - listed() == set()
    unseen = listed() - found
    assert {name.partition(",")[0] for name, _ in unseen} <= _ONLY_ONCE_USED
