"""Everything that can go wrong, as one tree. Inside, trouble is raised; ``Crib.call`` turns it into a ``Result``.

::

    ToolcribError
    ├── CallerError               the request is wrong
    │   ├── UnknownTool
    │   ├── UnknownServer
    │   ├── UnknownCollection
    │   ├── UnknownDocument
    │   ├── UnknownEmbedder
    │   ├── InvalidName
    │   ├── InvalidArguments
    │   ├── PermissionDenied
    │   │   └── OutsideWorkspace
    │   └── RateLimited
    ├── DefinitionError           a tool's definition is wrong
    │   ├── InvalidSchema
    │   └── InvalidExample
    ├── SourceError               whoever offers the tool is in trouble
    │   ├── SourceUnavailable
    │   │   ├── ConnectionLost
    │   │   ├── SignInNeeded
    │   │   └── EmbedderUnavailable
    │   ├── ProtocolError
    │   ├── OutcomeUnknown
    │   ├── ToolFailed
    │   └── RemoteError
    ├── CallTimeout
    ├── CallCancelled
    │   └── CallEnded
    ├── AuditUnavailable          what may not go unrecorded cannot be recorded
    ├── KnowledgeUnavailable      the knowledge base cannot be opened, read or written
    ├── WorkListUnavailable       the tasks of the workspace cannot be opened, read or written
    ├── StoreUnavailable          the shared database cannot be reached, or is not as it should be
    ├── CoordinationUnavailable   the other replicas cannot be reached, and this may not be decided alone
    ├── UnreadableSource          a file or page cannot become a document
    ├── ResultNotKept
    ├── DamagedIndex              a stored search index cannot be read
    ├── NotImplementedHere
    ├── ConfigError               what the user wrote cannot be used
    └── InternalError             our own fault

Every error has a ``code``; the code is its anchor in ``docs/errors.md``.
"""

import errno
import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from heapq import nsmallest
from typing import Any

RETRYABLE_CODES = frozenset({"TOOL_UNAVAILABLE", "TOOL_TIMEOUT", "TOOL_RATE_LIMITED"})

TOOL_CODES = RETRYABLE_CODES | {
    "TOOL_NOT_IMPLEMENTED",
    "TOOL_INVALID_INPUT",
    "TOOL_EXECUTION_FAILED",
    "TOOL_NOT_FOUND",
    "TOOL_AUTH_REQUIRED",
    "TOOL_PERMISSION_DENIED",
    "TOOL_CANCELLED",
    "TOOL_INTERNAL",
}


COMPARED_MAX = 200
CANDIDATES_MAX = 200
_WORD = re.compile(r"[a-z]+|\d+")


def is_retryable(code: str) -> bool:
    """Whether the same call may succeed later without being changed."""
    return code in RETRYABLE_CODES


def nearest(name: str, known: Sequence[str] | set[str] | frozenset[str]) -> list[str]:
    """Up to three known names that look like ``name``, best first."""
    if len(name) > COMPARED_MAX:
        return []
    folded = {candidate.casefold(): candidate for candidate in _likely(name, sorted(known))}
    matches = get_close_matches(name.casefold(), folded, n=3, cutoff=0.6)
    return [folded[match] for match in matches]


def _likely(name: str, known: Sequence[str]) -> Sequence[str]:
    """The names worth comparing letter by letter: that is slow, so of very many only those that share a word."""
    if len(known) <= CANDIDATES_MAX:
        return known
    words = _words(name)
    return nsmallest(CANDIDATES_MAX, known, key=lambda candidate: (-len(words & _words(candidate)), candidate))


@lru_cache(maxsize=16_384)
def _words(name: str) -> frozenset[str]:
    """The words of a name; cached, because a wrong name is compared with every known one."""
    return frozenset(_WORD.findall(name.casefold()))


def did_you_mean(name: str, known: Sequence[str] | set[str] | frozenset[str]) -> str:
    """``Did you mean 'x'?`` for a near miss, otherwise nothing."""
    return _ask(nearest(name, known))


def _ask(similar: Sequence[str]) -> str:
    return f"Did you mean {', '.join(map(repr, similar))}?" if similar else ""


_ENDS = (".", "!", "?", "…", ":", ";", ",", "\n")


class ToolcribError(Exception):
    """The root: what happened, and what to do about it."""

    code = "TOOL_INTERNAL"

    def __init__(self, message: str, *, hint: str = "", details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = dict(details or {})

    def __str__(self) -> str:
        if not self.hint:
            return self.message
        stop = "" if self.message.endswith(_ENDS) else "."
        return f"{self.message}{stop} {self.hint}"

    @property
    def retryable(self) -> bool:
        """Whether the same call may succeed later."""
        return is_retryable(self.code)


class CallerError(ToolcribError):
    """The request cannot be carried out as it was made."""

    code = "TOOL_INVALID_INPUT"


class UnknownTool(CallerError):
    """No tool of that name is in the catalog, nor a resource, template or prompt where one was asked for.

    ``details["unknown"]`` says which: a tool's own "not found" has the same code, and is an answer of that tool.
    """

    code = "TOOL_NOT_FOUND"

    def __init__(self, name: str, *, known: Sequence[str] = (), kind: str = "tool") -> None:
        similar = nearest(name, known)
        listed_by = {"resource": "resources ls", "prompt": "prompts ls"}.get(kind, "ls")
        hint = _ask(similar) or f"Run `toolcrib {listed_by}` to see what is there."
        details = {"unknown": str(kind), "similar": similar}
        super().__init__(f"No {kind} named {name[:COMPARED_MAX]!r}.", hint=hint, details=details)


class UnknownServer(CallerError):
    """No server of that name is configured."""

    code = "TOOL_NOT_FOUND"

    def __init__(self, name: str, *, known: Sequence[str] = ()) -> None:
        super().__init__(f"No server named {name!r}.", hint=did_you_mean(name, known) or "See `toolcrib servers ls`.")


class UnknownCollection(CallerError):
    """The knowledge base has no collection of that name."""

    code = "TOOL_NOT_FOUND"

    def __init__(self, name: str, *, known: Sequence[str] = ()) -> None:
        similar = nearest(name, known)
        there = (
            f"There are: {', '.join(sorted(known)[:10])}." if known else "There are none yet: `toolcrib kb add PATH`."
        )
        message = f"No collection named {name[:COMPARED_MAX]!r}."
        super().__init__(message, hint=_ask(similar) or there, details={"similar": similar})


class UnknownEmbedder(CallerError):
    """No embedder of that name is configured."""

    def __init__(self, name: str, *, known: Sequence[str] = ()) -> None:
        hint = did_you_mean(name, known) or f"There are: {', '.join(sorted(known))}. Others go under [kb.embedders]."
        super().__init__(f"No embedder named {name[:COMPARED_MAX]!r}.", hint=hint)


class UnknownDocument(CallerError):
    """The knowledge base has no such document or passage."""

    code = "TOOL_NOT_FOUND"


class InvalidName(CallerError):
    """A tool or server name breaks the naming rule."""


class InvalidArguments(CallerError):
    """The arguments do not fit the tool's input schema."""


class PermissionDenied(CallerError):
    """The caller may not use this tool."""

    code = "TOOL_PERMISSION_DENIED"


class OutsideWorkspace(PermissionDenied):
    """A path leads out of the workspace, or to what its tools must leave alone."""


class RateLimited(CallerError):
    """The caller used up what it may use for now."""

    code = "TOOL_RATE_LIMITED"


class DefinitionError(ToolcribError):
    """A tool's definition cannot be registered."""

    code = "TOOL_INVALID_INPUT"

    def __init__(self, tool: str, part: str, reason: str, *, hint: str = "") -> None:
        stop = "" if reason.endswith(_ENDS) else "."
        super().__init__(f"Tool {tool!r}: {part}: {reason}{stop}", hint=hint, details={"tool": tool, "part": part})
        self.tool, self.part, self.reason = tool, part, reason


class InvalidSchema(DefinitionError):
    """A schema is not valid, or cannot be checked safely."""


class InvalidExample(DefinitionError):
    """An example does not fit the tool's own schema."""


class SourceError(ToolcribError):
    """The source of the tool failed."""

    code = "TOOL_EXECUTION_FAILED"


class SourceUnavailable(SourceError):
    """A source cannot be reached, started or kept alive."""

    code = "TOOL_UNAVAILABLE"


class ConnectionLost(SourceUnavailable):
    """The connection ended while a request was under way."""


class SignInNeeded(SourceUnavailable):
    """The server wants somebody to sign in first; ``details`` say where, and what its authorization server said."""

    code = "TOOL_AUTH_REQUIRED"

    @property
    def lasting(self) -> str:
        """What may be kept of it: without the link, which leads nowhere once this process has ended."""
        server, link = self.details.get("server"), self.details.get("link")
        return f"{self.message} Run `toolcrib login {server}`." if link else str(self)


class EmbedderUnavailable(SourceUnavailable):
    """An embedder cannot make vectors now; words alone still find documents, and what is added waits for them."""


class ProtocolError(SourceError):
    """The other end said something the protocol does not allow."""


class OutcomeUnknown(SourceError):
    """The connection was lost after the call was sent; it may or may not have had its effect."""


class ToolFailed(SourceError):
    """The tool ran and reported failure."""


class RemoteError(SourceError):
    """The server answered with a JSON-RPC error of its own; code and data are passed on unchanged."""

    def __init__(self, rpc_code: int, message: str, *, data: Any = None) -> None:
        super().__init__(message, details={"rpc_code": rpc_code} | ({} if data is None else {"data": data}))
        self.rpc_code, self.data = rpc_code, data


class CallTimeout(ToolcribError):
    """The call did not finish within its time; the work was cancelled."""

    code = "TOOL_TIMEOUT"


class CallCancelled(ToolcribError):
    """Somebody cancelled the call."""

    code = "TOOL_CANCELLED"


class CallEnded(CallCancelled):
    """A person who looked on ended the call; neither its caller nor its tool did anything wrong."""


class AuditUnavailable(ToolcribError):
    """The audit log cannot be written, and this may not happen unrecorded."""

    code = "TOOL_UNAVAILABLE"


class KnowledgeUnavailable(ToolcribError):
    """The knowledge base cannot be opened, read or written."""

    code = "TOOL_UNAVAILABLE"


class WorkListUnavailable(ToolcribError):
    """The tasks of the workspace cannot be opened, read or written."""

    code = "TOOL_UNAVAILABLE"


class StoreUnavailable(ToolcribError):
    """The shared database cannot be reached, or is not as this version needs it."""

    code = "TOOL_UNAVAILABLE"


class CoordinationUnavailable(ToolcribError):
    """The other replicas cannot be reached, and this may not be decided alone."""

    code = "TOOL_UNAVAILABLE"


class UnreadableSource(ToolcribError):
    """A file or page cannot become a document; says why."""

    code = "TOOL_EXECUTION_FAILED"


class ResultNotKept(ToolcribError):
    """A large result cannot be put aside; it is passed on whole."""


class DamagedIndex(ToolcribError):
    """A stored search index is cut, altered, or of another format."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"A stored search index {reason}.", hint="Build it again from its documents.")


class NotImplementedHere(ToolcribError):
    """The tool, or what was asked of it, does not exist yet."""

    code = "TOOL_NOT_IMPLEMENTED"


class ConfigError(ToolcribError):
    """What the user wrote cannot be used; says where and what to write instead."""

    code = "TOOL_INVALID_INPUT"

    def __init__(self, message: str, *, where: str = "", line: int | None = None, hint: str = "") -> None:
        place = f"{where}:{line}: " if where and line else f"{where}: " if where else ""
        super().__init__(f"{place}{message}", hint=hint, details={"where": where, "line": line})
        self.where, self.line = where, line


class InternalError(ToolcribError):
    """A fault of toolcrib itself."""


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
    """What an operator can do about it."""
    return _REMEDIES.get(error.errno or 0, "Mend its place, then try again.")
