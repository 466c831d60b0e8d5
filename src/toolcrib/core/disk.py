"""What to do about errors of the file system, in words."""

import errno

_FULL = "Make room on its disk, then try again."
_REMEDIES = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EFBIG: "Raise the limit on the size of files, then try again.",
    errno.EACCES: "Give this user the right to it, then try again.",
    errno.EPERM: "Give this user the right to it, then try again.",
    errno.EROFS: "Its disk is read-only: mount it for writing, or keep the file elsewhere.",
    errno.ENXIO: "A pipe, a socket or a device is in its place: move that away.",
    errno.EISDIR: "A directory is in its place: move that away.",
    errno.ENOTDIR: "A file is in the place of its directory: move that away.",
    errno.ELOOP: "A link that leads to itself is in its place: move that away.",
    errno.EMFILE: "Too many files are open: raise the limit (`ulimit -n`), then try again.",
    errno.ENFILE: "Too many files are open on this machine: end a program, then try again.",
    errno.EIO: "The disk reports an error: look at the system's log, and keep a copy of the file elsewhere.",
}


def remedy_of(error: OSError) -> str:
    """The way out for whoever looks after the machine."""
    return _REMEDIES.get(error.errno or 0, "Mend its place, then try again.")
