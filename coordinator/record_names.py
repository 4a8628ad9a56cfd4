"""Checks that names read from coordinator records can be written again.

Bytes that are not UTF-8 are decoded, as in Java, as replacement characters of three bytes each, so
a decoded name may be longer than Kafka's formats allow.
"""

from ..clients.errors import ErrorCode, KafkaError

_BYTES_MAX = 2**15 - 1


def check_names(*names: str | None) -> None:
    """Check that names can be written. Raises KafkaError(CORRUPT_MESSAGE)."""
    for name in names:
        # No character takes more than four bytes.
        if name is not None and len(name) > _BYTES_MAX // 4 and len(name.encode()) > _BYTES_MAX:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE,
                f"A name of {len(name)} characters takes more than {_BYTES_MAX} bytes.",
            )
