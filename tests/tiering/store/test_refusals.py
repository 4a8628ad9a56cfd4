"""What a store says when it refuses, in the words of each protocol, becomes one of five failures.

The libraries are the real ones; each answer is what the real service sends.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest

from tierlog.storage.files import OsFiles
from tierlog.tests.tiering.servers.refusing import RefusingServer
from tierlog.tiering.blocking_pool import ThreadedPool
from tierlog.tiering.remote_storage import Failure, RemoteStorageError
from tierlog.tiering.store import file_system, s3_store
from tierlog.tiering.store.file_system import TierFileSystem
from tierlog.tiering.store.remote_failures import failure_of
from tierlog.tiering.store.remote_url import RemoteUrl, remote_url
from tierlog.tiering.store.tier_store import PIECE_BYTES

SECRET = "c2VjcmV0LW9mLWEtdGVzdA=="  # base64, as Azure wants it
DENIED, THROTTLED = Failure.DENIED, Failure.THROTTLED
NOT_FOUND, UNREACHABLE, BROKEN = Failure.NOT_FOUND, Failure.UNREACHABLE, Failure.BROKEN


@pytest.fixture
def server() -> Iterator[RefusingServer]:
    with RefusingServer() as server:
        yield server


def s3(server: RefusingServer, status: int, code: str) -> RemoteUrl:
    server.answers(
        status,
        f"<Error><Code>{code}</Code><Message>No, {SECRET}</Message></Error>",
        {"Content-Type": "application/xml"},
    )
    return remote_url(
        {
            "url": "s3://bucket/tier",
            "option.endpoint_url": f"http://127.0.0.1:{server.port}",
            "option.key": "key",
            "option.secret": SECRET,
        }
    )


def gs(server: RefusingServer, status: int, code: str) -> RemoteUrl:
    server.answers(status, f'{{"error": {{"code": {status}, "message": "{code}, {SECRET}"}}}}')
    return remote_url(
        {
            "url": "gs://bucket/tier",
            "option.endpoint_url": f"http://127.0.0.1:{server.port}",
            "option.token": "anon",
            "option.session_kwargs.headers.x-secret": SECRET,
        }
    )


def abfs(server: RefusingServer, status: int, code: str) -> RemoteUrl:
    server.answers(
        status,
        f"<Error><Code>{code}</Code><Message>No, {SECRET}</Message></Error>",
        {"x-ms-error-code": code, "Content-Type": "application/xml"},
    )
    endpoint = f"http://127.0.0.1:{server.port}/account"
    connection = f"AccountName=account;AccountKey={SECRET};BlobEndpoint={endpoint};"
    return remote_url({"url": "abfs://bucket/tier", "option.connection_string": connection})


def webhdfs(server: RefusingServer, status: int, code: str) -> RemoteUrl:
    server.answers(
        status,
        f'{{"RemoteException": {{"exception": "{code}", "message": "{code}: no, {SECRET}"}}}}',
        {"Content-Type": "application/json"},
    )
    return remote_url(
        {
            "url": f"webhdfs://127.0.0.1:{server.port}/tier",
            "option.user": "user",
            "option.password": SECRET,
        }
    )


CASES = [
    (s3, 403, "AccessDenied", DENIED),
    (s3, 403, "InvalidAccessKeyId", DENIED),
    (s3, 403, "SignatureDoesNotMatch", DENIED),
    (s3, 400, "ExpiredToken", DENIED),
    (s3, 400, "TokenRefreshRequired", DENIED),
    (s3, 503, "SlowDown", THROTTLED),
    (s3, 429, "TooManyRequests", THROTTLED),
    (s3, 500, "InternalError", UNREACHABLE),
    (s3, 404, "NoSuchBucket", NOT_FOUND),
    (s3, 400, "InvalidRequest", BROKEN),
    (gs, 401, "Invalid Credentials", DENIED),
    (gs, 403, "does not have storage.objects.get access", DENIED),
    (gs, 429, "rateLimitExceeded", THROTTLED),
    (gs, 503, "backendError", THROTTLED),
    (gs, 500, "internalError", UNREACHABLE),
    (gs, 502, "bad gateway", UNREACHABLE),
    (gs, 404, "notFound", NOT_FOUND),
    (gs, 400, "required", BROKEN),
    (abfs, 403, "AuthenticationFailed", DENIED),
    (abfs, 403, "AuthorizationPermissionMismatch", DENIED),
    (abfs, 401, "InvalidAuthenticationInfo", DENIED),
    (abfs, 503, "ServerBusy", THROTTLED),
    (abfs, 500, "InternalError", UNREACHABLE),
    (abfs, 404, "ContainerNotFound", NOT_FOUND),
    (abfs, 400, "InvalidHeaderValue", BROKEN),
    (webhdfs, 403, "AccessControlException", DENIED),
    (webhdfs, 401, "SecurityException", DENIED),
    (webhdfs, 404, "FileNotFoundException", NOT_FOUND),
    (webhdfs, 403, "StandbyException", UNREACHABLE),
    (webhdfs, 403, "SafeModeException", UNREACHABLE),
    (webhdfs, 403, "RetriableException", UNREACHABLE),
    (webhdfs, 503, "busy", THROTTLED),
]


@pytest.mark.parametrize(
    ("protocol", "status", "code", "failure"),
    CASES,
    ids=[f"{case[0].__name__}-{case[1]}-{case[2].split()[0]}" for case in CASES],
)
def test_a_refusal_is_distinguished_and_shows_no_secret(
    protocol: type,
    status: int,
    code: str,
    failure: Failure,
    server: RefusingServer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    location = protocol(server, status, code)
    tier = TierFileSystem(location, OsFiles(), ThreadedPool(2, "test"), 20)

    async def story() -> list[BaseException | object]:
        try:
            calls = (tier.read("key", 0, 10), tier.list(), tier.write_bytes("key", b"content"))
            return list(await asyncio.gather(*calls, return_exceptions=True))
        finally:
            await tier.close()

    with caplog.at_level(logging.DEBUG):
        outcomes = asyncio.run(story())
    for outcome in outcomes if failure is not NOT_FOUND else outcomes[:1]:
        assert isinstance(outcome, RemoteStorageError)
        assert outcome.failure is failure, str(outcome)
        assert SECRET not in str(outcome)
    assert SECRET not in caplog.text


def test_a_bucket_that_is_missing_is_never_an_empty_tier(server: RefusingServer) -> None:
    for protocol in (s3, gs, abfs):
        tier = TierFileSystem(
            protocol(server, 404, "NoSuchBucket"), OsFiles(), ThreadedPool(2, "test"), 20
        )

        async def story(tier: TierFileSystem = tier) -> None:
            with pytest.raises(RemoteStorageError):
                await tier.list()
            await tier.close()

        asyncio.run(story())


async def test_s3_removes_many_objects_with_one_request(server: RefusingServer) -> None:
    keys = [f"topic-0/{number}" for number in range(30)]
    denied = "<Error><Key>tier/topic-0/3</Key><Code>AccessDenied</Code></Error>"
    tier = TierFileSystem(s3(server, 200, ""), OsFiles(), ThreadedPool(2, "test"), 20)
    server.answers(200, "<DeleteResult></DeleteResult>")
    await tier.remove_all(keys)
    assert server.asked == 1
    # The answer to the whole is a success; one of them is none.
    server.answers(200, f"<DeleteResult>{denied}</DeleteResult>")
    with pytest.raises(RemoteStorageError, match="AccessDenied") as failed:
        await tier.remove_all(keys)
    assert failed.value.failure is DENIED
    await tier.close()


class SSHException(Exception):  # paramiko's names
    pass


class AuthenticationException(SSHException):
    pass


class NoCredentialsError(Exception):
    pass


class ServiceRequestError(Exception):
    pass


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (AuthenticationException("no"), DENIED),
        (SSHException("Server connection dropped"), UNREACHABLE),
        (OSError("Socket is closed"), UNREACHABLE),
        (EOFError(), UNREACHABLE),
        (NoCredentialsError("Unable to locate credentials"), DENIED),
        (ServiceRequestError("no route"), UNREACHABLE),
        (TimeoutError(), UNREACHABLE),
        (ConnectionResetError(104, "reset"), UNREACHABLE),
        (OSError(16, "Please reduce your request rate"), THROTTLED),
        (OSError(28, "No space left on device"), BROKEN),
        (OSError("Forbidden: https://storage/x"), DENIED),
        (PermissionError(13, "no"), DENIED),
        (KeyError("x"), BROKEN),
    ],
)
def test_errors_without_an_answer_are_reported_by_their_kind(
    error: Exception, failure: Failure
) -> None:
    assert failure_of(error) is failure


def test_a_cause_tells_where_the_error_itself_does_not() -> None:
    error = ValueError("unable to connect")
    error.__cause__ = NoCredentialsError("none")
    assert failure_of(error) is DENIED
    error.__suppress_context__ = True
    error.__cause__ = None
    error.__context__ = NoCredentialsError("none")
    assert failure_of(error) is BROKEN


@pytest.mark.parametrize("store", [s3, gs])
def test_an_answer_that_is_cut_off_is_worth_another_try(
    server: RefusingServer, store: Callable[[RefusingServer, int, str], RemoteUrl]
) -> None:
    location = store(server, 200, "the beginning of an object")
    server.bytes_kept_back = 5

    async def read() -> bytes:
        pool = ThreadedPool(1, "test")
        tier = TierFileSystem(location, OsFiles(), pool)
        try:
            return await tier.read("orders-0/a.log")
        finally:
            await tier.close()
            pool.stop()

    with pytest.raises(RemoteStorageError) as failed:
        asyncio.run(read())
    assert failed.value.failure is UNREACHABLE


@pytest.mark.parametrize("span", [(0, 1_000), (None, None)])
async def test_an_answer_without_an_end_is_left_where_it_is_too_long(
    server: RefusingServer, span: tuple[int | None, int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """S3 only: the libraries of the other services take an answer as a whole."""
    for module in (file_system, s3_store):
        monkeypatch.setattr(module, "PART_BYTES_MAX", 1_000)
    tier = TierFileSystem(s3(server, 200, ""), OsFiles(), ThreadedPool(2, "test"), 20)
    server.answers(200, "x" * 65_536)
    server.is_endless = True
    with pytest.raises(
        RemoteStorageError, match=r"1001 bytes of .* 1000 were|more than 1000 bytes"
    ):
        await tier.read("orders-0/a.log", *span)
    await tier.close()
    # What the sockets hold is sent too.
    assert server.sent < 32 << 20


@asynccontextmanager
async def opened(location: RemoteUrl) -> AsyncGenerator[TierFileSystem]:
    """The tier, until it is closed."""
    tier = TierFileSystem(location, OsFiles(), ThreadedPool(2, "test"), 20)
    try:
        yield tier
    finally:
        await tier.close()


@pytest.mark.parametrize("store", [s3, gs])
async def test_a_store_that_ignores_ranges_gives_no_part_for_the_whole(
    server: RefusingServer, store: Callable[[RefusingServer, int, str], RemoteUrl]
) -> None:
    """What is read in pieces is the whole object for each of them."""
    async with opened(store(server, 200, "")) as tier:
        content = "x" * (PIECE_BYTES + 5_000)
        server.answers(200, content)
        with pytest.raises(RemoteStorageError, match="ignores byte ranges") as failed:
            await tier.read("orders-0/a.log", 0, 3 * PIECE_BYTES)
        # Nothing gets better by itself here, so that nothing is tried again.
        assert failed.value.failure is BROKEN
        read = await tier.read_small("orders-0/a.txnindex", 3 * PIECE_BYTES)
        assert read == content.encode()


@pytest.mark.parametrize("store", [s3, gs])
@pytest.mark.parametrize("span", [(None, 0), (0, 0), (7, 7)])
async def test_no_bytes_are_had_without_a_request(
    server: RefusingServer,
    store: Callable[[RefusingServer, int, str], RemoteUrl],
    span: tuple[int | None, int],
) -> None:
    """HTTP has no name for an empty range, and a store answers a wrong one with everything."""
    async with opened(store(server, 200, "")) as tier:
        server.answers(200, "x" * 1_000)
        assert await tier.read("orders-0/a.log", *span) == b""
        assert not server.asked
