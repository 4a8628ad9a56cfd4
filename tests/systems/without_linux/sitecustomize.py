"""Takes away from a Python what Linux alone has, as a system without it would start.

Every Python whose PYTHONPATH has this folder imports this file before anything else, and so do the
processes that it starts. What is gone: the calls, options and errors that neither macOS nor every
other system has, and the kernel's file systems. The libraries in C still find them; our code and
the standard library do not. What macOS has under another name, such as kqueue, is missing too.
"""

import _socket  # `socket` takes its names from it
import ctypes
import errno
import mmap
import os
import re
import select
import sys
from collections.abc import Callable

GONE = {
    os: r"memfd_create|MFD_|posix_fallocate|posix_fadvise|POSIX_FADV|fdatasync|eventfd|EFD_|pidfd"
    r"|PIDFD|splice|SPLICE|copy_file_range|sched_|SCHED_|getrandom|GRND_|O_TMPFILE|O_PATH"
    r"|O_DIRECT$|O_NOATIME|unshare|setns|CLONE_|timerfd|TFD_|.*xattr$|XATTR|RWF_|P_PIDFD",
    select: r"epoll$|EPOLL|POLLRDHUP|POLLMSG",
    errno: r"EREMOTEIO|ENOTUNIQ|EBADFD|EREMCHG|ENOKEY|EKEY|ENOMEDIUM|EMEDIUMTYPE|ERFKILL|EUCLEAN"
    r"|ENOTNAM|ENAVAIL|EISNAM|ECOMM|ENONET|ENOPKG|EADV|ESRMNT|EXFULL|EBADE$|EBADR$|EBADSLT|ERESTART",
    mmap: r"MADV_(?!NORMAL|RANDOM|SEQUENTIAL|WILLNEED|DONTNEED|FREE)|MAP_(POPULATE|STACK|DENY)",
    _socket: r"TCP_(?!NODELAY|MAXSEG|KEEP|FASTOPEN|NOTSENT)|MSG_(MORE|NOSIGNAL|CONFIRM|ERRQUEUE)"
    r"|SO_(PEERCRED|PASSCRED|BINDTODEVICE|DOMAIN|PROTOCOL|MARK|PRIORITY|INCOMING_CPU)|AF_NETLINK"
    r"|AF_PACKET|AF_VSOCK|AF_ALG|SOCK_CLOEXEC|SOCK_NONBLOCK|IP_BIND_ADDRESS_NO_PORT",
}
LIBC_GONE = frozenset({"prctl", "memfd_create", "epoll_create1", "posix_fallocate"})
FILES_GONE = re.compile(r"/(?:proc|sys|dev/shm)(?:/|$)")
_LISTENED = frozenset({"open", "os.listdir", "os.scandir"})
_LOOKED_UP = ("stat", "lstat", "statvfs", "access", "readlink")


def _is_gone(path: object) -> bool:
    return not isinstance(path, int) and FILES_GONE.match(str(path)) is not None


def _refuse(event: str, arguments: tuple[object, ...]) -> None:
    if event in _LISTENED and arguments and _is_gone(arguments[0]):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(arguments[0]))


def _looking_away(look_up: Callable[..., object]) -> Callable[..., object]:
    def instead(path: object, *arguments: object, **named: object) -> object:
        if not _is_gone(path):
            return look_up(path, *arguments, **named)
        if look_up.__name__ == "access":
            return False
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))

    return instead


def _symbol(library: ctypes.CDLL, name: str) -> object:
    if name in LIBC_GONE:
        raise AttributeError(f"undefined symbol: {name}")
    return _real_symbol(library, name)


for module, names in GONE.items():
    for each in [name for name in dir(module) if re.match(names, name)]:
        delattr(module, each)
_real_symbol = ctypes.CDLL.__getattr__
setattr(ctypes.CDLL, "__getattr__", _symbol)  # noqa: B010 (the checkers know it as a method)
for each in _LOOKED_UP:
    setattr(os, each, _looking_away(getattr(os, each)))
sys.addaudithook(_refuse)
