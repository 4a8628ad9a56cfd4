"""The cost of reading, checking and building record batches.

The batches have records of 1 KiB. The measured time is that of one batch: for decode and build,
divide it by the batch's 128 records; 1,000 bytes per microsecond are one GB/s.
"""

from functools import partial

import pytest

from tierlog.bench.micro.benchmark import CPU_TIME, Benchmark
from tierlog.clients.record.batch import Record, RecordBatch, batches
from tierlog.clients.record.builder import build_batch
from tierlog.clients.record.compression import CompressionType

pytestmark = CPU_TIME

KIBIBYTE = 1024


def batch_of(kibibytes: int, codec: CompressionType = CompressionType.NONE) -> memoryview:
    value = bytes(number % 251 for number in range(KIBIBYTE))
    return memoryview(build_batch([Record(0, 0, None, value)] * kibibytes, compression=codec))


def check(view: memoryview) -> bool:
    return RecordBatch(view).crc_is_valid()


def decode(view: memoryview) -> list[Record]:
    return list(RecordBatch(view).records())


@pytest.mark.benchmark(group="header and CRC")
@pytest.mark.parametrize("kibibytes", [1, 16, 128, 1024])
def test_check_a_batch(benchmark: Benchmark, kibibytes: int) -> None:
    assert benchmark(partial(check, batch_of(kibibytes)))


@pytest.mark.benchmark(group="a batch of 1 KiB without its records")
def test_read_the_header(benchmark: Benchmark) -> None:
    assert benchmark(partial(RecordBatch, batch_of(1))).record_count == 1


@pytest.mark.benchmark(group="a batch of 1 KiB without its records")
def test_find_the_batches(benchmark: Benchmark) -> None:
    view = batch_of(1)
    assert len(benchmark(lambda: list(batches(view)))) == 1


@pytest.mark.benchmark(group="a batch of 1 KiB without its records")
def test_assign(benchmark: Benchmark) -> None:
    view = batch_of(1)
    benchmark(partial(RecordBatch(view).assign, 7, 1))
    assert RecordBatch(view).base_offset == 7


@pytest.mark.benchmark(group="decode 128 records of 1 KiB")
@pytest.mark.parametrize("codec", list(CompressionType), ids=lambda codec: codec.name)
def test_decode(benchmark: Benchmark, codec: CompressionType) -> None:
    assert len(benchmark(partial(decode, batch_of(128, codec)))) == 128


@pytest.mark.benchmark(group="build 128 records of 1 KiB")
@pytest.mark.parametrize("codec", list(CompressionType), ids=lambda codec: codec.name)
def test_build(benchmark: Benchmark, codec: CompressionType) -> None:
    records = decode(batch_of(128))
    built = benchmark(partial(build_batch, records, compression=codec))
    assert decode(memoryview(built)) == records
