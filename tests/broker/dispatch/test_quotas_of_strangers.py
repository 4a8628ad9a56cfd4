"""Who has not authenticated yet uses up no quota, as all strangers would share it."""

from pathlib import Path

from tierlog.clients.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    OpData,
)
from tierlog.tests import wire
from tierlog.tests.broker_process import BrokerThread, RawClient
from tierlog.tests.waiting import wait_until

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
PROPERTIES = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{MODULE} required user_a="b";',
}
NOTHING_A_SECOND = 1e-9


def throttled_ms(client: RawClient) -> int:
    asked = wire.ApiVersionsRequest(client_software_name="raw", client_software_version="1")
    return client.ask(asked, 3, wire.ApiVersionsResponse).throttle_time_ms


def test_strangers_do_not_slow_down_logins(tmp_path: Path) -> None:
    users = EntryData(
        entity=[EntityData(entity_type="user", entity_name=None)],
        ops=[OpData(key="request_percentage", value=NOTHING_A_SECOND)],
    )
    with BrokerThread(tmp_path, PROPERTIES) as running:
        assert running.broker is not None
        ports = {each.name: each.port for each in running.broker.listeners.bound}
        with RawClient(ports["PLAINTEXT"]) as admin:
            admin.ask(AlterClientQuotasRequest(entries=[users]), 1, AlterClientQuotasResponse)
            wait_until(lambda: throttled_ms(admin) > 0, 20, "the quota")
        for _ in range(3):
            with RawClient(ports["SASL_PLAINTEXT"]) as stranger:
                assert throttled_ms(stranger) == 0
        with RawClient(ports["SASL_PLAINTEXT"]) as user:
            assert throttled_ms(user) == 0
            user.ask(wire.SaslHandshakeRequest(mechanism="PLAIN"), 1, wire.SaslHandshakeResponse)
            proof = wire.SaslAuthenticateRequest(auth_bytes=b"\0a\0b")
            assert user.ask(proof, 2, wire.SaslAuthenticateResponse).error_code == 0
            # From now on the quota counts.
            throttled_ms(user)
            assert throttled_ms(user) > 0
