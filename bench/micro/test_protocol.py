"""The cost of decoding and encoding the hot messages, with ten partitions per topic.

Also measured: compiling a codec, and reading and writing a frame with its header.
"""

from functools import partial

import pytest

from tierlog.bench.micro.benchmark import CPU_TIME, Benchmark
from tierlog.bench.micro.hot_messages import (
    BATCH,
    HEADER,
    fetch_request,
    fetch_response,
    produce_request,
    produce_response,
)
from tierlog.clients.protocol.api import ApiKey
from tierlog.clients.protocol.codec import decode, encode, encode_bytes
from tierlog.clients.protocol.connection import FrameReader, frame
from tierlog.clients.protocol.decoder import decoder_source
from tierlog.clients.protocol.encoder import encoder_source
from tierlog.clients.protocol.header import (
    decode_request_header,
    encode_request_header,
    response_header,
)
from tierlog.clients.protocol.messages.fetch import FetchRequest, FetchResponse
from tierlog.clients.protocol.messages.produce import ProduceRequest
from tierlog.clients.protocol.schema import Chunk
from tierlog.clients.protocol.source import SourceWriter

pytestmark = CPU_TIME

PARTITIONS = pytest.mark.parametrize("partitions", [1, 10, 100])


@pytest.mark.benchmark(group="decode Produce request 9")
@PARTITIONS
def test_decode_produce_request(benchmark: Benchmark, partitions: int) -> None:
    request = produce_request(partitions)
    encoded = memoryview(encode_bytes(request, 9))
    assert benchmark(partial(decode, ProduceRequest, 9, encoded)) == (request, len(encoded))


@pytest.mark.benchmark(group="encode Produce response 9")
@PARTITIONS
def test_encode_produce_response(benchmark: Benchmark, partitions: int) -> None:
    response = produce_response(partitions)
    assert joined(benchmark(partial(encode, response, 9))) == encode_bytes(response, 9)


@pytest.mark.benchmark(group="decode Fetch request 12")
@PARTITIONS
def test_decode_fetch_request(benchmark: Benchmark, partitions: int) -> None:
    request = fetch_request(partitions)
    encoded = memoryview(encode_bytes(request, 12))
    assert benchmark(partial(decode, FetchRequest, 12, encoded)) == (request, len(encoded))


@pytest.mark.benchmark(group="encode Fetch response 12")
@PARTITIONS
@pytest.mark.parametrize("records", [BATCH, None], ids=["full", "empty"])
def test_encode_fetch_response(
    benchmark: Benchmark, partitions: int, records: memoryview | None
) -> None:
    response = fetch_response(partitions, records)
    assert joined(benchmark(partial(encode, response, 12))) == encode_bytes(response, 12)


def joined(chunks: list[Chunk]) -> bytes:
    return b"".join(chunk for chunk in chunks if isinstance(chunk, bytes | bytearray | memoryview))


@pytest.mark.benchmark(group="headers and frames")
def test_decode_a_request_header(benchmark: Benchmark) -> None:
    encoded = memoryview(encode_request_header(HEADER))
    assert benchmark(partial(decode_request_header, encoded)) == (HEADER, len(encoded))


@pytest.mark.benchmark(group="headers and frames")
def test_take_a_frame_in(benchmark: Benchmark) -> None:
    payload = encode_request_header(HEADER)
    request = memoryview(len(payload).to_bytes(4) + payload)
    reader = FrameReader(1 << 20)
    assert benchmark(lambda: list(reader.feed(request))) == [payload]


@pytest.mark.benchmark(group="headers and frames")
def test_put_a_frame_out(benchmark: Benchmark) -> None:
    body = encode(fetch_response(1, BATCH), 12)
    out = benchmark(lambda: frame([response_header(ApiKey.FETCH, 12, 7), *body]))
    size, rest = joined(out)[:4], joined(out)[4:]
    assert int.from_bytes(size) == len(rest)


def compiled(source: SourceWriter, title: str) -> int:
    """Execute a codec's source; returns the number of names that it defines."""
    before = len(source.namespace)
    source.compile(title)
    return len(source.namespace) - before


@pytest.mark.benchmark(group="compile a codec")
def test_write_a_decoder(benchmark: Benchmark) -> None:
    assert benchmark(lambda: compiled(decoder_source(FetchRequest, 12), "decoder"))


@pytest.mark.benchmark(group="compile a codec")
def test_write_an_encoder(benchmark: Benchmark) -> None:
    assert benchmark(lambda: compiled(encoder_source(FetchResponse, 12), "encoder"))
