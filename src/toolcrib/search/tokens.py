"""From text to terms: what documents are indexed by and queries are read as.

A word gives one term, its stem. An identifier (``get_user``, ``getUser``, ``IL-6``) gives the terms of its parts and
the joined whole (``getuser``), so that either way of writing finds the other. Numbers and versions stay whole.
"""

import re
import unicodedata
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache

# The Snowball stemmer for English, written out. Not the package snowballstemmer: all 6,062 words of these sources and
# documents come out the same, but it takes 61 µs for a new word instead of 12, and indexing is mostly words.
VOWELS = "aeiouy"
DOUBLES = ("bb", "dd", "ff", "gg", "mm", "nn", "pp", "rr", "tt")
WHOLE = {
    "skis": "ski", "skies": "sky", "idly": "idl", "gently": "gentl", "ugly": "ugli", "early": "earli",
    "only": "onli", "singly": "singl",
    **{word: word for word in ("sky", "news", "howe", "atlas", "cosmos", "bias", "andes")},
}  # fmt: skip
NOT_AFTER_ING = {"inn", "out", "cann", "herr", "earr", "even"}
KEEPS_EED = ("succ", "proc", "exc")
R1_STARTS = ("gener", "commun", "arsen", "past", "univers", "later", "emerg", "organ", "inter")
STEP_2 = (
    ("ization", "ize"), ("ational", "ate"), ("fulness", "ful"), ("ousness", "ous"), ("iveness", "ive"),
    ("tional", "tion"), ("biliti", "ble"), ("lessli", "less"), ("entli", "ent"), ("ation", "ate"),
    ("alism", "al"), ("aliti", "al"), ("fulli", "ful"), ("ousli", "ous"), ("iviti", "ive"), ("enci", "ence"),
    ("anci", "ance"), ("abli", "able"), ("izer", "ize"), ("ator", "ate"), ("alli", "al"), ("bli", "ble"),
    ("ogist", "og"), ("ogi", "og"), ("li", ""),
)  # fmt: skip
STEP_3 = (
    ("ational", "ate"), ("tional", "tion"), ("alize", "al"), ("icate", "ic"), ("iciti", "ic"), ("ative", ""),
    ("ical", "ic"), ("ness", ""), ("ful", ""),
)  # fmt: skip
STEP_4 = (
    "ement", "ance", "ence", "able", "ible", "ment", "ant", "ent", "ism", "ate", "iti", "ous", "ive", "ize",
    "ion", "al", "er", "ic",
)  # fmt: skip
ENDS_2, ENDS_3 = tuple(suffix for suffix, _ in STEP_2), tuple(suffix for suffix, _ in STEP_3)
VOWEL = re.compile("[aeiouy]")
REGION = re.compile("[aeiouy][^aeiouy]")
SHORT_END = re.compile("(?:[^aeiouy][aeiouy][^aeiouywxY]|^[aeiouy][^aeiouy])$|^past$")


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """The stem of a lower-case word; what is not a word of a to z stays as it is."""
    if len(word) <= 2:
        return word
    if word in WHOLE:
        return WHOLE[word]
    if not (word.isascii() and word.isalpha()):
        return word
    word = _mark_consonant_y(word)
    r1, r2 = _regions(word)
    word = _step_1c(_step_1b(_step_1a(word), r1))
    word = _step_3(_step_2(word, r1), r1, r2)
    return _step_5(_step_4(word, r2), r1, r2).lower()


def _mark_consonant_y(word: str) -> str:
    if "y" not in word:
        return word
    return re.sub("(^|[aeiouy])y", lambda found: f"{found[1]}Y", word)


def _regions(word: str) -> tuple[int, int]:
    """Where the two regions of the algorithm begin: suffixes are only touched inside them."""
    start = next((len(head) for head in R1_STARTS if word.startswith(head)), None)
    if start is None:
        first = REGION.search(word)
        start = first.end() if first else len(word)
    second = REGION.search(word, start)
    return start, second.end() if second else len(word)


def _step_1a(word: str) -> str:
    if word.endswith("sses"):
        return word[:-2]
    if word.endswith(("ied", "ies")):
        return word[:-2] if len(word) > 4 else word[:-1]
    if word.endswith(("us", "ss")) or not word.endswith("s"):
        return word
    return word[:-1] if VOWEL.search(word, 0, len(word) - 2) else word


def _step_1b(word: str, r1: int) -> str:
    for suffix in ("eedly", "eed"):
        if word.endswith(suffix):
            rest = word[: -len(suffix)]
            return f"{rest}ee" if len(rest) >= r1 and not rest.endswith(KEEPS_EED) else word
    for suffix in ("ingly", "edly", "ing", "ed"):
        if word.endswith(suffix):
            return _after_1b(word, suffix)
    return word


def _after_1b(word: str, suffix: str) -> str:
    rest = word[: -len(suffix)]
    if not VOWEL.search(rest) or (suffix == "ing" and rest in NOT_AFTER_ING):
        return f"{rest[0]}ie" if suffix == "ing" and len(rest) == 2 and rest[1] in "yY" else word
    if suffix == "ing" and len(rest) == 2 and rest[1] == "y":
        return f"{rest[0]}ie"
    if rest.endswith(("at", "bl", "iz")):
        return f"{rest}e"
    if rest.endswith(DOUBLES):
        return rest if len(rest) == 3 and rest[0] in "aeo" else rest[:-1]
    is_short = SHORT_END.search(rest) is not None and _regions(rest)[0] >= len(rest)
    return f"{rest}e" if is_short else rest


def _step_1c(word: str) -> str:
    if len(word) > 2 and word[-1] in "yY" and word[-2] not in VOWELS:
        return f"{word[:-1]}i"
    return word


def _step_2(word: str, r1: int) -> str:
    for suffix, new in STEP_2 if word.endswith(ENDS_2) else ():
        if word.endswith(suffix):
            rest = word[: -len(suffix)]
            if len(rest) < r1:
                return word
            if suffix == "ogi":
                return rest + new if rest.endswith("l") else word
            if suffix == "li":
                return rest if rest[-1:] in "cdeghkmnrt" else word
            return rest + new
    return word


def _step_3(word: str, r1: int, r2: int) -> str:
    for suffix, new in STEP_3 if word.endswith(ENDS_3) else ():
        if word.endswith(suffix):
            rest = word[: -len(suffix)]
            return rest + new if len(rest) >= (r2 if suffix == "ative" else r1) else word
    return word


def _step_4(word: str, r2: int) -> str:
    for suffix in STEP_4 if word.endswith(STEP_4) else ():
        if word.endswith(suffix):
            rest = word[: -len(suffix)]
            can_go = len(rest) >= r2 and (suffix != "ion" or rest.endswith(("s", "t")))
            return rest if can_go else word
    return word


def _step_5(word: str, r1: int, r2: int) -> str:
    if word.endswith("e"):
        rest = word[:-1]
        if len(rest) >= r2 or (len(rest) >= r1 and not SHORT_END.search(rest)):
            return rest
    elif word.endswith("ll") and len(word) - 1 >= r2:
        return word[:-1]
    return word


WORD = re.compile(r"[^\W_]+(?:[._'’\-]+[^\W_]+)*")
NUMBER = re.compile(r"[0-9]+(?:[.\-][0-9]+)*")
SEPARATOR = re.compile(r"[._\-]+")
CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z0-9])(?=[A-Z][a-z])")
QUOTED = re.compile(r"[\"“”]([^\"“”]{3,200})[\"“”]")
IDEOGRAPHS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]+")
BREAKS = bytes(
    code if code > 127 or chr(code).isalnum() or chr(code) in "._'-" else ord(" ") for code in range(256)
)  # none of what becomes a space is part of a WORD
BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")
MARKS = re.compile(r"[^\x00-\x7f\w’]+")
LONGEST = 64  # characters of a term: longer ones (hashes, base64) are cut

STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        """a about above after again all also am an and any are as at be because been before being below
        between both but by can could did do does doing down during each few for from further had has have
        having he her here hers him his how i if in into is it its itself just let me more most my no nor
        not now of off on once only or other our ours out over own please same she should so some such than
        that the their theirs them then there these they this those through to too under until up us very
        was we were what when where which while who whom why will with would you your yours s t don im id
        ive""",
    )
)


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """What a query asks for: its terms in order, with stop words dropped, and the phrases it quotes."""

    text: str
    terms: tuple[str, ...]
    phrases: tuple[tuple[str, ...], ...] = ()
    wholes: frozenset[str] = frozenset()  # the terms that stand for an identifier or a number


def fold(text: str) -> str:
    """Without accents and compatibility forms; case stays, because it shows where an identifier's parts begin."""
    if text.isascii():
        return text
    return BEYOND_ASCII.sub(_uncombined, unicodedata.normalize("NFKD", text))


def _uncombined(found: re.Match[str]) -> str:
    return "" if unicodedata.combining(found[0]) else found[0]


def analyse(text: str) -> list[str]:
    """The terms of a text, in order; an identifier's whole comes after its parts."""
    terms: list[str] = []
    for piece in pieces_of(text):
        terms += terms_in(piece)
    return terms


def pieces_of(text: str) -> list[bytes]:
    """A text in small pieces, none of which cuts a word in two: made quickly, and mostly the same ones again."""
    return plain_bytes(text).translate(BREAKS).split()


def plain_bytes(text: str) -> bytes:
    """A text without accents and compatibility forms; beyond ASCII, marks that end a word are spaces already."""
    return text.encode() if text.isascii() else MARKS.sub(" ", fold(text)).encode(errors="replace")


@lru_cache(maxsize=1 << 17)
def terms_in(piece: bytes) -> tuple[str, ...]:
    """The terms of a piece, in order."""
    return tuple(term for word in WORD.findall(piece.decode()) for term in _terms_of(word))


def read_query(text: str) -> ParsedQuery:
    """Stop words are dropped, unless there is nothing else."""
    words = WORD.findall(fold(text))
    kept = [word for word in words if word.lower() not in STOP_WORDS] or words
    grouped = [_terms_of(word) for word in kept]
    terms = tuple(term for group in grouped for term in group)
    wholes = frozenset(group[-1] for group in grouped if len(group) > 1 or group[-1][:1].isdigit())
    return ParsedQuery(text, terms, tuple(_phrases(text)), wholes)


def share_of_phrases(query: ParsedQuery, text: str) -> float:
    """How many of the phrases a query quotes stand in a text, 0 to 1; 1 when it quotes none."""
    spoken = f" {' '.join(analyse(text))} "
    met = sum(f" {' '.join(phrase)} " in spoken for phrase in query.phrases)
    return met / len(query.phrases) if query.phrases else 1.0


def places(text: str) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """Where each word stands in a text, and its terms; character positions are those of ``text`` itself."""
    for found in WORD.finditer(text):
        yield found.start(), found.end(), _terms_of(fold(found[0]))


def _phrases(text: str) -> Iterator[tuple[str, ...]]:
    for found in QUOTED.finditer(text):
        terms = tuple(analyse(found[1]))
        if len(terms) > 1:
            yield terms


@lru_cache(maxsize=1 << 17)
def _terms_of(word: str) -> tuple[str, ...]:
    if word.isalpha() and word.isascii() and (word.islower() or word.istitle() or word.isupper()):
        return (stem(word.lower()[:LONGEST]),)
    return tuple(part[:LONGEST] for part in _split(word))


def _split(word: str) -> list[str]:
    word = re.sub(r"['’](?:s|S)?(?=$|[._\-])|['’]", "", word) or word
    if NUMBER.fullmatch(word):
        return [word]
    pieces = [piece for part in SEPARATOR.split(word) for piece in CAMEL.split(part) if piece]
    if len(pieces) == 1:
        return _single(pieces[0].lower())
    parts = [term for piece in pieces for term in _single(piece.lower())]
    return [*parts, SEPARATOR.sub("", word).lower()]


def _single(word: str) -> list[str]:
    if not word.isascii() and IDEOGRAPHS.fullmatch(word):
        return [word[at : at + 2] for at in range(len(word) - 1)] or [word]
    return [stem(word)]


MOST = 100  # ranges in one text


def highlights(query: str, text: str) -> list[tuple[int, int]]:
    """The character ranges of words that share a stem with the query, in order; neighbours become one range."""
    wanted = frozenset(read_query(query).terms)
    ranges: list[tuple[int, int]] = []
    for start, end in _matches(wanted, text):
        if ranges and text[ranges[-1][1] : start].isspace():
            ranges[-1] = (ranges[-1][0], end)
        elif len(ranges) == MOST:
            break
        else:
            ranges.append((start, end))
    return ranges


def _matches(wanted: Collection[str], text: str) -> list[tuple[int, int]]:
    return [(start, end) for start, end, terms in places(text) if any(term in wanted for term in terms)]
