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
    """The `KafkaError` about a topic: a denial in words of its own, another one as `otherwise`."""
    is_denied = error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    denial = f"Not authorized to access topic {topic}."
    return refusal(error_code, denial if is_denied else otherwise)


def raise_for(error_code: int, message: str) -> None:
    """Raise the `KafkaError` for a response's error code, unless it is 0."""
    if error_code:
        raise refusal(error_code, message)
