"""Why a server is not there: phase, exit code, cause, its own last words, and what to try."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from toolcrib.core.errors import (
    ConfigError,
    ConnectionLost,
    RemoteError,
    SignInNeeded,
    SourceUnavailable,
    ToolcribError,
)
from toolcrib.core.kinds import FailureKind
from toolcrib.schema.text import printable
from toolcrib.sources.mcp.link import UNREACHABLE, ExitTrace
from toolcrib.sources.mcp.negotiate import HandshakePatience
from toolcrib.sources.mcp.redactor import NO_SECRETS, Redactor
from toolcrib.wire import eras

STDERR_SHOWN = 8
NOISE_SHOWN = 200
SILENT = "Check that an MCP server is at that address; if it is only slow, raise its `connect_timeout`."
LAST_WORD_SHOWN = 120
FACTS = ("http_status", "retry_after_s", "failure")


class KnownCause(NamedTuple):
    """What a server's last words say of the reason."""

    pattern: str
    cause: str
    advice: str
    kind: FailureKind = FailureKind.PASSING


KNOWN_CAUSES: tuple[KnownCause, ...] = (
    KnownCause(
        r"cannot import name '(McpError|streamablehttp_client|FastMCP)'|No module named 'mcp\.",
        "the server was written for another major version of the mcp package",
        'install it with "mcp<2", or update the server',
    ),
    KnownCause(
        r"npm (?:ERR!|error).*(?:ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|network)",
        "npm cannot reach its registry",
        "check the network",
    ),
    KnownCause(
        r"(?:npm (?:ERR!|error)).*(?:404|E404)",
        "npm does not know the package",
        "check the package name in args",
        FailureKind.PACKAGE,
    ),
    KnownCause(
        r"npm (?:ERR!|error).*(?:ETARGET|[Nn]o matching version)",
        "npm does not know that version of the package",
        "check the version in args",
        FailureKind.PACKAGE,
    ),
    KnownCause(
        r"ModuleNotFoundError: No module named '([\w.]+)'",
        "a Python module is missing",
        "install {0} beside the server",
    ),
    KnownCause(
        r"Cannot find (?:module|package) '([^']+)'",
        "a Node module is missing",
        "run npm install for the server ({0})",
    ),
    KnownCause(
        r"(?i)Failed to (?:fetch|download)|error sending request|dns error|Could not connect",
        "the package index cannot be reached",
        "check the network",
    ),
    KnownCause(
        r"No solution found when resolving|not found in the package registry",
        "the package cannot be resolved",
        "check the package name and version in args",
        FailureKind.PACKAGE,
    ),
    KnownCause(
        r"EADDRINUSE|[Aa]ddress already in use", "its port is taken", "stop the other program or change the port"
    ),
    KnownCause(r"EACCES|[Pp]ermission denied", "something it needs may not be accessed", "check file permissions"),
    KnownCause(
        r"(?i)\b(?:api[ _-]?key|token|credential)s?\b.*\b(?:missing|required|not set|invalid|must be)",
        "it wants a credential",
        "set the variable it names under env",
        FailureKind.CREDENTIAL,
    ),
    KnownCause(
        r"(?i)(?:required|missing).*environment variable|environment variable.*(?:required|missing|not set)",
        "an environment variable is missing",
        "set it under env",
        FailureKind.CONFIGURATION,
    ),
    KnownCause(
        r"SyntaxError|Unsupported engine|requires? (?:node|python)",
        "it does not run on this interpreter version",
        "check which Python or Node version the server needs",
    ),
    KnownCause(r"CERTIFICATE_VERIFY_FAILED|certificate", "a certificate was not accepted", "set SSL_CERT_FILE"),
    KnownCause(
        r"ECONNREFUSED|[Cc]onnection refused",
        "something it depends on refuses connections",
        "start what it connects to",
    ),
)


@dataclass(frozen=True, slots=True)
class Trouble:
    """The bare facts of one failed attempt."""

    phase: str
    reason: str
    remains: ExitTrace = field(default_factory=ExitTrace)
    hint: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Details of the underlying error that a program may want (``http_status``, ``retry_after_s``)."""
    sign_in: SignInNeeded | None = None
    """What says that somebody has to sign in, which is no fault to look into."""


class AttemptFailed(Exception):
    """One attempt to connect that came to nothing."""

    def __init__(
        self, phase: str, error: Exception, remains: ExitTrace, remembered: str, patience: HandshakePatience
    ) -> None:
        super().__init__(phase)
        hint, details = (error.hint, error.details) if isinstance(error, ToolcribError) else ("", {})
        if isinstance(error, TimeoutError) and not patience.is_whole:
            hint = SILENT
        facts = {key: details[key] for key in FACTS if key in details}
        if isinstance(error, ConfigError):
            facts["failure"] = FailureKind.CONFIGURATION
        sign_in = error if isinstance(error, SignInNeeded) else None
        self.trouble = Trouble(phase, reason_of(error, remains, patience.allowed_s), remains, hint, facts, sign_in)
        is_late = isinstance(error, TimeoutError) and patience.is_whole
        self.is_final = is_late or details.get("final") is True or kind_of(self.trouble).is_lasting
        said = error.data if isinstance(error, RemoteError) and isinstance(error.data, Mapping) else {}
        self.is_refused_post = isinstance(error, RemoteError) and _is_refusal({**details, **said}.get("http_status"))
        """Whether the server does not take messages in this way: one of the first HTTP transport may be there."""
        self.died_of_discover = (
            isinstance(error, ConnectionLost)
            and phase != "starting"
            and details.get("phase") not in UNREACHABLE
            and eras.first_step(remembered) is eras.ProbeStep.DISCOVER
            and not kind_of(self.trouble).is_lasting
        )


def _is_refusal(status: object) -> bool:
    return isinstance(status, int) and 400 <= status < 500


def reason_of(error: Exception, remains: ExitTrace, timeout_s: float) -> str:
    """Why something failed, in a few words that a sentence goes on from."""
    if isinstance(error, TimeoutError):
        return f"it did not answer within {timeout_s:g} s"
    if isinstance(error, ConnectionLost) and remains.exit_code is not None:
        return f"its process {describe_exit(remains)}"
    if isinstance(error, RemoteError) and isinstance(error.data, Mapping) and "http_status" in error.data:
        return f"it answered with HTTP {error.data['http_status']}; is that the address of an MCP server?"
    if isinstance(error, RemoteError):
        return f"it answered with error {error.rpc_code}: {error.message}"
    if isinstance(error, ToolcribError):
        return error.message.rstrip(".")
    return f"{type(error).__name__}: {error}"


def explain(server: str, trouble: Trouble, *, attempts: int, redactor: Redactor = NO_SECRETS) -> SourceUnavailable:
    """The facts as an error a person can act on."""
    if trouble.sign_in is not None:
        redactor.error(trouble.sign_in)
        return trouble.sign_in
    words = [redactor.text(printable(line)) for line in trouble.remains.stderr if line.strip()][-STDERR_SHOWN:]
    known = diagnose(words)
    cause, advice = (known.cause, known.advice) if known is not None else ("", "")
    message = _headline(server, trouble, attempts, cause)
    if words:
        message += f" It wrote: {' | '.join(word.strip() for word in words[-3:])!r}."
    return SourceUnavailable(
        redactor.text(message),
        hint=redactor.text(f"{_remedy(server, trouble, advice)} Everything else goes on without it."),
        details={
            **trouble.facts,
            "failure": kind_of(trouble),
            "server": server,
            "phase": trouble.phase,
            "exit_code": trouble.remains.exit_code,
            "cause": cause or redactor.text(_with_last_word(trouble.reason, words)),
            "advice": redactor.text(trouble.hint or advice),
            "stderr": words,
            "stdout_noise": trouble.remains.noise_count,
            "stdout": [show_noise(line, redactor) for line in trouble.remains.noise],
            "attempts": attempts,
        },
    )


def _remedy(server: str, trouble: Trouble, advice: str) -> str:
    return trouble.hint or f"Try: {advice or f'toolcrib servers logs {server}'}."


def _headline(server: str, trouble: Trouble, attempts: int, cause: str) -> str:
    tried = f" after {attempts} attempts" if attempts > 1 else ""
    because = f" ({cause})" if cause else ""
    return f"Server {server!r} is not available{tried}: {trouble.reason} while {trouble.phase}{because}."


def diagnose(words: Sequence[str]) -> KnownCause | None:
    """What is known to be wrong when a server wrote this last."""
    text = "\n".join(words)
    for known in KNOWN_CAUSES:
        found = re.search(known.pattern, text)
        if found:
            groups = *(group or "" for group in found.groups()), "", ""
            return known._replace(advice=known.advice.format(*groups))
    return None


def kind_of(trouble: Trouble) -> FailureKind:
    """What kind of failure it was: by the error itself, or else by the server's last words."""
    stated, known = trouble.facts.get("failure"), diagnose(trouble.remains.stderr)
    return stated if isinstance(stated, FailureKind) else FailureKind.PASSING if known is None else known.kind


def _with_last_word(reason: str, words: Sequence[str]) -> str:
    return f"{reason}: {words[-1].strip()[:LAST_WORD_SHOWN]}" if words else reason


def show_noise(line: str, redactor: Redactor) -> str:
    """The beginning of a line that is no message, fit for a log."""
    return redactor.text(printable(line))[:NOISE_SHOWN]


def describe_exit(remains: ExitTrace) -> str:
    """``exited with code 3`` or ``was killed by signal 9``."""
    code = remains.exit_code
    if code is None:
        return "closed its connection"
    return f"was killed by signal {-code}" if code < 0 else f"exited with code {code}"
