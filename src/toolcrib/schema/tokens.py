"""How many tokens a text takes of a model's context: an estimate that needs no vocabulary, no network, no start-up.

The text is cut exactly as the o200k tokenizer cuts it before it looks into its vocabulary; what each piece comes to is
told by its kind and length. The figures were fitted to half of 7,867 published tool definitions; on the other half the
sums of five sets are off by at most 3.2 %. Of 55 real servers, the list of one is off by 1.3 % in the median, by 3.4 %
in 95 of 100 cases. Words in other alphabets than the English are counted too high rather than too low. Other
tokenizers of today differ from o200k by some 5 to 10 % themselves.
"""

import re
from functools import lru_cache

_PIECE = re.compile(
    r"[ -/:-@\[-`{-~\t]?(?:[a-z]{1,99}+|[A-Z]{1,99}+[a-z]{0,99}+)(?![^\x00-\x7f\W\d_])(?:'(?:s|t|re|ve|m|ll|d)\b)?"
    r"|[^\w\r\n]?[^\W\d_]{1,99}"  # the same in other alphabets: a word, with the sign before it
    r"|\d{1,3}"
    r"| ?(?:[!-/:-@\[-`{-~]|[^\w\s]){1,99}[\r\n/]{0,99}"  # signs
    r"|\s{0,99}[\r\n]{1,99}|\s{1,99}(?!\S)|\s{1,99}"
)
"""Nothing without an end: the pieces are remembered."""
_WORDS = {
    "plain lower": (100, 100, 102, 102, 103, 112, 117, 116, 133, 132, 142, 135, 191, 241, 281, 340),
    "plain title": (100, 100, 102, 103, 104, 106, 107, 111, 126, 133, 134, 134, 172, 190, 201, 239),
    "plain upper": (100, 100, 131, 144, 154, 145, 148, 211, 208, 216, 258, 283, 308, 333, 358, 383),
    "space lower": (100, 100, 100, 100, 101, 101, 102, 103, 108, 106, 105, 109, 107, 116, 126, 143),
    "space title": (100, 100, 102, 104, 108, 117, 111, 123, 129, 154, 154, 138, 139, 136, 185, 210),
    "space upper": (100, 100, 114, 114, 129, 131, 173, 201, 161, 251, 336, 318, 343, 368, 393, 418),
    "under lower": (100, 101, 110, 103, 110, 107, 128, 137, 160, 164, 152, 212, 201, 259, 290, 315),
    "under title": (100, 100, 164, 182, 227, 273, 266, 306, 294, 313, 315, 340, 365, 390, 415, 440),
    "under upper": (100, 106, 122, 129, 137, 144, 247, 177, 202, 256, 286, 311, 336, 361, 386, 411),
    "other lower": (100, 108, 110, 131, 168, 124, 169, 181, 179, 181, 215, 205, 244, 283, 340, 340),
    "other title": (106, 132, 170, 179, 218, 238, 265, 293, 309, 319, 401, 390, 468, 493, 518, 543),
    "other upper": (100, 126, 206, 222, 238, 250, 218, 289, 319, 318, 369, 394, 419, 444, 469, 494),
}
"""Hundredths of a token by the number of letters: for each sign before a word, and each way to write it."""
_SIGNS = (100, 100, 102, 129, 199, 284, 336, 351, 434, 522, 533, 602)
_MORE_LETTERS, _MORE_SIGNS, _FOREIGN_BYTE = 40, 55, 27
_SCHEMA_WORDS = frozenset(
    {
        "type",
        "string",
        "description",
        "properties",
        "required",
        "object",
        "input",
        "schema",
        "name",
        "integer",
        "number",
        "boolean",
        "array",
        "items",
        "enum",
        "default",
        "title",
        "additional",
    }
)
"""What every definition is full of; each is one token."""
_BEFORE = {" ": "space", "_": "under"}


def count_tokens(text: str) -> int:
    """About how many tokens a model reads for this text."""
    return (sum(map(_cost, _PIECE.findall(text))) + 50) // 100


@lru_cache(maxsize=1 << 14)
def _cost(piece: str) -> int:
    """Hundredths of a token."""
    if not piece.isascii():
        return max(100, _FOREIGN_BYTE * len(piece.encode(errors="replace")))
    if piece[-1].isalpha():
        return _word_cost(piece)
    return 100 if piece[-1].isdigit() or piece.isspace() else _by_length(_SIGNS, len(piece.strip()), _MORE_SIGNS)


def _word_cost(piece: str) -> int:
    is_plain = piece[0].isalpha()
    letters = piece if is_plain else piece[1:]
    if is_plain and letters.lower() in _SCHEMA_WORDS:
        return 100
    case = "lower" if letters.islower() else "upper" if len(letters) > 1 and letters.isupper() else "title"
    before = "plain" if is_plain else _BEFORE.get(piece[0], "other")
    return _by_length(_WORDS[f"{before} {case}"], len(letters), _MORE_LETTERS)


def _by_length(costs: tuple[int, ...], length: int, more: int) -> int:
    return costs[min(length, len(costs)) - 1] + more * max(0, length - len(costs))
