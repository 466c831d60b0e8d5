"""What the gateway does to protect itself from its own children, who run as the same user."""

import sys

_PR_SET_DUMPABLE = 4


def forbid_inspection() -> bool:
    """Keep other processes of this user from reading our memory and environment or tracing us; whether it worked.

    Only Linux can. Children start afresh with ``exec`` and stay inspectable; a child that runs as root is not stopped.
    """
    if not sys.platform.startswith("linux"):
        return False
    import ctypes

    return bool(ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) == 0)
