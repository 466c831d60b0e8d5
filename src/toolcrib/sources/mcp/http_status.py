"""What every link over HTTP sends along and looks at: headers, kinds of answers, and statuses in words that help."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec
from msgspec import UNSET

from toolcrib.config.model import ServerConfig
from toolcrib.core.errors import RemoteError, SourceError, SourceUnavailable, ToolFailed
from toolcrib.core.kinds import FailureKind, SignInMode
from toolcrib.credentials.accounts import STEP_UPS_MAX, ServerAccount
from toolcrib.credentials.oauth import Challenge, read_challenge
from toolcrib.schema.text import printable
from toolcrib.transports.http.client import Response
from toolcrib.wire.jsonrpc import METHOD_NOT_FOUND, Outbound, decode

HTTP_OK = range(200, 300)
REFUSALS = (401, 403)
WORDS_MAX = 200
RETRY_DIGITS = 6
EVENT_STREAM = b"text/event-stream"
NOTICE_TIMEOUT_S = 5.0
"""How long something may take that has no answer of interest."""
USER_AGENT = b"user-agent", b"toolcrib"

HeaderLines = Sequence[tuple[bytes, bytes]]
_FIXED = [(b"content-type", b"application/json"), (b"accept", b"application/json, text/event-stream")]


def standing_headers(own: HeaderLines) -> list[tuple[bytes, bytes]]:
    """What each request carries, with the user's own headers; they may name another user agent."""
    is_named = any(name.lower() == USER_AGENT[0] for name, _ in own)
    return [*_FIXED, *(() if is_named else (USER_AGENT,)), *own]


def challenge_in(response: Response) -> Challenge | None:
    """Why an account was refused; ``None`` if it was not. A 403 is about the account only if it says so: it may as well
    be that this person may not do this."""
    if response.status not in REFUSALS:
        return None
    said = [value for name, value in response.headers if name == b"www-authenticate"]
    challenge = read_challenge(said) or Challenge()
    is_meant = response.status == 401 or challenge.wants_more_scopes
    return challenge if is_meant else None


async def send_again(
    account: ServerAccount, refused: Response, used: bytes | None, send: Callable[[bytes | None], Awaitable[Response]]
) -> Response:
    """The answer to a request that was refused with ``used``, sent again with what the account has now: what a server
    refuses it has not carried out. Once with a new token, and a few times with more scopes, or with another token if
    the one before may have ended on its way."""
    tries = 0
    while (challenge := challenge_in(refused)) is not None:
        is_worth_it = not tries or challenge.wants_more_scopes or account.may_have_ended(used)
        if tries == STEP_UPS_MAX or not is_worth_it:
            raise account.needed("it refuses the token that it was given", challenge)
        tries += 1
        used = await account.after_refusal(used, challenge)
        refused = await send(used)
    return refused


def is_stream(response: Response) -> bool:
    """Whether the body of an answer is a stream of events."""
    return response.status == 200 and (response.header(b"content-type") or b"").startswith(EVENT_STREAM)


def discard(chunk: bytes) -> None:
    """Takes the pieces of a body that nobody wants."""


def check_status(server: ServerConfig, method: str, response: Response, message: Outbound | None) -> None:
    """Refuse an answer whose status says that it is none. A JSON-RPC answer in the body goes first, but not before a
    refusal: whatever its body says, it is one."""
    status = response.status
    if status in REFUSALS:
        raise _not_authorized(server, status, _words(message))
    if status in HTTP_OK or (message is not None and (message.error is not UNSET or message.result is not UNSET)):
        return
    if status in (429, 503):
        raise _overloaded(response)
    if status >= 500:
        raise _broken(method, status)
    raise _refused(status)


def _refused(status: int) -> RemoteError:
    return RemoteError(METHOD_NOT_FOUND, f"The server answered with HTTP {status}.", data={"http_status": status})


def _broken(method: str, status: int) -> SourceError:
    """A call may have had its effect, so it is no invitation to try again; not to know a first question is no fault."""
    if method == "server/discover":
        return _refused(status)
    kind = ToolFailed if method == "tools/call" else SourceUnavailable
    return kind(f"The server answered with HTTP {status}.", details={"http_status": status})


def _words(message: Outbound | None) -> str:
    """What a refusal says in its body, if that is an error of JSON-RPC or of OAuth."""
    if message is None or message.error is UNSET:
        return ""
    try:
        error = decode(message.error)
    except msgspec.DecodeError:
        return ""
    said = error.get("message") if isinstance(error, Mapping) else error
    return printable(said)[:WORDS_MAX].rstrip(".") if isinstance(said, str) else ""


def _not_authorized(server: ServerConfig, status: int, words: str) -> SourceUnavailable:
    how = "set the Authorization header under headers" if not server.headers else "check the headers it is given"
    if status == 403 and server.sign_in_mode is not SignInMode.HEADER:
        how = "ask whoever runs it, or use another account (`toolcrib accounts` shows which it is)"
    said = f"it says {words!r}" if words else "it wants a credential" if status == 401 else "it does not allow this"
    kind = FailureKind.SIGN_IN if status == 401 and not server.headers else FailureKind.CREDENTIAL
    return SourceUnavailable(
        f"The server answered with HTTP {status}: {said}.",
        hint=f"For {server.name!r}, {how}.",
        details={"http_status": status, "final": True, "failure": kind},
    )


def _overloaded(response: Response) -> SourceUnavailable:
    stated = response.header(b"retry-after") or b""
    wait_s = int(stated) if stated.isdigit() and len(stated) <= RETRY_DIGITS else None
    later = f"; it asks to try again in {wait_s} s" if wait_s is not None else ""
    details = {"http_status": response.status} | ({} if wait_s is None else {"retry_after_s": wait_s})
    return SourceUnavailable(f"The server answered with HTTP {response.status}{later}.", details=details)
