"""An issuer of JWTs for tests: real keys, and a hand that can also write what no library would."""

import base64
import hashlib
import hmac
import json
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

from joserfc.jwk import ECKey, Key, OctKey, OKPKey, RSAKey
from joserfc.jws import JWSRegistry

ISSUER, AUDIENCE = "https://issuer.example", "toolcrib"
NOW = 1_800_000_000


def quietly(make: Callable[[], Key]) -> Key:
    """Make a key that is weak on purpose, without the library's complaint."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make()


@cache
def key(kind: str = "rsa") -> Key:
    """One key of each kind, made once."""
    return {
        "rsa": lambda: RSAKey.generate_key(2048),
        "other": lambda: RSAKey.generate_key(2048),
        "weak": lambda: quietly(lambda: RSAKey.generate_key(1024)),
        "ec": lambda: ECKey.generate_key("P-256"),
        "p384": lambda: ECKey.generate_key("P-384"),
        "ed": lambda: OKPKey.generate_key("Ed25519"),
        "oct": lambda: OctKey.generate_key(256),
    }[kind]()


def public(kind: str, **more: Any) -> dict[str, Any]:
    """A key as it stands in the issuer's JWKS; its ``kid`` is its kind."""
    return {**key(kind).as_dict(private=False), "kid": kind, **more}


def jwks(*kinds: str) -> bytes:
    return json.dumps({"keys": [public(kind) for kind in kinds]}).encode()


def claims(**changes: Any) -> dict[str, Any]:
    """What a good token says, with changes; one that is ``None`` is left out."""
    usual = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "iat": NOW, "exp": NOW + 600}
    return {name: value for name, value in {**usual, **changes}.items() if value is not None}


def b64(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def as_text(value: Any) -> bytes:
    return value if isinstance(value, bytes) else json.dumps(value).encode()


def signed(body: Any = None, header: Any = None, kind: str = "rsa", alg: str = "RS256") -> bytes:
    """A token with a true signature over whatever header and body it is given."""
    head = {"alg": alg, "kid": kind} if header is None else header
    text = b64(as_text(head)) + b"." + b64(as_text(claims() if body is None else body))
    return text + b"." + b64(JWSRegistry.algorithms[alg].sign(text, key(kind)))


def confused() -> bytes:
    """Signed with the public key as if it were a shared secret."""
    text = b64(as_text({"alg": "HS256", "kid": "rsa"})) + b"." + b64(as_text(claims()))
    secret = key("rsa").as_pem(private=False)
    return text + b"." + b64(hmac.new(secret, text, hashlib.sha256).digest())


def unsigned(alg: str = "none", signature: bytes = b"") -> bytes:
    return b64(as_text({"alg": alg, "kid": "rsa"})) + b"." + b64(as_text(claims())) + b"." + signature
