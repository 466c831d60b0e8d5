"""Which addresses a confined server may connect to."""

import ctypes
import errno
import mmap
import os
import queue
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from toolcrib.transports.process import connects
from toolcrib.transports.process.connects import (
    ADDRESS_MAX,
    ANSWER,
    IS_VALID,
    NOTICE,
    RECEIVE,
    Connects,
    may_connect,
    read_memory,
    scope_of,
    take_socket,
)

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


@pytest.mark.parametrize("behind", [b"", b"\xff", b"\xff" * 100])
def test_what_a_program_writes_behind_an_address_is_no_part_of_it(behind):
    """With another scope, an address of this machine would be taken for one of another."""
    assert scope_of(inet6("fe80::1", 80)[:-4] + struct.pack("<I", 0x01020304) + behind) == 0x01020304


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


@pytest.mark.parametrize("size", [2, ADDRESS_MAX])
def test_an_address_of_a_possible_size_is_read(size):
    """Nobody has the number of this thread, so it cannot be."""
    with pytest.raises(FileNotFoundError):
        Connects.connect(object.__new__(Connects), 1, -1, -1, 0, size)


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


class Kernel:
    """Hands out connections to decide about and takes the answers, as a seccomp listener does."""

    def __init__(self) -> None:
        self.reading, self.writing = os.pipe()
        self.notices, self.held = list[bytes | None](), list[object]()
        self.answers: queue.SimpleQueue[tuple[int, int]] = queue.SimpleQueue()
        self.may_check, self.is_gone = threading.Event(), False
        self.may_check.set()

    def ask(self, identity: int, sock: socket.socket, address: bytes, size: int | None = None) -> None:
        """One ``connect`` of this process; the kernel hands over 64 bits where 32 count."""
        self.held.append(held := ctypes.create_string_buffer(address))
        arguments = (sock.fileno() | 7 << 32, ctypes.addressof(held), (size or len(address)) | 7 << 32, 0, 0, 0)
        self.put(NOTICE.pack(identity, os.getpid(), 0, 42, 0, 0, *arguments))

    def put(self, notice: bytes | None) -> None:
        self.notices.append(notice)
        os.write(self.writing, b"!")

    def ioctl(self, fd: int, request: int, argument: bytearray | bytes) -> None:
        assert fd == self.reading
        if request == RECEIVE:
            os.read(self.reading, 1)
            notice = self.notices.pop(0)
            if notice is None:
                raise OSError(errno.ENOENT, "whoever asked is gone")
            argument[:] = notice
        elif request == IS_VALID:
            assert self.may_check.wait(150)
            if self.is_gone:
                raise OSError(errno.ENOENT, "the number is somebody else's by now")
        else:
            assert request == ANSWER
            identity, value, error, flags = struct.unpack("=QqiI", argument)
            assert (value, flags) == (0, 0)
            self.answers.put((identity, -error))

    def answer(self) -> tuple[int, int]:
        return self.answers.get(timeout=150)


class Attended(Connects):
    """One that tells when it has nobody left to attend to."""

    def __init__(self, listener: int, ports: frozenset[int]) -> None:
        self.has_ended = threading.Event()
        super().__init__(listener, ports)

    def attend(self) -> None:
        super().attend()
        self.has_ended.set()


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kernel]:
    made = Kernel()
    monkeypatch.setattr(connects, "fcntl", made)
    yield made
    os.close(made.reading)


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


@pytest.fixture
def client() -> Iterator[socket.socket]:
    with socket.socket() as made:
        yield made


@pytest.fixture
def attended(kernel: Kernel, server: socket.socket) -> Iterator[Attended]:
    """Connections to this server are granted, others on this machine are not."""
    made = Attended(kernel.reading, frozenset({server.getsockname()[1]}))
    yield made
    os.close(kernel.writing)
    assert made.has_ended.wait(150)


def open_sockets() -> list[str]:
    """What every descriptor of ours leads to."""
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            found.append(os.readlink(descriptor))
    return found


def test_a_granted_connection_is_made_for_the_server_itself(kernel, server, client, attended):
    """With the very socket it asked for."""
    kernel.ask(5, client, inet(*server.getsockname()))

    assert kernel.answer() == (5, 0)
    assert client.getpeername() == server.getsockname()
    assert open_sockets().count(os.readlink(f"/proc/self/fd/{client.fileno()}")) == 1


def test_an_error_from_before_is_not_told_of_a_connection_that_worked(kernel, server, client):
    """The C library leaves the number of the last error where it is when all goes well."""
    deciding = object.__new__(Connects)
    deciding.listener, deciding.ports = kernel.reading, frozenset({server.getsockname()[1]})
    address = ctypes.create_string_buffer(inet(*server.getsockname()))
    ctypes.set_errno(errno.EBADF)

    assert deciding.connect(1, os.getpid(), client.fileno(), ctypes.addressof(address), 16) == 0


def test_a_connection_that_is_not_granted_is_refused_and_not_made(kernel, server, client, attended):
    kernel.ask(6, client, inet("127.0.0.1", 1))

    assert kernel.answer() == (6, errno.EACCES)
    with pytest.raises(OSError, match="not connected"):
        client.getpeername()


def test_what_the_kernel_says_of_a_granted_connection_is_handed_on(kernel, server, client, attended):
    """Here that nobody listens any more."""
    address = server.getsockname()
    server.close()
    kernel.ask(7, client, inet(*address))

    assert kernel.answer() == (7, errno.ECONNREFUSED)


def test_an_address_that_cannot_be_read_is_the_servers_own_error(kernel, client, attended):
    """It is told what the kernel said, and that it may not if the kernel said nothing."""
    kernel.put(NOTICE.pack(8, os.getpid(), 0, 42, 0, 0, client.fileno(), 0, 16, 0, 0, 0))

    assert kernel.answer() == (8, errno.EIO)


def test_nothing_is_connected_for_a_thread_that_has_ended(kernel, server, client, attended):
    """Its number may be another one's by now."""
    kernel.is_gone = True
    kernel.ask(9, client, inet(*server.getsockname()))

    assert kernel.answer() == (9, errno.ENOENT)
    with pytest.raises(OSError, match="not connected"):
        client.getpeername()


def test_a_question_that_was_withdrawn_does_not_end_the_keeper(kernel, server, client, attended):
    kernel.put(None)
    kernel.ask(10, client, inet(*server.getsockname()))

    assert kernel.answer() == (10, 0)


def test_so_many_connections_may_be_under_way_and_no_more(kernel, server, client, attended):
    """One more is to be tried again; and there is room when one of them is settled."""
    attended.at_once = 1
    kernel.may_check.clear()
    kernel.ask(11, client, inet(*server.getsockname()))
    with socket.socket() as second:
        kernel.ask(12, second, inet(*server.getsockname()))
        refused = kernel.answer()
        kernel.may_check.set()
        made = kernel.answer()
        while attended.under_way:
            os.sched_yield()
        kernel.ask(13, second, inet(*server.getsockname()))

        assert (refused, made, kernel.answer()) == ((12, errno.EAGAIN), (11, 0), (13, 0))


def test_an_address_of_this_machine_is_here_whatever_it_is():
    """The one from which it would speak to others, where there are any."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            own = probe.getsockname()[0]
        except OSError:
            own = "127.0.0.1"

    assert not may_connect(inet(own, 80), PORTS)
    assert not may_connect(inet6(f"::ffff:{own}", 80), PORTS)


class Probe:
    """A socket that speaks from the very address it is connected to, in the scopes that are this machine's."""

    scopes = frozenset({0x0201})

    def __init__(self, *_: int) -> None:
        self.address: tuple[str, ...] = ("::",)

    def connect(self, address: tuple[str, int, int, int]) -> None:
        self.address = (address[0] if address[3] in self.scopes else "fe80::2",)

    def getsockname(self) -> tuple[str, ...]:
        return self.address

    def close(self) -> None: ...


@pytest.mark.parametrize(("scope", "passes"), [(0x0201, False), (0x0202, True), (0x02, True)])
def test_an_address_of_ipv6_is_here_in_its_own_scope_alone(monkeypatch, scope, passes):
    """The same one may be this machine's on one network, and another's on the next."""
    monkeypatch.setattr(connects, "_socket", SimpleNamespace(**{**vars(connects._socket), "socket": Probe}))

    assert may_connect(inet6("fe80::1", 443)[:24] + scope.to_bytes(4, "little"), PORTS) is passes


@pytest.mark.parametrize(("name", "passes"), [("2001:db8::1", True), ("::1", False)])
def test_an_address_of_ipv6_may_come_without_its_scope(name, passes):
    """24 bytes are enough; with fewer, or of another family, it is none."""
    assert may_connect(inet6(name, 443)[:24], PORTS) is passes
    assert not may_connect(inet6(name, 443)[:23], PORTS)
    assert not may_connect(b"\x10\0" + inet6(name, 443)[2:], PORTS)


def test_memory_that_ends_before_the_address_does_is_an_error():
    """Nothing is made of half an address."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype, libc.mmap.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 4]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    page = os.sysconf("SC_PAGE_SIZE")
    start = libc.mmap(None, 2 * page, mmap.PROT_READ, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    assert libc.munmap(start + page, page) == 0

    with pytest.raises(OSError) as refused:
        read_memory(os.getpid(), start + page - 6, 16)

    assert refused.value.errno == errno.EFAULT
    libc.munmap(start, page)
