"""AlterUserScramCredentials (key 51): sets and removes users' SCRAM credentials (KIP-554)."""

from ..schema import Message, Struct, field, int8, int16, int32


class ScramCredentialDeletion(Struct):
    """A user's credential for a mechanism (1: SCRAM-SHA-256, 2: SCRAM-SHA-512) to be removed."""

    name: str = field("0+")
    mechanism: int8 = field("0+")


class ScramCredentialUpsertion(Struct):
    """A user's new credential, as the salted password, which is secret."""

    name: str = field("0+")
    mechanism: int8 = field("0+")
    iterations: int32 = field("0+")
    salt: bytes = field("0+")
    salted_password: bytes = field("0+")

    def __repr__(self) -> str:
        return f"ScramCredentialUpsertion(name={self.name!r}, mechanism={self.mechanism}, ********)"


class AlterUserScramCredentialsRequest(Message, key=51, versions="0", flexible="0+"):
    """What to remove, and what to set."""

    deletions: list[ScramCredentialDeletion] = field("0+")
    upsertions: list[ScramCredentialUpsertion] = field("0+")


class AlterUserScramCredentialsResult(Struct):
    """What became of one user's changes."""

    user: str = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+")


class AlterUserScramCredentialsResponse(Message, key=51, versions="0", flexible="0+"):
    """One result a user."""

    throttle_time_ms: int32 = field("0+")
    results: list[AlterUserScramCredentialsResult] = field("0+")
