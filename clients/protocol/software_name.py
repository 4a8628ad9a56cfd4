"""The name and version by which a client calls its own software (KIP-511)."""

import re

from .messages.api_versions import ApiVersionsRequest

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")

_FIRST_VERSION_WITH_NAMES = 3


def is_software_name_valid(request: ApiVersionsRequest, version: int) -> bool:
    """Whether both are as KIP-511 demands, or the request's version has none."""
    return version < _FIRST_VERSION_WITH_NAMES or bool(
        _SOFTWARE.fullmatch(request.client_software_name)
        and _SOFTWARE.fullmatch(request.client_software_version)
    )
