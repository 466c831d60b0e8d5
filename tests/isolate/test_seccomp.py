"""The filter, run by a small interpreter of the kernel's language: what it answers to which call, on each machine."""

import errno
import socket
import struct

import pytest

from toolcrib.isolate.seccomp import ALLOW, ENOSYS, EPERM, FAIL, MACHINES, X32, build_filter

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
}
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
    def decide(name, *arguments, network=False):
        return ask(build_filter(machine, network=network), machine.audit, machine.numbers[name], *arguments)

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
    families = {family: decide("socket", family, network=True) for family in (socket.AF_UNIX, 2, 10, 16, 17, 40)}

    assert [family for family, answer in families.items() if answer == ALLOW] == [2, 10, 16]


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
    assert (EPERM, ENOSYS) == (errno.EPERM, errno.ENOSYS)


def test_the_same_call_by_the_numbers_of_another_architecture_fails(machine):
    """32-bit programs would find other calls under these numbers."""
    code = build_filter(machine, network=True)

    assert ask(code, 0x40000003, 102) == FAIL | EPERM
    assert ask(code, machine.audit, X32 | 41) == FAIL | EPERM
