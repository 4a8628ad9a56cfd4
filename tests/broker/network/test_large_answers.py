"""An answer in one piece that the peer does not take at once arrives whole all the same."""

import struct

from tierlog.broker.network.connection import ConnectedClient
from tierlog.broker.network.response import Response
from tierlog.tests.broker.socket_peers import running


def sized(client: ConnectedClient, request: memoryview) -> Response:
    """As many bytes as the request asks for, size and all in one piece."""
    (size,) = struct.unpack(">i", request)
    body = bytes(range(256)) * (size // 256)
    return [struct.pack(">i", len(body)) + body]


async def test_what_is_left_of_an_answer_follows_and_so_do_the_answers_behind_it() -> None:
    async with running(sized) as broker:
        peer = await broker.connect()
        sizes = [256, 16 << 20, 512, 3 << 20, 1024]
        for size in sizes:
            peer.writer.write(struct.pack(">ii", 4, size))
        for size in sizes:
            assert await peer.answer() == bytes(range(256)) * (size // 256)
        assert await peer.ask(struct.pack(">i", 256)) == bytes(range(256))
