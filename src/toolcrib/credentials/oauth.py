"""OAuth as values: requests, answers, and the rules that decide; nothing here waits or opens anything."""

import base64
import hashlib
import random
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import msgspec

from toolcrib.core.errors import SourceUnavailable

TOKEN_MAX = 64 * 1024
LIFE_MAX_S = 10 * 365 * 86_400.0
WORDS_MAX = 300
"""Characters of an authorization server's own words that are passed on."""
EARLY_SHARE, LATEST_SHARE, EARLY_S = 0.75, 0.5, 300.0
"""A token is renewed after three quarters of its life or five minutes before its end, whichever comes first, but not in
the first half of its life."""
JITTER_SHARE = 0.05
OFFLINE = "offline_access"
EXCHANGE_GRANT = "urn:ietf:params:oauth:grant-type:token-exchange"
JWT_GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"
ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 - the name of a kind
ID_TOKEN = "urn:ietf:params:oauth:token-type:id_token"  # noqa: S105 - the name of a kind
SECRET_METHODS = ("client_secret_basic", "client_secret_post")
_HEADER_SAFE = re.compile(r"[\x21-\x7e]+")
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
_PARAMETER = re.compile(r'\s*,?\s*([\w.~!#$%&\'*+^`|-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))')
_SCHEME = re.compile(r"\s*,?\s*([A-Za-z][\w-]*)(?=\s+[\w-]+\s*=|\s*(?:,|$))")


class IssuerRefused(SourceUnavailable):
    """An authorization server said no, or something that cannot be used; names the issuer, the step and its words."""

    def __init__(self, issuer: str, step: str, words: str, *, error: str = "", hint: str = "") -> None:
        said = clean_words(words)
        details = {"issuer": issuer, "step": step, "error": error, "said": said}
        super().__init__(f"{issuer or 'The authorization server'}: {step} failed: {said}.", hint=hint, details=details)
        self.error = error


def clean_words(words: str) -> str:
    """An authorization server's own words, short and printable."""
    return "".join(char if char.isprintable() else " " for char in words)[:WORDS_MAX].strip().rstrip(".")


class AuthorizationServer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an authorization server says of itself (RFC 8414, OpenID Connect Discovery)."""

    issuer: str
    authorization_endpoint: str = ""
    token_endpoint: str = ""
    registration_endpoint: str = ""
    revocation_endpoint: str = ""
    scopes_supported: tuple[str, ...] = ()
    token_endpoint_auth_methods_supported: tuple[str, ...] = ()
    code_challenge_methods_supported: tuple[str, ...] | None = None
    authorization_response_iss_parameter_supported: bool = False
    client_id_metadata_document_supported: bool = False


class ProtectedResource(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a server says of who lets people in (RFC 9728)."""

    resource: str = ""
    authorization_servers: tuple[str, ...] = ()
    scopes_supported: tuple[str, ...] = ()


class OAuthClient(msgspec.Struct, frozen=True, omit_defaults=True):
    """toolcrib as an authorization server knows it."""

    client_id: str
    client_secret: str = ""
    auth_method: str = ""
    """How it proves itself at the token endpoint; empty: as the server says it likes."""
    secret_expires_at: float = 0.0
    """Zero: never."""
    redirect_uri: str = ""
    scopes: tuple[str, ...] = ()
    """What it registered for; empty: it did not say."""
    private_key: str = ""
    is_configured: bool = False


class TokenSet(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a token endpoint answered."""

    access_token: str
    refresh_token: str = ""
    life_s: float | None = None
    """``None``: until it is refused."""
    scopes: tuple[str, ...] = ()
    id_token: str = ""


class Challenge(msgspec.Struct, frozen=True):
    """Why a server refused a request (RFC 6750), and where it says who lets people in."""

    error: str = ""
    description: str = ""
    scopes: tuple[str, ...] = ()
    resource_metadata: str = ""

    @property
    def wants_more_scopes(self) -> bool:
        """Whether signed in is not enough: the token lacks a scope."""
        return self.error == "insufficient_scope"


def read_challenge(values: Iterable[bytes]) -> Challenge | None:
    """The ``Bearer`` challenge of the ``WWW-Authenticate`` headers; ``None`` if there is none."""
    for value in values:
        for scheme, parameters in _challenges(value.decode("latin-1")[:8192]):
            if scheme.lower() == "bearer":
                return Challenge(
                    parameters.get("error", ""),
                    clean_words(parameters.get("error_description", "")),
                    split_scopes(parameters.get("scope", "")),
                    parameters.get("resource_metadata", ""),
                )
    return None


def _challenges(text: str) -> list[tuple[str, dict[str, str]]]:
    found: list[tuple[str, dict[str, str]]] = []
    place = 0
    while place < len(text):
        if found and (match := _PARAMETER.match(text, place)):
            quoted = match[2]
            value = match[3] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
            found[-1][1].setdefault(match[1].lower(), value)
        elif match := _SCHEME.match(text, place):
            found.append((match[1], {}))
        else:
            break
        place = match.end()
    return found


def split_scopes(text: str) -> tuple[str, ...]:
    """The scopes in a text, each once; what cannot be one is left out."""
    return tuple(dict.fromkeys(word for word in text.split() if _SCOPE.fullmatch(word)))


def choose_scopes(
    configured: Sequence[str], challenged: Sequence[str], resource: Sequence[str], server: Sequence[str]
) -> tuple[str, ...]:
    """What to ask for: what is configured, else what the server wants now, else what it says there is, else nothing;
    and a refresh token, where the authorization server knows that as a scope."""
    chosen = tuple(configured or challenged or resource)
    return with_scopes(chosen, (OFFLINE,)) if OFFLINE in server and not configured else chosen


def with_scopes(one: Sequence[str], other: Sequence[str]) -> tuple[str, ...]:
    """Both together, in order: whoever asks for more keeps what they have."""
    return tuple(dict.fromkeys((*one, *other)))


def canonical_resource(url: str) -> str:
    """A server's address as a resource (RFC 8707): scheme and host in lowercase, no fragment, no lone slash."""
    parts = urlsplit(url)
    path = "" if parts.path == "/" else parts.path
    return urlunsplit((parts.scheme.lower(), parts.netloc.rpartition("@")[2].lower(), path, parts.query, ""))


def covers_resource(said: str, url: str) -> bool:
    """Whether what a metadata document says it is about is this server: the same origin, and its path or one above."""
    one, other = urlsplit(canonical_resource(said)), urlsplit(canonical_resource(url))
    if (one.scheme, one.netloc) != (other.scheme, other.netloc):
        return False
    above = one.path.rstrip("/") + "/"
    return (other.path.rstrip("/") + "/").startswith(above)


def new_verifier() -> str:
    """A PKCE code verifier (RFC 7636)."""
    return secrets.token_urlsafe(48)


def challenge_of(verifier: str) -> str:
    """Its S256 challenge."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


def check_pkce(server: AuthorizationServer, *, is_configured: bool) -> None:
    """Refuse an authorization server that has no PKCE; one that does not say is trusted only where a person
    registered the client there, since some that have it do not list it."""
    methods = server.code_challenge_methods_supported
    if methods is None and is_configured:
        return
    if "S256" not in (methods or ()):
        hint = "It cannot be used safely. If you know that it takes PKCE, register a client there and set client_id."
        raise IssuerRefused(server.issuer, "discovery", "it does not offer PKCE with S256", hint=hint)


def extend_url(url: str, parameters: Mapping[str, str]) -> str:
    """An address with further parameters in its query; those it has already stay."""
    parts = urlsplit(url)
    kept = [(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name not in parameters]
    return urlunsplit((*parts[:3], urlencode([*kept, *parameters.items()], quote_via=quote), ""))


class CallbackRefused(SourceUnavailable):
    """What came back from the browser does not belong to a sign-in that was begun here, or says that it failed."""

    code = "TOOL_AUTH_REQUIRED"


def check_issuer(said: str | None, server: AuthorizationServer) -> None:
    """Compare who answered with who was asked (RFC 9207), letter by letter, in errors, too."""
    if said is None and not server.authorization_response_iss_parameter_supported:
        return
    if said != server.issuer:
        words = "no issuer" if said is None else f"the issuer {clean_words(said)!r}"
        raise CallbackRefused(
            f"The answer names {words}, and {server.issuer!r} was asked: it may be of another authorization server.",
            hint="Nothing was sent anywhere. Begin again with `toolcrib login`.",
            details={"issuer": server.issuer, "step": "callback"},
        )


def read_code(query: Mapping[str, str], server: AuthorizationServer) -> str:
    """The code that a browser brought back; raises with the authorization server's own words if it brought none."""
    check_issuer(query.get("iss"), server)
    if error := query.get("error"):
        words = query.get("error_description") or error
        raise IssuerRefused(server.issuer, "sign-in", words, error=clean_words(error), hint="Begin again.")
    if not query.get("code"):
        raise IssuerRefused(server.issuer, "sign-in", "it sent the browser back without a code", hint="Begin again.")
    return query["code"]


def is_document(client_id: str) -> bool:
    """Whether a client's name is the address of what it says of itself: any authorization server may look there."""
    parts = urlsplit(client_id)
    return parts.scheme == "https" and len(parts.path) > 1 and not parts.fragment


class _TokenAnswer(msgspec.Struct):
    access_token: str = ""
    token_type: str = "Bearer"  # noqa: S105 - the name of a kind
    expires_in: float | str | None = None
    refresh_token: str | None = None
    scope: str | None = None
    id_token: str | None = None
    issued_token_type: str | None = None


class _ErrorAnswer(msgspec.Struct):
    error: str | dict[str, Any] = ""
    error_description: str = ""


def read_tokens(body: bytes, issuer: str, step: str, *, asked: Sequence[str] = (), kind: str = "") -> TokenSet:
    """The tokens in an answer; whatever cannot be sent in a header is refused. What is of another ``kind`` than an
    access token is for another authorization server."""
    try:
        answer = msgspec.json.decode(body, type=_TokenAnswer)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise IssuerRefused(issuer, step, "its answer is no token response") from None
    if answer.token_type.lower() not in (("bearer", "n_a") if kind else ("bearer",)):
        raise IssuerRefused(issuer, step, f"it gave a token of type {answer.token_type!r}; only Bearer is known here")
    if kind and (answer.issued_token_type or kind) != kind:
        raise IssuerRefused(issuer, step, f"it gave a token of the kind {answer.issued_token_type!r}, not {kind!r}")
    for token in (answer.access_token, answer.refresh_token or "x"):
        if not _HEADER_SAFE.fullmatch(token) or len(token) > TOKEN_MAX:
            raise IssuerRefused(issuer, step, "it gave a token that cannot be used")
    scopes = tuple(asked) if answer.scope is None else split_scopes(answer.scope)
    life_s = _life_s(answer.expires_in)
    return TokenSet(answer.access_token, answer.refresh_token or "", life_s, scopes, answer.id_token or "")


def _life_s(said: float | str | None) -> float | None:
    """How long a token lives; what says nothing, or nothing sensible, is taken to live until it is refused."""
    try:
        seconds = float(said) if said is not None else 0.0
    except ValueError:
        return None
    return min(seconds, LIFE_MAX_S) if seconds > 0 else None


def renewal_due_s(life_s: float) -> float:
    """How long after it was given a token is renewed."""
    due_s = max(life_s * LATEST_SHARE, min(life_s * EARLY_SHARE, life_s - EARLY_S))
    return due_s - life_s * JITTER_SHARE * random.random()  # noqa: S311 - so that replicas do not all come at once


def refusal(body: bytes, status: int, issuer: str, step: str, hint: str = "") -> IssuerRefused:
    """What an authorization server answered instead of what was wanted, in its own words."""
    try:
        answer = msgspec.json.decode(body, type=_ErrorAnswer)
    except (msgspec.DecodeError, UnicodeDecodeError):
        answer = _ErrorAnswer()
    error = clean_words(answer.error) if isinstance(answer.error, str) else ""
    words = ": ".join(filter(None, (error, clean_words(answer.error_description)))) or f"it answered with HTTP {status}"
    found = IssuerRefused(issuer, step, words, error=error, hint=hint)
    found.details["http_status"] = status
    return found


def prove_client(
    client: OAuthClient, server: AuthorizationServer, now: float
) -> tuple[dict[str, str], list[tuple[bytes, bytes]]]:
    """What a request to the token endpoint carries to prove who asks: fields of the form, and headers."""
    match _auth_method(client, server):
        case "private_key_jwt":
            return {
                "client_id": client.client_id,
                "client_assertion_type": ASSERTION_TYPE,
                "client_assertion": sign_assertion(client, server, now),
            }, []
        case "client_secret_basic":
            pair = f"{quote(client.client_id, safe='')}:{quote(client.client_secret, safe='')}"
            return {}, [(b"authorization", b"Basic " + base64.b64encode(pair.encode()))]
        case "client_secret_post":
            return {"client_id": client.client_id, "client_secret": client.client_secret}, []
        case _:
            return {"client_id": client.client_id}, []


def _auth_method(client: OAuthClient, server: AuthorizationServer) -> str:
    if client.private_key:
        return "private_key_jwt"
    if not client.client_secret:
        return "none"
    if client.auth_method:
        return client.auth_method
    return next((method for method in SECRET_METHODS if method in methods_of(server)), SECRET_METHODS[0])


def methods_of(server: AuthorizationServer) -> tuple[str, ...]:
    """How clients may prove themselves at a token endpoint; what says nothing takes the secret as a header (RFC 8414)
    and, as nearly all do, public clients."""
    return server.token_endpoint_auth_methods_supported or ("client_secret_basic", "none")


def method_to_register(server: AuthorizationServer) -> str:
    """How toolcrib wants to prove itself: it needs no secret where it may have none."""
    known = methods_of(server)
    return next((method for method in ("none", *SECRET_METHODS) if method in known), "none")


def sign_assertion(client: OAuthClient, server: AuthorizationServer, now: float) -> str:
    """A JWT by which the client proves itself (RFC 7523); its audience is the issuer, as later revisions want it."""
    claims = {
        "iss": client.client_id,
        "sub": client.client_id,
        "aud": server.issuer,
        "jti": secrets.token_urlsafe(16),
        "iat": int(now),
        "exp": int(now) + 60,
    }
    return sign_jwt(client.private_key, claims)


def sign_jwt(pem: str, claims: Mapping[str, Any]) -> str:
    """A JWT signed with a private key, by whatever algorithm the key is for."""
    from cryptography.exceptions import UnsupportedAlgorithm  # only where a key is used: starting up stays quick
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa, utils

    try:
        key = serialization.load_pem_private_key(pem.encode(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise IssuerRefused("", "client authentication", "private_key is no PEM key without a password") from None
    algorithm = "ES256" if isinstance(key, ec.EllipticCurvePrivateKey) else "RS256"
    if isinstance(key, ed25519.Ed25519PrivateKey):
        algorithm = "EdDSA"
    signed = ".".join(_encoded(part) for part in ({"alg": algorithm, "typ": "JWT"}, claims)).encode()
    if isinstance(key, ec.EllipticCurvePrivateKey):
        r, s = utils.decode_dss_signature(key.sign(signed, ec.ECDSA(hashes.SHA256())))
        signature = r.to_bytes(32, "big") + s.to_bytes(32, "big")
    elif isinstance(key, rsa.RSAPrivateKey):
        signature = key.sign(signed, padding.PKCS1v15(), hashes.SHA256())
    elif isinstance(key, ed25519.Ed25519PrivateKey):
        signature = key.sign(signed)
    else:
        raise IssuerRefused("", "client authentication", "private_key is of a kind that signs no JWT")
    return f"{signed.decode()}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


def _encoded(part: Mapping[str, Any]) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(part)).rstrip(b"=").decode()


def claims_of(jwt: str) -> dict[str, Any]:
    """What a JWT says, unchecked: only to show people who is signed in."""
    try:
        body = jwt.split(".")[1]
        found = msgspec.json.decode(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    except (IndexError, ValueError, msgspec.DecodeError):
        return {}
    return found if isinstance(found, dict) else {}
