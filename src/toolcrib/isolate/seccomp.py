"""The filter for system calls, as the kernel reads it. Forbidden calls fail with an error; nothing is killed.

What the rest of the confinement rests on: no sockets but those granted, no look into other processes, no new
namespaces, mounts or kernel modules, and no second road to any of it.
"""

import struct
from collections.abc import Mapping
from typing import NamedTuple

EPERM, ENOSYS = 1, 38
ALLOW, FAIL = 0x7FFF0000, 0x00050000
LOAD, AND, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
AT_NUMBER, AT_ARCHITECTURE, AT_ARGUMENTS = 0, 4, 16
X32 = 0x40000000
"""Calls of the x32 kind have this bit; they are the same calls by other numbers."""
NEW_NAMESPACES = 0x7E020000  # CLONE_NEW*: mount, cgroup, uts, ipc, user, pid, net
SOCKET_TYPE = 0xF
STREAM, SEQPACKET = 1, 5
INET_FAMILIES = (2, 10, 16)
"""IPv4, IPv6, and the netlink that name resolution needs; never AF_UNIX, behind which other programs listen."""


class Machine(NamedTuple):
    """An architecture: the name the kernel gives it, and its numbers for the calls that the filter looks at."""

    audit: int
    numbers: Mapping[str, int]


_X86_64 = {
    "socket": 41, "socketpair": 53, "clone": 56, "clone3": 435,
    "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312, "pidfd_getfd": 438,
    "process_madvise": 440, "add_key": 248, "request_key": 249, "keyctl": 250, "bpf": 321, "perf_event_open": 298,
    "userfaultfd": 323, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427,
    "unshare": 272, "setns": 308, "chroot": 161, "pivot_root": 155, "mount": 165, "umount2": 166, "open_tree": 428,
    "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "mount_setattr": 442,
    "open_by_handle_at": 304, "kexec_load": 246, "kexec_file_load": 320, "init_module": 175, "finit_module": 313,
    "delete_module": 176, "create_module": 174, "iopl": 172, "ioperm": 173, "acct": 163, "swapon": 167, "swapoff": 168,
    "reboot": 169, "sethostname": 170, "setdomainname": 171, "settimeofday": 164, "clock_settime": 227,
    "clock_adjtime": 305, "adjtimex": 159, "syslog": 103, "quotactl": 179, "quotactl_fd": 443, "vhangup": 153,
    "uselib": 134, "lookup_dcookie": 212, "nfsservctl": 180,
}  # fmt: skip
_AARCH64 = {
    "socket": 198, "socketpair": 199, "clone": 220, "clone3": 435,
    "ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272, "pidfd_getfd": 438,
    "process_madvise": 440, "add_key": 217, "request_key": 218, "keyctl": 219, "bpf": 280, "perf_event_open": 241,
    "userfaultfd": 282, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427,
    "unshare": 97, "setns": 268, "chroot": 51, "pivot_root": 41, "mount": 40, "umount2": 39, "open_tree": 428,
    "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "mount_setattr": 442,
    "open_by_handle_at": 265, "kexec_load": 104, "kexec_file_load": 294, "init_module": 105, "finit_module": 273,
    "delete_module": 106, "acct": 89, "swapon": 224, "swapoff": 225, "reboot": 142, "sethostname": 161,
    "setdomainname": 162, "settimeofday": 170, "clock_settime": 112, "clock_adjtime": 266, "adjtimex": 171,
    "syslog": 116, "quotactl": 60, "quotactl_fd": 443, "vhangup": 58, "lookup_dcookie": 18, "nfsservctl": 42,
}  # fmt: skip
_SPECIAL = ("socket", "socketpair", "clone", "clone3")

MACHINES: Mapping[str, Machine] = {
    "x86_64": Machine(0xC000003E, _X86_64),
    "aarch64": Machine(0xC00000B7, _AARCH64),
}
"""By what ``os.uname().machine`` says; elsewhere there is no filter."""


def build_filter(machine: Machine, *, network: bool) -> bytes:
    """The program: calls of another architecture fail, the forbidden ones fail, sockets are looked at closely."""
    numbers = machine.numbers
    refuse = _answer(FAIL | EPERM)
    forbidden = [number for name, number in numbers.items() if name not in _SPECIAL]
    return b"".join([
        _step(LOAD, AT_ARCHITECTURE),
        _step(EQUAL, machine.audit, 1, 0),
        refuse,
        _step(LOAD, AT_NUMBER),
        _when(AT_LEAST, X32, refuse),
        _when(EQUAL, numbers["socket"], _look_at_family(INET_FAMILIES if network else ())),
        _when(EQUAL, numbers["socketpair"], _look_at_type()),
        _when(EQUAL, numbers["clone"], _look_at_flags()),
        # Its flags stand in memory, where a filter cannot look; without it, libraries use ``clone``.
        _when(EQUAL, numbers["clone3"], _answer(FAIL | ENOSYS)),
        *(_when(EQUAL, number, refuse) for number in forbidden),
        _answer(ALLOW),
    ])  # fmt: skip


def _look_at_family(families: tuple[int, ...]) -> bytes:
    return _argument(0) + b"".join(_when(EQUAL, each, _answer(ALLOW)) for each in families) + _answer(FAIL | EPERM)


def _look_at_type() -> bytes:
    """A pair of datagram sockets would do what ``socket`` may not: either end can be turned to another address."""
    allowed = [_when(EQUAL, kind, _answer(ALLOW)) for kind in (STREAM, SEQPACKET)]
    return _argument(1) + _step(AND, SOCKET_TYPE) + b"".join(allowed) + _answer(FAIL | EPERM)


def _look_at_flags() -> bytes:
    return _argument(0) + _when(ANY_BIT, NEW_NAMESPACES, _answer(FAIL | EPERM)) + _answer(ALLOW)


def _argument(index: int) -> bytes:
    return _step(LOAD, AT_ARGUMENTS + 8 * index)  # the lower half: both architectures are little-endian


def _when(test: int, value: int, then: bytes) -> bytes:
    """Do ``then``, which ends with an answer, if the test holds; otherwise go on."""
    return _step(test, value, 0, len(then) // 8) + then


def _answer(action: int) -> bytes:
    return _step(RETURN, action)


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)
