"""Linux's ``openat2``: the kernel itself keeps a path below a directory, whoever moves what in the meantime."""

import ctypes
import errno
import functools
import os
import sys
from collections.abc import Callable

_NUMBER = 437  # on every architecture
_NO_MAGIC_LINKS, _BENEATH = 0x02, 0x08
_ATTEMPTS = 32
_NOBODY = -1
"""No descriptor: a kernel that knows the call complains of that, others of the call."""

OpenBeneath = Callable[[int, str, int], int]


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


@functools.cache
def kernel_open() -> OpenBeneath | None:
    """The kernel's own way to open below a directory, if it has one and lets us."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        os.close(_open(_NOBODY, ".", os.O_RDONLY))
    except OSError as error:
        return _open if error.errno == errno.EBADF else None  # whatever else it is, the call itself was refused
    return None


def _open(root: int, path: str, flags: int) -> int:
    """A descriptor; a path that anybody changes while it is walked is walked again."""
    how = _How(flags | os.O_CLOEXEC, 0, _BENEATH | _NO_MAGIC_LINKS)
    for _ in range(_ATTEMPTS):
        number = _syscall()(_NUMBER, root, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how))
        if number >= 0:
            return number
        if ctypes.get_errno() not in (errno.EAGAIN, errno.EINTR):
            break
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)


@functools.cache
def _syscall() -> Callable[..., int]:
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t)
    call.restype = ctypes.c_long
    return call
