"""What a child gives up before it becomes the server: a part of the program ``spawner.py``.

It is imported by its file name; toolcrib itself never does. It decides nothing: limits, paths, masks and the filter all
come with the request.
"""

from __future__ import annotations

import _socket
import ctypes
import errno
import os
import resource
import stat
import sys

TYPE_CHECKING = False  # what ``typing`` says, without importing it
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # the same numbers on every architecture
PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 22, 24, 38, 47
AMBIENT_CLEAR_ALL, CAPABILITIES = 4, 64
SECCOMP = {"x86_64": 317, "aarch64": 277}
SECCOMP_SET_FILTER, NEW_LISTENER, WAIT_KILLABLE = 1, 8, 32
SECCOMP_MODE_FILTER = 2
RULE_PATH_BENEATH = 1
FOR_FILES = 0b1100000000000111  # what may be asked for something that is no directory: run, write, read, cut, control
FILES_KNOWN = {1: 0x1FFF, 2: 0x3FFF, 3: 0x7FFF, 5: 0xFFFF}  # bits of file access by the version that brought them
NETWORK_SINCE, SCOPES_SINCE = 4, 6

libc = ctypes.CDLL(None, use_errno=True)


class PathRule(ctypes.Structure):
    """``struct landlock_path_beneath_attr``."""

    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


class FilterProgram(ctypes.Structure):
    """``struct sock_fprog``."""

    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))


class Cell:
    """One confinement: its reaper prepares it, its server enters it, the keeper clears it."""

    limits: dict[int, int]
    umask: int | None
    handled: tuple[int, int, int]
    rules: list[tuple[bytes, int]]
    filter: bytes
    filter_fd: int | None
    connect_filter: bytes
    ports: tuple[int, ...]
    capabilities: int | None
    private: bytes

    def __init__(self, bounds: dict[str, Any]) -> None:
        """With the fields of ``spec.Confinement``, where they are explained."""
        vars(self).update(bounds)
        self.line: tuple[_socket.socket, _socket.socket] | None = None

    def prepare(self) -> None:
        """Make the private directory; one that is there already is somebody else's, and never ours to remove."""
        if self.connect_filter:
            self.line = _socket.socketpair()
        path, self.private = self.private, b""
        if path:
            os.mkdir(path, 0o700)  # noqa: PTH102
        self.private = path

    def enter(self) -> None:
        """Give everything up; nothing of it comes back."""
        if self.umask is not None:
            os.umask(self.umask)
        for number, most in self.limits.items():
            lower(number, most)
        if not sys.platform.startswith("linux"):
            return
        if self.capabilities is not None:
            give_up_powers(self.capabilities)
        check(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        if any(self.handled):
            restrict_paths(self.handled, self.rules)
        if self.line is not None:
            hand_connects_over(self.connect_filter, self.line[1])
        if self.filter_fd is not None:
            hand_over(self.filter, self.filter_fd)
        elif self.filter:
            filter_calls(self.filter)

    @property
    def watches(self) -> bool:
        """Whether somebody must decide about the server's connections as long as it runs."""
        return self.line is not None

    def watch(self) -> None:
        """In the reaper, once the server runs: decide about its connections from here on."""
        if self.line is not None:
            import connects  # type: ignore[import-not-found,unused-ignore]

            mine, its = self.line
            its.close()
            connects.Connects(receive_descriptor(mine), frozenset(self.ports))


def receive_descriptor(line: _socket.socket) -> int:
    """The one descriptor that was sent."""
    _word, ancillary, _flags, _address = line.recvmsg(1, _socket.CMSG_SPACE(4))
    line.close()
    return int.from_bytes(ancillary[0][2], sys.byteorder)


def check(outcome: int) -> int:
    """The outcome of a system call that worked; otherwise an ``OSError``."""
    if outcome < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return outcome


def lower(number: int, most: int) -> None:
    """Set a limit for good, never above what is allowed already."""
    _, hard = resource.getrlimit(number)
    allowed = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(number, (allowed, allowed))


def restrict_paths(handled: tuple[int, int, int], rules: Iterable[tuple[bytes, int]]) -> None:
    """Forbid by Landlock as much of what is handled as this kernel knows, but for the rules."""
    version = check(libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), 1))
    files = handled[0] & max(known for since, known in FILES_KNOWN.items() if since <= version)
    network = handled[1] if version >= NETWORK_SINCE else 0
    scopes = handled[2] if version >= SCOPES_SINCE else 0
    attributes = (ctypes.c_uint64 * 3)(files, network, scopes)
    size = 24 if version >= SCOPES_SINCE else 16 if version >= NETWORK_SINCE else 8
    ruleset = check(libc.syscall(CREATE_RULESET, attributes, ctypes.c_size_t(size), 0))
    for path, access in rules:
        allow(ruleset, path, access & files)
    check(libc.syscall(RESTRICT_SELF, ruleset, 0))
    os.close(ruleset)


def allow(ruleset: int, path: bytes, access: int) -> None:
    """Except one file or directory; what does not exist needs no exception."""
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return
    if not stat.S_ISDIR(os.fstat(fd).st_mode):
        access &= FOR_FILES
    if access:
        check(libc.syscall(ADD_RULE, ruleset, RULE_PATH_BENEATH, ctypes.byref(PathRule(access, fd)), 0))
    os.close(fd)


def filter_calls(code: bytes) -> None:
    """Have the kernel look at every further system call."""
    program = FilterProgram(len(code) // 8, code)
    check(libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0))


def give_up_powers(kept: int) -> None:
    """Keep only these of root's powers, for whatever runs from here on; without any there is nothing to give up."""
    libc.prctl(PR_CAP_AMBIENT, AMBIENT_CLEAR_ALL, 0, 0, 0)
    for number in range(CAPABILITIES):
        if not kept >> number & 1:
            libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0)


def hand_connects_over(code: bytes, line: _socket.socket) -> None:
    """Have the kernel ask our reaper about every ``connect``: it is sent what it needs to be asked."""
    program = FilterProgram(len(code) // 8, code)
    arguments = SECCOMP[os.uname().machine], SECCOMP_SET_FILTER
    listener = libc.syscall(*arguments, NEW_LISTENER | WAIT_KILLABLE, ctypes.byref(program))
    if listener < 0 and ctypes.get_errno() == errno.EINVAL:  # before Linux 5.19 a signal may interrupt the answer
        listener = check(libc.syscall(*arguments, NEW_LISTENER, ctypes.byref(program)))
    descriptor = check(listener).to_bytes(4, sys.byteorder)
    line.sendmsg([b"c"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, descriptor)])
    os.close(listener)


def hand_over(code: bytes, target: int) -> None:
    """Leave the filter where the command looks for it; a pipe holds far more than a filter takes."""
    reading, writing = os.pipe()
    os.write(writing, code)
    os.dup2(reading, target)


def remove_tree(path: bytes) -> None:
    """Remove a directory and all in it, whatever the server has done to it; links are removed, not followed."""
    try:
        os.chmod(path, 0o700)  # noqa: PTH101
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    remove_tree(entry.path)
                else:
                    os.unlink(entry.path)  # noqa: PTH108
        os.rmdir(path)  # noqa: PTH106
    except OSError:  # removed by somebody else meanwhile, or made immovable
        return
