"""The channel to a broker, at the moment at which the broker disconnects."""

import asyncio

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.network.channel import Channel
from tierlog.clients.protocol.messages.api_versions import ApiVersionsRequest

WAIT_S = 60.0


class SendsAtTheEnd(Channel):
    """Sends a request after the end of the stream is read, and before the connection is lost."""

    def __init__(self) -> None:
        super().__init__("test", in_flight_max=1, response_bytes_max=1024)
        self.outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def eof_received(self) -> None:
        asyncio.get_running_loop().call_soon(self._send_now)

    def _send_now(self) -> None:
        try:
            self.send_unanswered(ApiVersionsRequest(), 0)
            self.outcome.set_result(None)
        except Exception as error:
            self.outcome.set_exception(error)


async def outcome_of_a_late_request() -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    async with server, asyncio.timeout(WAIT_S):
        port = server.sockets[0].getsockname()[1]
        _, channel = await asyncio.get_running_loop().create_connection(
            SendsAtTheEnd, "127.0.0.1", port
        )
        await channel.outcome


def test_a_request_between_the_end_of_the_stream_and_the_loss_is_refused() -> None:
    with pytest.raises(KafkaError) as raised:
        asyncio.run(outcome_of_a_late_request())
    assert raised.value.code is ErrorCode.NETWORK_EXCEPTION
