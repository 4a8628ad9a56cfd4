"""DescribeUserScramCredentials (key 50): which users have SCRAM credentials (KIP-554)."""

from ..schema import Message, Struct, field, int8, int16, int32


class UserName(Struct):
    """A user."""

    name: str = field("0+")


class DescribeUserScramCredentialsRequest(Message, key=50, versions="0", flexible="0+"):
    """The users; null or empty for all."""

    users: list[UserName] | None = field("0+", nullable="0+")


class CredentialInfo(Struct):
    """A mechanism and its iterations: all that is shown of a credential."""

    mechanism: int8 = field("0+")
    iterations: int32 = field("0+")


class DescribeUserScramCredentialsResult(Struct):
    """One user's credentials."""

    user: str = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+")
    credential_infos: list[CredentialInfo] = field("0+")


class DescribeUserScramCredentialsResponse(Message, key=50, versions="0", flexible="0+"):
    """An error of the request as a whole, or a result a user."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+")
    results: list[DescribeUserScramCredentialsResult] = field("0+")
