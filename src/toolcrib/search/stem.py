"""English stems by the Snowball "english" (Porter2) rules: https://snowballstem.org/algorithms/english/stemmer.html."""

import re
from functools import lru_cache

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
