"""One broker for all tests of a module, with a tier on the disk, and the command line to it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tierlog.tests.broker_process import BrokerThread
from tierlog.tests.cli.client.command_run import Tierlog


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    root: Path = tmp_path_factory.mktemp("broker")
    properties = {
        "remote.log.storage.system.enable": "true",
        "rsm.config.url": f"file://{root}/remote",
        "remote.log.manager.task.interval.ms": "50",
        "log.retention.check.interval.ms": "50",
        "log.initial.task.delay.ms": "0",
        "file.delete.delay.ms": "0",
        "transaction.state.log.num.partitions": "1",
    }
    with BrokerThread(root / "data", properties) as started:
        yield started


@pytest.fixture
def tierlog(
    broker: BrokerThread,
    capsysbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Tierlog:
    for name in ("TIERLOG_BOOTSTRAP", "KAFKA_BOOTSTRAP_SERVERS", "TIERLOG_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "no-config"))
    return Tierlog(capsysbinary, monkeypatch, broker.bootstrap)
