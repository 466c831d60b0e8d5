"""Trouble as a person at a terminal meets it: one sentence, what to do, and an exit code."""

import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from typing import Any

from toolcrib.core.errors import CallerError, ConfigError, DefinitionError, ToolcribError, did_you_mean, is_retryable
from toolcrib.schema.text import printable

OK, FAILURE, USAGE, AUTH, UNREACHABLE, TOOL_ERROR, DENIED, NOT_FOUND = range(8)

EXIT_CODES: Mapping[str, int] = {
    "USAGE": USAGE,
    "RESOURCE_NOT_FOUND": NOT_FOUND,
    "TOOL_AUTH_REQUIRED": AUTH,
    "TOOL_CANCELLED": FAILURE,
    "TOOL_EXECUTION_FAILED": TOOL_ERROR,
    "TOOL_INTERNAL": FAILURE,
    "TOOL_INVALID_INPUT": USAGE,
    "TOOL_NOT_FOUND": NOT_FOUND,
    "TOOL_NOT_IMPLEMENTED": FAILURE,
    "TOOL_PERMISSION_DENIED": DENIED,
    "TOOL_RATE_LIMITED": DENIED,
    "TOOL_TIMEOUT": UNREACHABLE,
    "TOOL_UNAVAILABLE": UNREACHABLE,
}
_AUTH_STATUSES = frozenset({401, 403, 407})


class UsageError(CallerError):
    """The command line cannot be understood."""

    code = "USAGE"


class NotFound(CallerError):
    """What the command line names does not exist."""

    code = "RESOURCE_NOT_FOUND"


class FailedCall(ToolcribError):
    """A failed result of a tool, on its way to the terminal."""

    def __init__(self, code: str, message: str, details: Mapping[str, Any]) -> None:
        super().__init__(message, details=details)
        self.code = code


def unknown_command(name: str, known: Sequence[str]) -> UsageError:
    """The complaint about a command nobody knows."""
    hint = did_you_mean(name, known) or "Run `toolcrib --help` to see what there is."
    return UsageError(f"There is no command {name!r}.", hint=hint)


def unknown_server(name: str, known: Sequence[str]) -> NotFound:
    """The complaint about a server nobody configured."""
    return NotFound(f"No server named {name!r}.", hint=did_you_mean(name, known) or "See `toolcrib servers ls`.")


def exit_code(code: str, details: Mapping[str, Any]) -> int:
    """The exit code of an error code; a server that wants other credentials is not merely unreachable."""
    return AUTH if code == "TOOL_UNAVAILABLE" and _wants_credential(details) else EXIT_CODES.get(code, FAILURE)


def _wants_credential(details: Mapping[str, Any]) -> bool:
    told = str(details.get("cause", ""))
    return details.get("http_status") in _AUTH_STATUSES or any(f"HTTP {status}" in told for status in _AUTH_STATUSES)


def report(error: Exception, *, as_json: bool = False) -> int:
    """Tell a person (or a program, with ``--json``) what went wrong; the exit code to leave with."""
    if os.environ.get("TOOLCRIB_DEBUG"):
        traceback.print_exception(error, file=sys.stderr)
    known = _as_known(error)
    if as_json:
        sys.stderr.write(f"{_json_text(known)}\n")
    else:
        sys.stderr.write(printable(f"toolcrib: {known.message}" + (f"\n  {known.hint}" if known.hint else "")) + "\n")
    if isinstance(error, ConfigError | DefinitionError):  # it cannot be used; the command was not misused
        return FAILURE
    return exit_code(known.code, known.details)


def _as_known(error: Exception) -> ToolcribError:
    if isinstance(error, ToolcribError):
        return error
    if isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename else ""
        return ToolcribError(f"{place}{error.strerror}.", hint="Set TOOLCRIB_DEBUG=1 to see where it happened.")
    message = f"Something unexpected happened ({type(error).__name__}: {error})."
    return ToolcribError(message, hint="Set TOOLCRIB_DEBUG=1 and run it again to see the details.")


def _json_text(error: ToolcribError) -> str:
    import msgspec

    shown = {"code": error.code, "message": str(error), "retryable": is_retryable(error.code), "details": error.details}
    return msgspec.json.encode({"error": shown}, enc_hook=str).decode()
