"""The filter, run by a small interpreter of the kernel's language: what it answers to which call, on each machine."""

import errno
import socket
import struct

import pytest

from toolcrib.isolate.seccomp import (
    ALLOW,
    ENOSYS,
    EOPNOTSUPP,
    EPERM,
    FAIL,
    FAST_OPEN,
    MACHINES,
    NOTIFY,
    X32,
    build_connect_filter,
    build_filter,
)

FORBIDDEN = {
    "ptrace",
    "process_vm_readv",
    "keyctl",
    "bpf",
    "mount",
    "unshare",
    "setns",
    "io_uring_setup",
    "init_module",
    "fanotify_init",
    "fanotify_mark",
    "move_pages",
    "process_mrelease",
    "name_to_handle_at",
}
SHARED = {"shmget", "shmat", "shmctl", "semget", "semop", "msgget", "msgsnd", "mq_open", "inotify_init1"}
ON_PROCESS = {"prlimit64", "sched_setscheduler", "sched_setparam", "sched_setaffinity", "sched_setattr"}
CLONE_NEWUSER, SIGCHLD = 0x10000000, 17


def ask(code: bytes, audit: int, number: int, *arguments: int) -> int:
    """The kernel's answer to a call under this filter."""
    call = struct.pack("=IIQ6Q", number, audit, 0, *arguments, *[0] * (6 - len(arguments)))
    steps = list(struct.iter_unpack("=HBBI", code))
    at, held = 0, 0
    while True:
        operation, if_true, if_false, value = steps[at]
        at += 1
        if operation == 0x06:
            return value
        if operation == 0x20:
            (held,) = struct.unpack_from("=I", call, value)
        elif operation == 0x54:
            held &= value
        else:
            holds = {0x15: held == value, 0x35: held >= value, 0x45: held & value != 0}[operation]
            at += if_true if holds else if_false


@pytest.fixture(params=sorted(MACHINES))
def machine(request):
    return MACHINES[request.param]


@pytest.fixture
def decide(machine):
    def decide(name, *arguments, network=False, apart=False):
        code = build_filter(machine, network=network, apart=apart)
        return ask(code, machine.audit, machine.numbers[name], *arguments)

    return decide


@pytest.mark.parametrize("name", sorted(FORBIDDEN))
def test_a_forbidden_call_fails_and_kills_nobody(decide, name):
    """The program sees "operation not permitted"."""
    assert decide(name) == FAIL | EPERM


def test_ordinary_calls_pass(machine):
    """Whatever is not named: read, write, open, futex …"""
    looked_at = set(machine.numbers.values())
    code = build_filter(machine, network=False)

    answers = {ask(code, machine.audit, number) for number in range(460) if number not in looked_at}

    assert answers == {ALLOW}


@pytest.mark.parametrize("family", [socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, 16, 17, 40])
def test_without_network_there_is_no_socket_of_any_kind(decide, family):
    """Unix, internet, netlink, packet, virtual machine."""
    assert decide("socket", family) == FAIL | EPERM


def test_with_network_there_are_internet_sockets_and_no_others(decide):
    """A unix socket leads to other programs of this machine: docker, ssh-agent, the desktop."""
    families = {family: decide("socket", family, 1, network=True) for family in range(46)}

    assert [family for family, answer in families.items() if answer == ALLOW] == [2, 10]


@pytest.mark.parametrize("family", [2, 10])
def test_with_network_there_are_tcp_and_udp_and_nothing_else(decide, family):
    """No raw packets, and nothing that connects by another call than ``connect``, as SCTP does."""
    kinds = {(kind, protocol) for kind in range(1, 11) for protocol in (0, 1, 6, 17, 58, 132, 136, 255, 262)}
    cloexec = 0x80000

    allowed = {each for each in kinds if decide("socket", family, each[0] | cloexec, each[1], network=True) == ALLOW}

    assert allowed == {(kind, protocol) for kind in (1, 2) for protocol in (0, 6, 17, 262)}


@pytest.mark.parametrize(("name", "flags_at"), [("sendto", 3), ("sendmsg", 2), ("sendmmsg", 3)])
def test_sending_cannot_connect_on_its_way(decide, name, flags_at):
    """Programs fall back to ``connect``, at which somebody looks."""
    plain, fast = [0] * 6, [0] * 6
    plain[flags_at], fast[flags_at] = 0x4040, 0x4040 | FAST_OPEN

    assert (decide(name, *plain, network=True), decide(name, *fast, network=True)) == (ALLOW, FAIL | EOPNOTSUPP)


@pytest.mark.parametrize("name", sorted(ON_PROCESS))
def test_what_sets_limits_and_shares_works_on_oneself_only(decide, name):
    """0 is the caller; a number could be anybody's, unless there is nobody else to be named."""
    assert [decide(name, pid) for pid in (0, 1, 4711, 2**32 - 1)] == [ALLOW, *[FAIL | EPERM] * 3]
    assert decide(name, 4711, apart=True) == ALLOW


@pytest.mark.parametrize(("name", "process", "user"), [("setpriority", 0, 2), ("ioprio_set", 1, 3)])
def test_priorities_are_changed_of_oneself_only(decide, name, process, user):
    """Neither of another process nor of all of a user, which 0 would be in that case."""
    assert decide(name, process, 0) == ALLOW
    assert decide(name, process, 4711) == decide(name, user, 0) == FAIL | EPERM
    assert decide(name, user, 0, apart=True) == ALLOW


@pytest.mark.parametrize("name", sorted(SHARED))
def test_what_is_shared_by_other_names_than_paths_is_not_there(decide, name):
    """As on a kernel without it, so that programs do without; in namespaces of its own it is nobody else's."""
    assert (decide(name), decide(name, apart=True)) == (FAIL | ENOSYS, ALLOW)


def test_nothing_is_typed_into_a_terminal(decide):
    """Other requests to devices pass."""
    assert [decide("ioctl", 0, request) for request in (0x5412, 0x541C, 0x5401)] == [FAIL | EPERM, FAIL | EPERM, ALLOW]


def test_every_connection_is_asked_about_and_nothing_else(machine):
    """Whatever the other filter thinks of it."""
    code = build_connect_filter(machine)
    answers = {number: ask(code, machine.audit, number) for number in range(500)}

    assert {number for number, answer in answers.items() if answer == NOTIFY} == {machine.numbers["connect"]}
    assert set(answers.values()) == {NOTIFY, ALLOW}


@pytest.mark.parametrize("flags", [0, 0x800, 0x80000])
def test_pairs_of_streams_are_allowed_and_of_datagrams_are_not(decide, flags):
    """Event loops need the former; an end of the latter can be turned to any address."""
    kinds = {kind: decide("socketpair", 1, kind | flags) for kind in (1, 2, 3, 5)}

    assert kinds == {1: ALLOW, 2: FAIL | EPERM, 3: FAIL | EPERM, 5: ALLOW}


def test_threads_and_processes_are_allowed_but_no_namespaces(decide):
    """``clone3`` hides its flags, so libraries are sent back to ``clone``."""
    assert decide("clone", SIGCHLD) == ALLOW
    assert decide("clone", SIGCHLD | CLONE_NEWUSER) == FAIL | EPERM
    assert decide("clone3") == FAIL | ENOSYS
    assert (EPERM, ENOSYS, EOPNOTSUPP) == (errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP)


def test_the_same_call_by_the_numbers_of_another_architecture_fails(machine):
    """32-bit programs would find other calls under these numbers."""
    code = build_filter(machine, network=True)

    assert ask(code, 0x40000003, 102) == FAIL | EPERM
    assert ask(code, machine.audit, X32 | 41) == FAIL | EPERM
