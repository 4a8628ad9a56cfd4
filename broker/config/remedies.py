"""The remedy for each operating system error that makes the start fail, by error code."""

import errno
import os

_ELSEWHERE = "or use another directory in log.dirs"
_DISK_REMEDIES = {
    errno.ENOSPC: f"free space on that disk, {_ELSEWHERE}",
    errno.EDQUOT: f"raise the disk quota of the broker's user, {_ELSEWHERE}",
    errno.EACCES: f"let the broker's user write there, {_ELSEWHERE}",
    errno.EPERM: f"let the broker's user write there, {_ELSEWHERE}",
    errno.EEXIST: "name a directory in log.dirs",
    errno.ENOTDIR: "name a directory in log.dirs",
    errno.ENOENT: "set a path in log.dirs where a directory can be created",
    errno.EROFS: f"remount it read-write, {_ELSEWHERE}",
    errno.EMFILE: "raise the limit on open files (ulimit -n)",
    errno.ENFILE: "raise the system limit on open files (fs.file-max)",
}
_ADDRESS_REMEDIES = {
    errno.EADDRINUSE: "stop the process that listens there, or set another port in listeners",
    errno.EACCES: "ports below 1024 need privileges: set another port in listeners",
}
_OTHER_ADDRESS_REMEDY = "set an address of this machine in listeners"
"""For other errors, such as the special codes of names that cannot be resolved."""

_METRICS_REMEDIES = {
    errno.EADDRINUSE: "stop the process that listens there, or set another tierlog.metrics.port",
    errno.EACCES: "ports below 1024 need privileges: set another tierlog.metrics.port",
}
_OTHER_METRICS_REMEDY = "set an address of this machine in tierlog.metrics.host"


def storage_message(error: OSError) -> str:
    """Which file or directory made the start fail, why, and what to do."""
    return with_remedy(
        f"{error.filename or 'A file in log.dirs'} cannot be used: {error.strerror}."
    )


def listening_message(addresses: str, error: OSError, page: str = "") -> str:
    """Why the address cannot be bound, and what to do.

    `page`: the URL of the status page of another broker that has the port.
    """
    if page:
        return (
            f"Cannot listen on {addresses}: {error.strerror}: {page} is the status page of another"
            " tierlog. Set another port here in listeners, or there in tierlog.status.port."
        )
    remedy = _ADDRESS_REMEDIES.get(error.errno or 0, _OTHER_ADDRESS_REMEDY)
    return f"Cannot listen on {addresses}: {error.strerror}: {remedy}."


def metrics_message(address: str, error: OSError) -> str:
    """Why the metrics cannot be served there, and what to do."""
    remedy = _METRICS_REMEDIES.get(error.errno or 0, _OTHER_METRICS_REMEDY)
    return f"Cannot serve metrics on {address}: {error.strerror}: {remedy}."


def status_message(address: str, error: OSError) -> str:
    """Why the status page cannot be served there, and what to do."""
    remedy = _METRICS_REMEDIES.get(error.errno or 0, _OTHER_METRICS_REMEDY).replace(
        "metrics", "status"
    )
    return f"Cannot serve the status page on {address}: {error.strerror}: {remedy}."


def with_remedy(message: str) -> str:
    """Add the remedy to a message that ends with a known disk error; keep any other message."""
    for code, remedy in _DISK_REMEDIES.items():
        end = f"{os.strerror(code)}."
        if message.endswith(end):
            return f"{message.removesuffix('.')}: {remedy}."
    return message
