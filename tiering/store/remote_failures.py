"""Classifies the errors of file systems as kinds of failure.

The libraries behind fsspec share no exceptions: botocore, google-auth, aiohttp, azure-core,
requests and paramiko each raise their own, some of which are not OSErrors, and fsspec translates
only some of them. They are classified by what they have in common: the HTTP status of an answer, a
service's error code, the errno, and the class names, of the error and of its causes. None of these
libraries is imported.
"""

import errno
from collections.abc import Iterator
from http import HTTPStatus
from typing import cast

from ...storage.system_calls import REMOTE_IO_ERRORS
from ..remote_storage import Failure

_DENIED_NAMES = frozenset(
    {
        "AuthenticationException",  # paramiko; a kind of SSHException, so checked first
        "BadHostKeyException",
        "ClientAuthenticationError",
        "CredentialRetrievalError",
        "DefaultCredentialsError",
        "LoginRefreshRequired",
        "MalformedError",
        "NoAuthTokenError",
        "NoCredentialsError",
        "PartialCredentialsError",
        "ProfileNotFound",
        "RefreshError",
        "SSOError",
        "UnauthorizedSSOTokenError",
    }
)

_UNREACHABLE_NAMES = frozenset(
    {
        "BotoCoreError",
        "ClientError",  # aiohttp's; botocore's ClientError has a response and is classified by it
        "ConnectError",
        "ConnectTimeoutError",
        "ConnectionClosedError",
        "ConnectionError",
        "EOFError",
        "EndpointConnectionError",
        "FSTimeoutError",
        "HTTPClientError",
        "IncompleteRead",
        "IncompleteReadError",
        "NoValidConnectionsError",
        "ProxyError",
        "ReadTimeoutError",
        "RequestException",
        "ResponseParserError",
        "RetriableException",
        "SSHException",
        "ServerDisconnectedError",
        "ServiceRequestError",
        "ServiceResponseError",
        "TransportError",
        "gaierror",
    }
)
"""Names in the libraries behind fsspec, which share no base class that could be used here."""

_OUR_FAULT_NAMES = frozenset({"ParamValidationError", "DataNotFoundError", "UnknownServiceError"})
"""Kinds of BotoCoreError that a retry does not fix."""

_DENIED_CODES = frozenset(
    {
        "AccessDenied",
        "AuthFailure",
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidAccessKeyId",
        "InvalidToken",
        "RequestTimeTooSkewed",
        "SignatureDoesNotMatch",
        "TokenRefreshRequired",
        "UnauthorizedAccess",
    }
)
_THROTTLED_CODES = frozenset(
    {
        "OperationAborted",
        "RequestLimitExceeded",
        "ServiceUnavailable",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "TooManyRequests",
    }
)

_UNREACHABLE_ERRNOS = frozenset(
    {
        errno.EAGAIN,
        errno.ECONNRESET,
        errno.EHOSTUNREACH,
        errno.EIO,
        errno.ENETUNREACH,
        errno.ENOTCONN,
        errno.EPIPE,
        *REMOTE_IO_ERRORS,
        errno.ESTALE,
        errno.ETIMEDOUT,
    }
)

# Phrases with which HDFS reports a name node that is in standby or starting.
_HDFS_NOT_YET = (
    "Operation category",
    "RetriableException",
    "SafeModeException",
    "StandbyException",
    "safe mode",
)


def failure_of(error: BaseException) -> Failure:
    """The kind of `error`.

    A server's answer decides, of the error or else of its causes; then class names and errno.
    """
    chain = list(_chain(error))
    # A server's answer says more than the library's exception class.
    for failure_by in (_by_answer, _by_name):
        for each in chain:
            failure = failure_by(each)
            if failure is not None:
                return failure
    if any(each.args and str(each.args[0]).startswith("Forbidden") for each in chain):
        # gcsfs reports a 403 only in the message.
        return Failure.DENIED
    return Failure.BROKEN


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    for _ in range(8):
        if seen is None:
            return
        yield seen
        seen = seen.__cause__ or (None if seen.__suppress_context__ else seen.__context__)


def _by_answer(error: BaseException) -> Failure | None:
    if any(kind.__name__ == "BadHttpMessage" for kind in type(error).__mro__):
        # aiohttp gives an answer that is cut off the code 400, which no server has sent.
        return Failure.UNREACHABLE
    if any(words in str(error) for words in _HDFS_NOT_YET):
        return Failure.UNREACHABLE
    if isinstance(error, FileNotFoundError):
        return Failure.NOT_FOUND
    if isinstance(error, PermissionError):
        return Failure.DENIED
    return _by_code(error) or _by_status(error)


def _by_code(error: BaseException) -> Failure | None:
    """By the error code in botocore's parsed answer."""
    response = getattr(error, "response", None)
    if not isinstance(response, dict):
        return None
    details = cast("dict[str, object]", response).get("Error")
    code = cast("dict[str, object]", details).get("Code") if isinstance(details, dict) else None
    if code in _DENIED_CODES:
        return Failure.DENIED
    return Failure.THROTTLED if code in _THROTTLED_CODES else None


def _by_status(error: BaseException) -> Failure | None:
    """By the status of the HTTP answer, wherever a library keeps it."""
    status = _status(error)
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return Failure.DENIED
    if status == HTTPStatus.NOT_FOUND:
        return Failure.NOT_FOUND
    if status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
        return Failure.THROTTLED
    if status == HTTPStatus.REQUEST_TIMEOUT or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return Failure.UNREACHABLE
    return Failure.BROKEN if status >= HTTPStatus.BAD_REQUEST else None


def _status(error: BaseException) -> int:
    response: object = getattr(error, "response", None)
    if isinstance(response, dict):
        metadata = cast("dict[str, object]", response).get("ResponseMetadata")
        if isinstance(metadata, dict):
            return _number(cast("dict[str, object]", metadata).get("HTTPStatusCode"))
        return 0
    for holder in (error, response):
        for name in ("status_code", "status", "code"):
            status = _number(getattr(holder, name, None))
            if status:
                return status
    return 0


def _number(value: object) -> int:
    if isinstance(value, str) and value.isdigit():
        return int(value)
    return value if isinstance(value, int) and 100 <= value < 600 else 0


def _by_name(error: BaseException) -> Failure | None:
    names = {kind.__name__ for kind in type(error).__mro__}
    if names & _DENIED_NAMES:
        return Failure.DENIED
    if names & _OUR_FAULT_NAMES:
        return Failure.BROKEN
    if isinstance(error, ConnectionError | TimeoutError) or names & _UNREACHABLE_NAMES:
        return Failure.UNREACHABLE
    if isinstance(error, OSError):
        # s3fs raises EBUSY for SlowDown and similar codes.
        if error.errno == errno.EBUSY:
            return Failure.THROTTLED
        if error.errno in _UNREACHABLE_ERRNOS or str(error) == "Socket is closed":
            return Failure.UNREACHABLE
    return None


class ServiceError(Exception):
    """A failure inside a successful answer, in botocore's form."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.response = {"Error": {"Code": code, "Message": message}}
