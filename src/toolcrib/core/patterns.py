"""Regular expressions that are compiled when they are first used: a command needs few of them, and each takes as long
to compile as a small module takes to load."""

import re
from typing import Any, AnyStr, cast


class _LazyPattern:
    """Stands for a pattern; what was asked of it once is kept, so that asking again costs what it always does."""

    def __init__(self, source: str | bytes, flags: int) -> None:
        self._source, self._flags = source, flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(self._source, self._flags), name)
        self.__dict__[name] = found
        return found


def lazy_pattern(source: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """The pattern of ``source``; one that is not valid is noticed at its first use."""
    return cast("re.Pattern[AnyStr]", _LazyPattern(source, flags))
