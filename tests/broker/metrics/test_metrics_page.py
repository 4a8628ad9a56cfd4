"""docs/metrics.md lists every metric that a broker has, and none that it does not have."""

import re
from pathlib import Path

from tierlog.bench.harness.requests.probe import free_port
from tierlog.broker.metrics.metrics import Sample
from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tierlog.storage.directory.log_dir import LogDir, MetaProperties
from tierlog.storage.files import OsFiles

from ...broker_process import BrokerThread, RawClient
from ...house_rules import ROOT
from ...waiting import wait_until

_ROW = re.compile(r"^\| `([^`]+:type=[^`]+)` \| ([^|]+) \|", re.MULTILINE)
_ONLY_ONCE_USED = {"kafka.server:type=client-metrics"}
"""Counters that are made when the first client pushes."""
_OF_A_MEMBER = {
    "kafka.controller:type=KafkaController",
    "kafka.server:type=raft-metrics",
    "kafka.server:type=broker-metadata-metrics",
}

_OF_SASL = (
    "kafka.server:type=socket-server-metrics,name=successful-",
    "kafka.server:type=socket-server-metrics,name=failed-reauthentication-",
    "kafka.server:type=socket-server-metrics,name=expired-connections-",
)
"""What only a broker with a listener that asks for names counts; how their names begin."""
_OF_REPLICAS = (
    "kafka.server:type=ReplicaFetcherManager",
    "kafka.server:type=ReplicaManager,",
    "kafka.log:type=LogManager,name=OfflineLogDirectoryCount",
    "kafka.server:type=FollowerReplication",
    "kafka.server:type=LeaderReplication",
    "kafka.server:type=BrokerTopicMetrics,name=ReplicationBytes",
)
"""What only a broker among others counts; how their names begin."""


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
    unseen = {each for each in listed() - found if not each[0].startswith(_OF_REPLICAS + _OF_SASL)}
    types = {name.partition(",")[0] for name, _ in unseen}
    assert types <= _ONLY_ONCE_USED | _OF_A_MEMBER


def test_a_member_of_a_cluster_has_the_metrics_of_its_section(tmp_path: Path) -> None:
    port = free_port()
    properties = {
        "process.roles": "controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"CONTROLLER://127.0.0.1:{port}",
    }
    directory = LogDir(OsFiles(), str(tmp_path))
    directory.write_meta_properties(MetaProperties("5L6g3nShT-eMCtK--X86sw", 1, Uuid(b"d" * 16)))
    with BrokerThread(tmp_path, properties) as node:

        async def read() -> list[Sample]:
            assert node.broker is not None
            return node.broker.metrics.samples()

        def samples() -> dict[str, float]:
            return {sample.name: sample.value for sample in node.run(read())}

        names = {generic(sample) for sample in node.run(read())}
        of_a_member = {
            (name, attribute) for name, attribute in names if name.partition(",")[0] in _OF_A_MEMBER
        }
        section = {each for each in listed() if each[0].partition(",")[0] in _OF_A_MEMBER}
        assert of_a_member == section
        active = "kafka.controller:type=KafkaController,name=ActiveControllerCount"
        wait_until(lambda: samples()[active] == 1, 30, "the only voter leads")
        assert samples()["kafka.server:type=raft-metrics,name=current-leader"] == 1
        assert samples()["kafka.server:type=raft-metrics,name=high-watermark"] > 0
