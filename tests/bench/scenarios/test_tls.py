"""The scenario `tls`: records go through the listener with TLS, and through no other cipher."""

import ssl
import stat
from collections.abc import Iterator

import pytest

from tierlog.bench.figures import RunKey
from tierlog.bench.harness.loads.client_process import run_client
from tierlog.bench.harness.loads.load import Load
from tierlog.bench.harness.measurement_error import MeasurementError
from tierlog.bench.harness.peers.tls_check import check_cipher
from tierlog.bench.harness.peers.tls_identity import make_identity
from tierlog.bench.harness.peers.tls_listener import TlsIdentity, with_tls
from tierlog.bench.harness.requests.admin import create_topic, end_offsets
from tierlog.bench.harness.targets.elsewhere import ElsewhereTarget
from tierlog.bench.harness.targets.target import RunningTarget
from tierlog.bench.harness.targets.tierlog import TierlogTarget
from tierlog.bench.recorder import Recorder
from tierlog.bench.scenario import Scale
from tierlog.bench.scenarios import tls

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def identity(tmp_path_factory: pytest.TempPathFactory) -> TlsIdentity:
    return make_identity(tmp_path_factory.mktemp("tls") / "identity")


@pytest.fixture(scope="module")
def broker(
    tmp_path_factory: pytest.TempPathFactory, identity: TlsIdentity
) -> Iterator[RunningTarget]:
    directory = tmp_path_factory.mktemp("broker")
    target = TierlogTarget().prepare(directory, {}, None)
    target.node.listen_with_tls(identity)
    target.start()
    yield target
    target.stop()


@pytest.mark.parametrize("scale", Scale)
def test_no_case_is_there_twice(scale: Scale) -> None:
    cases = tls.SCENARIO.cases(scale)
    assert len(set(cases)) == len(cases)
    assert tls.SCENARIO.plan(scale).tls


def test_both_directions_give_rates_and_the_brokers_cpu(broker: RunningTarget) -> None:
    for case in tls.SCENARIO.cases(Scale.SMOKE):
        recorder = Recorder(RunKey("tls", case.name, broker.name, False, 1))
        tls.SCENARIO.measure(case, broker, recorder, Scale.SMOKE)
        figures = {figure.metric: figure.value for figure in recorder.figures()}
        assert figures["mb_per_s"] > 0
        assert figures["broker_cpu_s_per_gb"] > 0


@pytest.mark.long
@pytest.mark.requires("java", "mvn")
def test_javas_tools_go_through_tls_too(broker: RunningTarget) -> None:
    load = Load(60_000, 1024, 1, 16_384)
    assert broker.node is not None
    create_topic(broker.bootstrap, "java")
    order = ("--bootstrap", broker.bootstrap, "--topic", "java")
    secured = ("--tls", broker.node.tls_bootstrap, "--authority", str(broker.node.tls_authority))
    for direction in ("produce", "consume"):
        result = run_client("java_perf", direction, *order, *secured, *load.arguments())
        assert result.figures["seconds"] > 0
    assert end_offsets(broker.bootstrap, "java", 1) == [60_000]


def test_another_cipher_is_not_measured(
    broker: RunningTarget, identity: TlsIdentity, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert broker.node is not None
    check_cipher(broker.node.tls_bootstrap, identity.authority)
    monkeypatch.setattr("tierlog.bench.harness.peers.tls_check.CIPHER", "TLS_AES_128_GCM_SHA256")
    with pytest.raises(MeasurementError, match=r"TLS_AES_256_GCM_SHA384.* not "):
        check_cipher(broker.node.tls_bootstrap, identity.authority)


def test_the_certificate_is_made_once_and_its_key_is_the_owners(identity: TlsIdentity) -> None:
    key = identity.key_store.read_bytes()
    assert make_identity(identity.key_store.parent) == identity
    assert identity.key_store.read_bytes() == key
    assert stat.S_IMODE(identity.key_store.stat().st_mode) == 0o600
    context = ssl.create_default_context(cafile=identity.authority)
    (authority,) = context.get_ca_certs()
    assert authority["subject"] == authority["issuer"]


def test_the_listener_is_beside_those_that_the_broker_has(identity: TlsIdentity) -> None:
    own = {"listeners": "PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:2", "log.dirs": "/d"}
    secured = with_tls(own, 3, identity)
    assert secured["listeners"] == own["listeners"] + ",SSL://127.0.0.1:3"
    assert "advertised.listeners" not in secured
    assert secured["log.dirs"] == "/d"


def test_a_broker_elsewhere_is_left_out() -> None:
    (case, *_) = tls.SCENARIO.cases(Scale.SMOKE)
    reason = tls.SCENARIO.refuses(case, ElsewhereTarget("127.0.0.1:9092"))
    assert reason is not None
    assert "127.0.0.1:9092" in reason
    assert tls.SCENARIO.refuses(case, TierlogTarget()) is None
