"""Where a confined server with a network may connect to: its reaper looks at every address before the kernel does.

The kernel stops each ``connect`` and hands it to the reaper, which copies the address, decides, and connects the
server's own socket to that copy: whatever the server does to its memory meanwhile changes nothing. Refused is whatever
leads back to this machine (toolcrib's own port, databases, other people's services), but for the ports granted.

Imported like ``confine.py``, by its file name and only when needed; standard library only.
"""

from __future__ import annotations

import _socket
import _thread
import ctypes
import errno
import fcntl
import os
import select
import struct

INET, INET6, UNSPECIFIED = 2, 10, 0
RECEIVE, ANSWER, IS_VALID = 0xC0502100, 0xC0182101, 0x40082102  # SECCOMP_IOCTL_NOTIF_*
NOTICE = struct.Struct("=QIIiIQ6Q")
PIDFD_GETFD = 438  # the same number on every architecture
ADDRESS_MAX = 128
AT_ONCE = 256
"""How many connections may be under way; a thread waits for each, as the server's own does."""

libc = ctypes.CDLL(None, use_errno=True)


class Connects:
    """Decides about the connections of one server, as long as anything of it is there."""

    def __init__(self, listener: int, ports: frozenset[int], at_once: int = AT_ONCE) -> None:
        self.listener, self.ports, self.at_once = listener, ports, at_once
        self.under_way = 0
        _thread.start_new_thread(self.attend, ())

    def attend(self) -> None:
        """Take one notice after the other until nobody is left to ask; a thread of its own, as taking one may block."""
        ears = select.poll()
        ears.register(self.listener, select.POLLIN)
        while not ears.poll()[0][1] & select.POLLHUP:
            notice = bytearray(NOTICE.size)
            try:
                fcntl.ioctl(self.listener, RECEIVE, notice)
            except OSError:  # whoever asked is gone
                continue
            identity, thread, *_, fd, address, size, _, _, _ = NOTICE.unpack(notice)
            if self.under_way >= self.at_once:
                self.answer(identity, errno.EAGAIN)
                continue
            self.under_way += 1
            _thread.start_new_thread(self.settle, (identity, thread, (fd & 0xFFFFFFFF, address, size & 0xFFFFFFFF)))

    def settle(self, identity: int, thread: int, asked: tuple[int, int, int]) -> None:
        """Decide about one connection, and make it if it may be."""
        try:
            number = self.connect(identity, thread, *asked)
        except OSError as error:
            number = error.errno or errno.EACCES
        self.answer(identity, number)
        self.under_way -= 1

    def connect(self, identity: int, thread: int, fd: int, address: int, size: int) -> int:
        """What ``connect`` comes to, as an error number; 0 if it worked."""
        if not 2 <= size <= ADDRESS_MAX:
            return errno.EINVAL
        wanted = read_memory(thread, address, size)
        sock = take_socket(thread, fd)
        try:
            # The number of a thread that has ended may be somebody else's by now.
            fcntl.ioctl(self.listener, IS_VALID, struct.pack("=Q", identity))
            if not may_connect(wanted, self.ports):
                return errno.EACCES
            return 0 if libc.connect(sock, wanted, size) == 0 else ctypes.get_errno()
        finally:
            os.close(sock)

    def answer(self, identity: int, number: int) -> None:
        """Let the server's call return."""
        try:
            fcntl.ioctl(self.listener, ANSWER, struct.pack("=QqiI", identity, 0, -number, 0))
        except OSError:  # it was interrupted, or killed
            return


def read_memory(thread: int, address: int, size: int) -> bytes:
    """A copy of what a thread has in its memory."""
    with open(f"/proc/{thread}/mem", "rb", 0) as memory:  # noqa: PTH123
        held = os.pread(memory.fileno(), size, address)
    if len(held) != size:
        raise OSError(errno.EFAULT, os.strerror(errno.EFAULT))
    return held


def take_socket(thread: int, fd: int) -> int:
    """A descriptor of our own for a socket of another process."""
    with open(f"/proc/{thread}/status", "rb") as status:  # noqa: PTH123
        process = next(int(line.split()[1]) for line in status if line.startswith(b"Tgid:"))
    handle = os.pidfd_open(process)
    try:
        taken = libc.syscall(PIDFD_GETFD, handle, fd, 0)
    finally:
        os.close(handle)
    if taken == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return int(taken)


def may_connect(address: bytes, ports: frozenset[int]) -> bool:
    """Whether this address may be connected to: not on this machine, or at one of these ports."""
    family = int.from_bytes(address[:2], "little")
    if family == UNSPECIFIED:  # undoes a connection
        return True
    port = int.from_bytes(address[2:4], "big")
    if family == INET and len(address) >= 16:
        return port in ports or not is_here(address[4:8])
    if family == INET6 and len(address) >= 24:
        return port in ports or not is_here(address[8:24], scope_of(address))
    return False


def scope_of(address: bytes) -> int:
    """Which network an IPv6 socket address is of; what a program writes behind it is no part of it."""
    return int.from_bytes(address[24:28], "little")


def is_here(ip: bytes, scope: int = 0) -> bool:
    """Whether an address is one of this machine's own."""
    if len(ip) == 16 and ip[:12] == b"\0" * 10 + b"\xff\xff":  # IPv4 in the clothes of IPv6
        ip = ip[12:]
    if (len(ip) == 4 and ip[0] in (0, 127)) or ip in (bytes(16), bytes(15) + b"\1"):
        return True
    family, text = (INET, _socket.inet_ntop(INET, ip)) if len(ip) == 4 else (INET6, _socket.inet_ntop(INET6, ip))
    probe = _socket.socket(family, _socket.SOCK_DGRAM)
    try:
        # Sends nothing. To an address of its own, and to no other, a machine sends from that very address.
        probe.connect((text, 9) if family == INET else (text, 9, 0, scope))
        return bool(_socket.inet_pton(family, probe.getsockname()[0].partition("%")[0]) == ip)
    except OSError:  # no road there
        return False
    finally:
        probe.close()
