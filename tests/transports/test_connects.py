"""Which addresses a confined server may connect to."""

import ctypes
import errno
import os
import socket
import struct

import pytest

from toolcrib.transports.connects import ADDRESS_MAX, Connects, may_connect, read_memory, take_socket

PORTS = frozenset({53, 5432})


def inet(name: str, port: int) -> bytes:
    return struct.pack("=H", socket.AF_INET) + port.to_bytes(2, "big") + socket.inet_aton(name) + bytes(8)


def inet6(name: str, port: int) -> bytes:
    head = struct.pack("=H", socket.AF_INET6) + port.to_bytes(2, "big") + bytes(4)
    return head + socket.inet_pton(socket.AF_INET6, name) + bytes(4)


@pytest.mark.parametrize("name", ["127.0.0.1", "127.255.0.9", "0.0.0.0", "0.1.2.3"])
def test_this_machine_is_reached_at_granted_ports_only(name):
    assert [may_connect(inet(name, port), PORTS) for port in (80, 53, 5432)] == [False, True, True]


@pytest.mark.parametrize("name", ["::1", "::", "::ffff:127.0.0.1", "::ffff:0.0.0.0"])
def test_the_same_holds_in_the_clothes_of_ipv6(name):
    assert [may_connect(inet6(name, port), PORTS) for port in (80, 5432)] == [False, True]


@pytest.mark.parametrize(
    "address", [inet("192.0.2.1", 443), inet("1.2.3.4", 80), inet6("2001:db8::1", 443), inet6("::ffff:192.0.2.1", 80)]
)
def test_others_are_reached_at_any_port(address):
    """Whether there is a road to them is the kernel's to say."""
    assert may_connect(address, PORTS)


def test_undoing_a_connection_is_allowed():
    """Programs do that to learn from which address they would speak."""
    assert may_connect(bytes(16), PORTS)


@pytest.mark.parametrize("address", [b"\1\0/run/docker.sock", b"\x10\0" + bytes(10), inet("8.8.8.8", 1)[:12], b"\2\0"])
def test_other_kinds_of_address_and_halves_are_refused(address):
    """Unix sockets, netlink, and what is too short to be read."""
    assert not may_connect(address, PORTS)


def test_an_address_without_a_road_to_it_is_not_here():
    """The kernel refuses the connection itself."""
    assert may_connect(inet6("fe80::1", 80), PORTS)


@pytest.mark.parametrize("size", [0, 1, ADDRESS_MAX + 1])
def test_an_address_of_no_possible_size_is_refused_before_anything_is_read(size):
    assert Connects.connect(object.__new__(Connects), 1, -1, -1, 0, size) == errno.EINVAL


def test_a_socket_is_taken_from_the_process_of_a_thread():
    ours, _ = ends = socket.socketpair()
    taken = take_socket(os.getpid(), ours.fileno())
    try:
        assert os.path.samestat(os.fstat(taken), os.fstat(ours.fileno()))
    finally:
        os.close(taken)
        for end in ends:
            end.close()


def test_a_descriptor_that_is_not_there_cannot_be_taken():
    with pytest.raises(OSError) as refused:
        take_socket(os.getpid(), 1 << 20)

    assert refused.value.errno == errno.EBADF


def test_memory_is_read_as_far_as_it_was_asked_for():
    held = ctypes.create_string_buffer(b"address!")

    assert read_memory(os.getpid(), ctypes.addressof(held), 7) == b"address"
