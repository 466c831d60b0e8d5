"""Takes secrets out of what servers say: every message, line and error passes here before anybody else sees it.

A secret is looked for as it is and in the encodings that are cheap to know: URL, base64 (wherever it begins in the
encoded text), JSON, HTML and hexadecimal. The forms are a pattern for the regex engine of ``jsonschema_rs``, which
looks for dozens of literals at once: with one secret 0.3 µs for 1 KB and 10 µs for 100 KB, with twenty 1 µs and 50 µs.
``in`` for each form takes 2 and 61 µs, with twenty secrets 65 and 1,300 µs; Python's ``re`` takes longer than that.

Each server has its own: what another was given it cannot know, and patterns of hundreds of forms take long to compile.
"""

import base64
import html
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, quote_plus

import msgspec

from toolcrib.config.secrets import MASK
from toolcrib.core.errors import RemoteError, ToolcribError
from toolcrib.core.patterns import lazy_pattern
from toolcrib.wire.jsonrpc import INTERNAL_ERROR, decode, decode_outbound, encode

CUT_MIN = 4
"""So many characters of a secret at the end of a text that was cut are taken out as well."""
PATTERN_BYTES = 1 << 28
FORMS_AT_ONCE = 48
"""More in one pattern, and the engine cannot compare many bytes in one step."""

JSON_DEPTH = 3
PASSING_MAX = 16
"""So many tokens of a server that end by themselves are looked for."""

LARGE_BYTES = 1 << 16
"""Beyond this a message is not taken apart: 100 KB of small values would hold the loop for 20 ms, 8 MB for 2 s."""
WINDOW = 1 << 12
"""A large message is looked at in pieces of this size; only those with a secret in them are worked on."""
WORK_MAX = 1 << 24
"""Bytes to replace in, times forms to look for: some 40 ms. What is more work is withheld."""

_HIDDEN = r"\\u00(?:3[0-9]|[46][1-9A-Fa-f]|[57][0-9Aa])"
"""Letters and digits that JSON need not escape, and no common encoder does: only to hide them."""
_ESCAPED = lazy_pattern(r"\\+u00([2-7][0-9A-Fa-f])")
_SPECIAL = lazy_pattern(r"[\\.+*?()|\[\]{}^$]")
_PERCENT = lazy_pattern(r"%[0-9A-F]{2}")
_GO_ESCAPES = str.maketrans({char: f"\\u{ord(char):04x}" for char in "<>&"})
_NET_ESCAPES = str.maketrans({char: f"\\u{ord(char):04X}" for char in "<>&'+\"`"} | {"\\": "\\\\"})


class Redactor:
    """Knows the secrets of one server; more can be added while it is used."""

    __slots__ = ("_finds", "_forms", "_passing", "_values")

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values = frozenset(values)
        self._passing: dict[str, None] = {}
        self._forms: tuple[str, ...] = ()
        self._finds: Callable[[str], bool] | None = None

    def add(self, values: Iterable[str]) -> None:
        """Look for these as well from now on."""
        known = self._values.union(values)
        if known != self._values:
            self._values, self._finds = known, None

    def add_passing(self, values: Iterable[str]) -> None:
        """The same for tokens, of which there are ever more: the last ones are looked for, older ones have ended."""
        for value in values:
            self._passing[value] = self._passing.pop(value, None)
        ended = list(self._passing)[:-PASSING_MAX]
        for value in ended:
            del self._passing[value]
        known = (self._values - frozenset(ended)).union(self._passing)
        if known != self._values:
            self._values, self._finds = known, None

    def clean(self, message: bytes) -> bytes:
        """An encoded JSON message without secrets; the very same bytes if there are none in it."""
        if not self._values or not self._has_any(text := str(message, "utf-8", "replace")):
            return message
        if len(message) > LARGE_BYTES:
            cleaned = self._clean_pieces(text)
            return withheld(message) if cleaned is None else cleaned.encode()
        try:
            return encode(self.value(decode(message)))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return self.text(message.decode(errors="replace")).encode()

    def text(self, text: str) -> str:
        """The text without secrets."""
        if not self._values or not self._has_any(text):
            return text
        plain = _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)
        if any(form in plain for form in self._forms):
            text = plain
        for form in self._forms:
            text = text.replace(form, MASK)
        return text

    def cut_text(self, text: str) -> str:
        """The same for a text that was cut somewhere, perhaps in the middle of a secret."""
        text = self.text(text)
        for form in self._forms:
            for length in range(min(len(form), len(text)), CUT_MIN - 1, -1):
                if text.endswith(form[:length]):
                    return text[:-length] + MASK
        return text

    def value(self, value: Any) -> Any:
        """A decoded JSON value without secrets; one nested too deeply to be looked through is withheld."""
        try:
            return self._within(value) if self._values else value
        except RecursionError:
            return MASK

    def error(self, error: ToolcribError) -> None:
        """Take the secrets out of an error that is on its way to others."""
        if not self._values:
            return
        error.message, error.hint = self.text(error.message), self.text(error.hint)
        error.args, error.details = (error.message,), self.value(error.details)
        if isinstance(error, RemoteError):
            error.data = self.value(error.data)

    def _within(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self._within(key): self._within(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._within(item) for item in value]
        if type(value) is int and self._has_any(str(value)):
            return MASK
        return value

    def _clean_pieces(self, text: str) -> str | None:
        """A long JSON text without secrets, still JSON; ``None`` where that is too much work, or one is hidden."""
        regions = self._regions(text)
        if sum(end - start for start, end in regions) * len(self._forms) > WORK_MAX:
            return None
        parts, done = [], 0
        for start, end in regions:
            region = text[start:end]
            if self._hides_any(region):
                return None
            for form in self._forms:
                region = region.replace(form, "1" if form.isdigit() else MASK)  # a number must stay one
            parts += [text[done:start], region]
            done = end
        return "".join([*parts, text[done:]])

    def _regions(self, text: str) -> list[tuple[int, int]]:
        """Where the secrets are, roughly: windows that hold one, joined where they meet."""
        longest = 6 * len(self._forms[0])  # a form whose every letter is escaped
        found: list[tuple[int, int]] = []
        for start in range(0, len(text), WINDOW):
            end = min(start + WINDOW + longest, len(text))
            if not self._has_any(text[start:end]):
                continue
            is_joined = found and start <= found[-1][1]
            found.append((found.pop()[0] if is_joined else start, end))
        return found

    def _hides_any(self, region: str) -> bool:
        """Whether a secret shows only once escapes are read that no common encoder writes."""
        plain = _ESCAPED.sub(lambda match: chr(int(match[1], 16)), region)
        return plain != region and any(plain.count(form) > region.count(form) for form in self._forms)

    def _has_any(self, text: str) -> bool:
        finds = self._finds or self._compile()
        try:
            return finds(text)
        except UnicodeEncodeError:  # half a surrogate pair: the slow way then
            return True

    def _compile(self) -> Callable[[str], bool]:
        """Build the pattern; the longest form comes first, because one may be the beginning of another."""
        import jsonschema_rs  # only where there are secrets: starting up stays quick

        forms = {form for value in self._values for form in spellings(value)}
        self._forms = tuple(sorted(forms, key=lambda form: (-len(form), form)))
        escaped = [_HIDDEN, *(_SPECIAL.sub(r"\\\g<0>", form) for form in self._forms)]
        patterns = ["|".join(escaped[start : start + FORMS_AT_ONCE]) for start in range(0, len(escaped), FORMS_AT_ONCE)]
        options = jsonschema_rs.RegexOptions(size_limit=PATTERN_BYTES)
        schema = {"anyOf": [{"pattern": pattern} for pattern in patterns]}
        self._finds = jsonschema_rs.validator_for(schema, pattern_options=options).is_valid
        return self._finds


def spellings(secret: str) -> Iterator[str]:
    """The secret as it is written in plain text, URLs, HTML, base64 and hex, and all of these in JSON.

    JSON up to three deep: the result of a tool is often JSON in a text, and sometimes such a text in another.
    """
    forms = set(_plainly(secret))
    forms |= set(_in_dialects(secret))
    yield from forms
    for _ in range(JSON_DEPTH):
        forms = {escaped for form in forms for escaped in _in_json(form)}
        yield from forms


def _plainly(secret: str) -> Iterator[str]:
    data = secret.encode("utf-8", "replace")
    yield secret
    for quoted in (quote(data, safe=""), quote(data), quote_plus(data)):
        yield quoted
        yield _PERCENT.sub(lambda match: match[0].lower(), quoted)
    yield html.escape(secret)
    yield repr(secret)[1:-1]
    yield data.hex()
    yield data.hex().upper()
    yield from _in_base64(data)


def _in_json(text: str) -> Iterator[str]:
    yield json.dumps(text)[1:-1]
    yield json.dumps(text, ensure_ascii=False)[1:-1]


def _in_dialects(text: str) -> Iterator[str]:
    """JSON as PHP, Go and .NET write it, which escape more than they have to."""
    yield json.dumps(text)[1:-1].replace("/", "\\/")
    yield json.dumps(text, ensure_ascii=False)[1:-1].translate(_GO_ESCAPES)
    yield text.translate(_NET_ESCAPES)


def _in_base64(data: bytes) -> Iterator[str]:
    """The characters that depend on the secret alone, for each of the three places where it can begin."""
    for before in range(3):
        bits_before, bits_after = 8 * before, 8 * (before + len(data))
        encoded = base64.b64encode(bytes(before) + data).decode()
        core = encoded[-(-bits_before // 6) : bits_after // 6]
        yield core
        yield quote(core, safe="")
        yield core.replace("+", "-").replace("/", "_")


def withheld(message: bytes) -> bytes:
    """What is passed on instead of a message that cannot be cleaned: an error to whoever waits for the answer; what is
    no answer becomes a notification that nobody heeds."""
    try:
        found = decode_outbound(message)
    except msgspec.DecodeError:
        found = None
    if found is None or found.method is not None:
        return encode({"jsonrpc": "2.0", "method": "notifications/withheld"})
    return encode({"jsonrpc": "2.0", "id": found.id, "error": {"code": INTERNAL_ERROR, "message": WITHHELD}})


WITHHELD = "This answer was withheld by toolcrib: it repeats a secret of the server in too many places, or hides one."
NO_SECRETS = Redactor()
