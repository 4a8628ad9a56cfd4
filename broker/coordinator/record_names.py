"""Names in the records of the coordinators, which must be able to write again what they have read.

Bytes that are no text are read as replacement characters, as Java does it, each of which takes
three bytes: a name may come out longer than Kafka's formats allow.
"""

from ...clients.errors import ErrorCode, KafkaError

_BYTES_MAX = 2**15 - 1


def check_names(*names: str | None) -> None:
    """Raises KafkaError(CORRUPT_MESSAGE) where one of them cannot be written."""
    for name in names:
        # No character takes more than four bytes.
        if name is not None and len(name) > _BYTES_MAX // 4 and len(name.encode()) > _BYTES_MAX:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE,
                f"A name of {len(name)} characters takes more than {_BYTES_MAX} bytes.",
            )
