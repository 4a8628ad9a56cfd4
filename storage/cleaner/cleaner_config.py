"""The broker's `log.cleaner.*` settings, under Kafka's names."""

from dataclasses import dataclass

LARGEST_DEDUPE_BUFFER = (1 << 31) - 1
"""The largest dedupe buffer of one cleaning in bytes, as in Kafka."""


@dataclass(frozen=True, slots=True)
class CleanerConfig:
    """The limits of one cleaning, and how long to wait before looking for the next log to clean."""

    enable: bool = True
    backoff_ms: int = 15_000
    dedupe_buffer_size: int = 134_217_728
    io_buffer_load_factor: float = 0.9
    io_buffer_size: int = 524_288
    io_max_bytes_per_second: float = 1.7976931348623157e308
