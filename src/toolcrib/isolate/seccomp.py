"""The filters for system calls, as the kernel reads them. Forbidden calls fail with an error; nothing is killed.

What the rest of the confinement rests on: no sockets but those granted, no look into other processes and no hand on
them, no memory or queues shared with them, no new namespaces, mounts or kernel modules, and no second road to any of
it. Landlock covers none of these.
"""

import struct
from collections.abc import Iterator, Mapping
from typing import NamedTuple

EPERM, ENOSYS, EOPNOTSUPP = 1, 38, 95
ALLOW, FAIL, NOTIFY = 0x7FFF0000, 0x00050000, 0x7FC00000
LOAD, AND, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
AT_NUMBER, AT_ARCHITECTURE, AT_ARGUMENTS = 0, 4, 16
X32 = 0x40000000
"""Calls of the x32 kind have this bit; they are the same calls by other numbers."""
NEW_NAMESPACES = 0x7E020000  # CLONE_NEW*: mount, cgroup, uts, ipc, user, pid, net
SOCKET_TYPE = 0xF
STREAM, DATAGRAM, SEQPACKET = 1, 2, 5
INET_FAMILIES = (2, 10)
"""IPv4 and IPv6. Never AF_UNIX, behind which other programs listen, nor netlink, which tells about all of them."""
INET_PROTOCOLS = (0, 6, 17, 262)
"""The default, TCP, UDP, multipath TCP: all of them connect by ``connect`` alone, which others (SCTP) do not."""
FAST_OPEN = 0x20000000
"""``MSG_FASTOPEN``: sending that connects on its way, unseen by whoever looks at ``connect``."""
TERMINAL_INPUT = (0x5412, 0x541C)
"""``TIOCSTI`` and ``TIOCLINUX``, which type into a terminal as if its user did."""
OTHER_USERS = {"setpriority": 2, "ioprio_set": 3}
"""What ``which`` says when all processes of a user are meant."""


class Architecture(NamedTuple):
    """An architecture: the name the kernel gives it, and its numbers for the calls that the filter looks at."""

    audit: int
    numbers: Mapping[str, int]


_X86_64 = {
    "socket": 41, "socketpair": 53, "clone": 56, "clone3": 435, "ioctl": 16,
    "connect": 42, "sendto": 44, "sendmsg": 46, "sendmmsg": 307,
    "prlimit64": 302, "setpriority": 141, "sched_setscheduler": 144, "sched_setparam": 142, "sched_setaffinity": 203,
    "sched_setattr": 314, "ioprio_set": 251, "get_robust_list": 274,
    "shmget": 29, "shmat": 30, "shmctl": 31, "semget": 64, "semop": 65, "semctl": 66, "semtimedop": 220, "msgget": 68,
    "msgsnd": 69, "msgrcv": 70, "msgctl": 71, "mq_open": 240, "mq_unlink": 241, "mq_timedsend": 242,
    "mq_timedreceive": 243, "mq_notify": 244, "mq_getsetattr": 245,
    "inotify_init": 253, "inotify_init1": 294, "inotify_add_watch": 254,
    "fanotify_init": 300, "fanotify_mark": 301, "migrate_pages": 256, "move_pages": 279, "process_mrelease": 448,
    "name_to_handle_at": 303, "open_tree_attr": 467,
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
    "socket": 198, "socketpair": 199, "clone": 220, "clone3": 435, "ioctl": 29,
    "connect": 203, "sendto": 206, "sendmsg": 211, "sendmmsg": 269,
    "prlimit64": 261, "setpriority": 140, "sched_setscheduler": 119, "sched_setparam": 118, "sched_setaffinity": 122,
    "sched_setattr": 274, "ioprio_set": 30, "get_robust_list": 100,
    "shmget": 194, "shmat": 196, "shmctl": 195, "semget": 190, "semop": 193, "semctl": 191, "semtimedop": 192,
    "msgget": 186, "msgsnd": 189, "msgrcv": 188, "msgctl": 187, "mq_open": 180, "mq_unlink": 181, "mq_timedsend": 182,
    "mq_timedreceive": 183, "mq_notify": 184, "mq_getsetattr": 185,
    "inotify_init1": 26, "inotify_add_watch": 27,
    "fanotify_init": 262, "fanotify_mark": 263, "migrate_pages": 238, "move_pages": 239, "process_mrelease": 448,
    "name_to_handle_at": 264, "open_tree_attr": 467,
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
_SHARED = (
    "shmget", "shmat", "shmctl", "semget", "semop", "semctl", "semtimedop", "msgget", "msgsnd", "msgrcv", "msgctl",
    "mq_open", "mq_unlink", "mq_timedsend", "mq_timedreceive", "mq_notify", "mq_getsetattr",
    "inotify_init", "inotify_init1", "inotify_add_watch",
)  # fmt: skip
"""What reaches others by names that no path rule covers: memory, semaphores, queues, and word of changed files. A
program in namespaces of its own finds nobody there. They fail as on a kernel without them, which programs expect."""
_FLAGGED = {"sendto": 3, "sendmsg": 2, "sendmmsg": 3}
"""Which argument holds the flags."""
_AIMED = {
    "prlimit64": 0, "sched_setscheduler": 0, "sched_setparam": 0, "sched_setaffinity": 0, "sched_setattr": 0,
    "get_robust_list": 0, "setpriority": 1, "ioprio_set": 1,
}  # fmt: skip
"""Which argument names the process; 0 is the caller, all others are refused unless nobody else can be named."""
_SPECIAL = {"socket", "socketpair", "clone", "clone3", "connect", "ioctl", *_FLAGGED, *_AIMED, *_SHARED}

MACHINES: Mapping[str, Architecture] = {
    "x86_64": Architecture(0xC000003E, _X86_64),
    "aarch64": Architecture(0xC00000B7, _AARCH64),
}
"""By what ``os.uname().machine`` says; elsewhere there is no filter."""


def build_filter(machine: Architecture, *, network: bool, apart: bool = False) -> bytes:
    """The program for one that may have a ``network``, and may live ``apart``: in namespaces of its own for processes
    and shared memory, among mounts of its own."""
    numbers = machine.numbers
    refuse = _answer(FAIL | EPERM)
    forbidden = [number for name, number in numbers.items() if name not in _SPECIAL]
    return b"".join([
        *_only_native(machine, refuse),
        _when(AT_LEAST, X32, refuse),
        _when(EQUAL, numbers["socket"], _look_at_socket() if network else refuse),
        *_refuse_fast_open(numbers),
        _when(EQUAL, numbers["ioctl"], _argument(1) + _none_of(TERMINAL_INPUT) + _answer(ALLOW)),
        # A pair of datagram sockets would do what ``socket`` may not: either end can be turned to another address.
        _when(EQUAL, numbers["socketpair"], _argument(1, SOCKET_TYPE) + _one_of(STREAM, SEQPACKET) + _answer(ALLOW)),
        _when(EQUAL, numbers["clone"], _argument(0) + _when(ANY_BIT, NEW_NAMESPACES, refuse) + _answer(ALLOW)),
        # Its flags stand in memory, where a filter cannot look; without it, libraries use ``clone``.
        _when(EQUAL, numbers["clone3"], _answer(FAIL | ENOSYS)),
        *(() if apart else _refuse_others(numbers)),
        *(_when(EQUAL, number, refuse) for number in forbidden),
        _answer(ALLOW),
    ])  # fmt: skip


def build_connect_filter(machine: Architecture) -> bytes:
    """The program that hands every ``connect`` to whoever listens; it goes with ``build_filter``, which refuses the
    calls of other architectures."""
    connect = _when(EQUAL, machine.numbers["connect"], _answer(NOTIFY))
    return b"".join([*_only_native(machine, _answer(ALLOW)), connect, _answer(ALLOW)])


def _only_native(machine: Architecture, otherwise: bytes) -> Iterator[bytes]:
    """What to answer to calls by the numbers of another architecture; goes on with the number of the call."""
    yield _step(LOAD, AT_ARCHITECTURE)
    yield _step(EQUAL, machine.audit, 1, 0)
    yield otherwise
    yield _step(LOAD, AT_NUMBER)


def _look_at_socket() -> bytes:
    family = _argument(0) + _one_of(*INET_FAMILIES)
    kind = _argument(1, SOCKET_TYPE) + _one_of(STREAM, DATAGRAM)
    return family + kind + _argument(2) + _one_of(*INET_PROTOCOLS) + _answer(ALLOW)


def _refuse_fast_open(numbers: Mapping[str, int]) -> Iterator[bytes]:
    for name, index in _FLAGGED.items():
        look = _argument(index) + _when(ANY_BIT, FAST_OPEN, _answer(FAIL | EOPNOTSUPP)) + _answer(ALLOW)
        yield _when(EQUAL, numbers[name], look)


def _refuse_others(numbers: Mapping[str, int]) -> Iterator[bytes]:
    """What may be done to oneself and not to others, and what is shared with them."""
    for name, index in _AIMED.items():
        which = _argument(0) + _none_of((OTHER_USERS[name],)) if name in OTHER_USERS else b""
        yield _when(EQUAL, numbers[name], which + _argument(index) + _one_of(0) + _answer(ALLOW))
    for name in _SHARED:
        if name in numbers:
            yield _when(EQUAL, numbers[name], _answer(FAIL | ENOSYS))


def _argument(index: int, mask: int = 0) -> bytes:
    """Look at an argument: at its lower half, which comes first on both architectures, as the kernel does."""
    return _step(LOAD, AT_ARGUMENTS + 8 * index) + (_step(AND, mask) if mask else b"")


def _one_of(*values: int) -> bytes:
    """Refuse unless it is one of these, otherwise go on."""
    tests = [_step(EQUAL, value, len(values) - at, 0) for at, value in enumerate(values)]
    return b"".join(tests) + _answer(FAIL | EPERM)


def _none_of(values: tuple[int, ...]) -> bytes:
    """Refuse if it is one of these, otherwise go on."""
    return b"".join(_when(EQUAL, value, _answer(FAIL | EPERM)) for value in values)


def _when(test: int, value: int, then: bytes) -> bytes:
    """Do ``then``, which ends with an answer, if the test holds; otherwise go on."""
    return _step(test, value, 0, len(then) // 8) + then


def _answer(action: int) -> bytes:
    return _step(RETURN, action)


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)
