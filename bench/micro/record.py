"""What reading, checking and building record batches costs: `python -m tierlog.bench.micro.record`.

CPU time of this process, best of five rounds, so that a busy machine disturbs little.
"""

from collections.abc import Callable
from functools import partial
from time import process_time

from ...clients.record.batch import Record, RecordBatch, batches, stamp
from ...clients.record.builder import build_batch
from ...clients.record.compression import CompressionType

ROUNDS = 5
SECONDS_PER_ROUND = 0.1


def cpu_seconds_per_call(call: Callable[[], object]) -> float:
    """The least CPU time of one call over the rounds."""
    calls = 1
    while True:
        spent = _spend(call, calls)
        if spent >= SECONDS_PER_ROUND / 4:
            break
        calls *= 4
    return min([spent, *(_spend(call, calls) for _ in range(ROUNDS - 1))]) / calls


def _spend(call: Callable[[], object], calls: int) -> float:
    started = process_time()
    for _ in range(calls):
        call()
    return process_time() - started


def batch_of(batch_bytes: int, record_bytes: int, codec: CompressionType) -> memoryview:
    value = bytes(number % 251 for number in range(record_bytes))
    records = [Record(0, 0, None, value)] * (batch_bytes // record_bytes)
    return memoryview(build_batch(records, compression=codec))


def check(view: memoryview) -> bool:
    return RecordBatch(view).crc_is_valid()


def decode(view: memoryview) -> list[Record]:
    return list(RecordBatch(view).records())


def main() -> None:
    print("header and CRC            us/batch     GB/s")
    for batch_bytes in (1 << 10, 16 << 10, 128 << 10, 1 << 20):
        view = batch_of(batch_bytes, 1024, CompressionType.NONE)
        seconds = cpu_seconds_per_call(partial(check, view))
        print(f"{batch_bytes >> 10:6} KiB {seconds * 1e6:22.2f} {len(view) / seconds / 1e9:8.2f}")
    view = batch_of(1 << 10, 1024, CompressionType.NONE)
    for name, call in (
        ("header", lambda: RecordBatch(view)),
        ("batches()", lambda: list(batches(view))),
        ("stamp", lambda: stamp(view, 0, 1, 1)),
    ):
        print(f"{name:10} {cpu_seconds_per_call(call) * 1e6:21.2f}")
    print("records of 1 KiB          us/record")
    for codec in CompressionType:
        view = batch_of(128 << 10, 1024, codec)
        records = decode(view)
        read = cpu_seconds_per_call(partial(decode, view))
        build = cpu_seconds_per_call(partial(build_batch, records, compression=codec))
        count = len(records)
        print(f"{codec.name:6} decode {read / count * 1e6:14.2f}")
        print(f"{codec.name:6} build  {build / count * 1e6:14.2f}")


if __name__ == "__main__":
    main()
