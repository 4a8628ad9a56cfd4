"""Turns a broker's error code into a `KafkaError`."""

from ..errors import ErrorCode, KafkaError

_CODES = {int(code): code for code in ErrorCode}


def refusal(error_code: int, message: str = "") -> KafkaError:
    """The `KafkaError` for an error code. Unknown codes become UNKNOWN_SERVER_ERROR."""
    code = _CODES.get(error_code)
    if code is None:
        return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"Error code {error_code}. {message}")
    return KafkaError(code, message)


def topic_refusal(error_code: int, topic: str, otherwise: str) -> KafkaError:
    """The `KafkaError` about a topic: some have words of their own, another one `otherwise`."""
    match error_code:
        case ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            message = f"Not authorized to access topic {topic}."
        case ErrorCode.INVALID_TOPIC_EXCEPTION:
            name = f"The topic name {topic!r} is invalid"
            message = f"{name}: it has 1 to 249 letters, digits, '.', '_' and '-'."
        case _:
            message = otherwise
    return refusal(error_code, message)


def raise_for(error_code: int, message: str) -> None:
    """Raise the `KafkaError` for a response's error code, unless it is 0."""
    if error_code:
        raise refusal(error_code, message)
