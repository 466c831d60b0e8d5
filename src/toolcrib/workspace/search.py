"""Searching the files of the workspace: with ripgrep where it is installed, otherwise with Python, to the same end.

Which files are searched is decided here, by descriptors; ripgrep is only asked which of their lines fit. What is shown
is read here, too, so that nothing from outside can be shown, whatever is put in a file's place in the meantime.
"""

import asyncio
import itertools
import re
import shutil
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from toolcrib.core.errors import InvalidArguments, ToolcribError, ToolFailed
from toolcrib.core.kinds import AUTO
from toolcrib.core.requests import Result
from toolcrib.isolate.levels import GIB, IsolationWanted, ResourceLimits
from toolcrib.isolate.worker import Task, Workers, module_places
from toolcrib.workspace.files import said
from toolcrib.workspace.listing import WalkOptions, check_glob, walk
from toolcrib.workspace.root import WorkspaceRoot
from toolcrib.workspace.scan import text_lines
from toolcrib.workspace.shell import ProgramBounds, Programs

PATTERN_MAX = 1000
_REFUSED = {
    "look": "looks ahead or behind",
    "back": "refers back to a group",
    "other": "has a construct that not every engine knows",
    "greedy": "has a possessive quantifier",
    "property": "asks for a property of characters",
}
_TOKEN = re.compile(
    r"""(?P<back>\\[1-9]|\(\?P=)
    |(?P<look>\(\?<?[=!])
    |(?P<other>\(\?[>(\#]|\\[ZGKXRNhHvV])
    |(?P<property>\\[pP])
    |(?P<end>\\z)
    |(?P<escape>\\.)
    |(?P<named>\(\?<(?=[A-Za-z_]))
    |(?P<class>\[\^?\]?(?:\[:\^?[a-z]+:\]|\\.|[^\]\\])*\])
    |(?P<greedy>[*+?}]\+)""",
    re.VERBOSE | re.DOTALL,
)
_POSIX = re.compile(r"\[:(\^?)([a-z]+):\]")
_CLASSES = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "ascii": r"\x00-\x7f", "blank": r"\t ", "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9", "graph": "!-~", "lower": "a-z", "print": " -~", "punct": r"!-/:-@\[-`{-~", "space": r"\t\n\v\f\r ",
    "upper": "A-Z", "word": "0-9A-Za-z_", "xdigit": "0-9A-Fa-f",
}  # fmt: skip


def to_python(pattern: str) -> str:
    """The pattern as Python writes it; raises ``InvalidArguments`` for what ripgrep would not take either."""
    if len(pattern) > PATTERN_MAX:
        raise InvalidArguments(f"The pattern has more than {PATTERN_MAX} characters.", hint="Look for less.")
    written = _TOKEN.sub(_translate, pattern)
    try:
        re.compile(written)
    except (re.error, RecursionError, OverflowError) as error:
        raise InvalidArguments(f"The pattern is no regular expression: {error}.", hint=_LITERAL) from None
    return written


_LITERAL = "To look for the characters as they are, set literal."


def _translate(token: "re.Match[str]") -> str:
    kind, text = token.lastgroup or "", token[0]
    if kind in _REFUSED:
        raise InvalidArguments(f"The pattern {_REFUSED[kind]} ({text!r}).", hint=f"Write it without. {_LITERAL}")
    if kind == "class":
        return _POSIX.sub(_posix, text)
    return {"end": r"\Z", "named": "(?P<"}.get(kind, text)


def _posix(found: "re.Match[str]") -> str:
    if found[2] not in _CLASSES or found[1]:
        raise InvalidArguments(f"The pattern has an unknown class {found[0]!r}.", hint="Write the characters out.")
    return _CLASSES[found[2]]


Arguments = Mapping[str, Any]
Hits = list[tuple[str, list[int]]]
Scan = Callable[[Arguments], Awaitable[bytes]]
MATCHES = 200
FILES_MAX = 100_000
SHOWN_MAX = 400
TIMEOUT_S = 25.0
_BATCH_BYTES = 400_000
_OUTPUT_MAX = 16 << 20
_LIMITS = ResourceLimits(memory_bytes=2 * GIB, cpu_s=60)
_TARGET = "toolcrib.workspace.scan:perform"


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """What is looked for."""

    pattern: str
    literal: bool
    ignore_case: bool
    limit: int

    def python(self) -> str:
        """As Python writes it; raises ``InvalidArguments`` for what not every engine understands."""
        return re.escape(self.pattern) if self.literal else to_python(self.pattern)

    def ripgrep(self, rg: str) -> tuple[str, ...]:
        """The command that tells which lines fit, without the lines."""
        wishes = ("--ignore-case",) if self.ignore_case else ("--case-sensitive",)
        kind = ("--fixed-strings",) if self.literal else ()
        return (
            *(rg, "--no-config", "--color=never", "--no-heading", "--with-filename", "--null", "--line-number"),
            *("--text", "--crlf", "--no-messages", "--max-columns=1", "--sort=none", f"--max-count={self.limit + 1}"),
            *(*wishes, *kind, "-e", self.pattern, "--"),
        )


class SearchTools:
    """``ripgrep_search`` over one root."""

    def __init__(
        self,
        root: WorkspaceRoot,
        programs: Programs,
        scan: Scan,
        *,
        may_use_ripgrep: bool = True,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._root, self._programs, self._scan_files, self._timeout_s = root, programs, scan, timeout_s
        self._rg = find_ripgrep(programs.env.get("PATH", ""), root) if may_use_ripgrep else None

    async def search(self, arguments: Arguments) -> Result:
        """The lines that fit."""
        limit = arguments.get("limit", MATCHES)
        question = SearchRequest(
            arguments["pattern"], arguments.get("literal", False), arguments.get("ignore_case", False), limit
        )
        python = question.python()
        paths, many = await asyncio.to_thread(self._paths, arguments)
        hits = await self._ask(question, python, paths)
        taken = list(_first(hits, limit))
        is_cut = many or sum(len(lines) for _, lines in hits) > limit
        shown = await asyncio.to_thread(self._show, taken, arguments.get("context", 0))
        return _told(shown, is_cut, files_only=arguments.get("files_only", False))

    def _paths(self, arguments: Arguments) -> tuple[list[str], bool]:
        """The files to be searched; a path that names a file is that file, whatever the rules say."""
        start = arguments.get("path", ".")
        wanted = WalkOptions(arguments.get("hidden", False), arguments.get("ignored", False))
        glob = check_glob(arguments["glob"]) if arguments.get("glob") else None
        base = self._root.parts(start)
        try:
            found = (entry.path for entry in walk(self._root, start, wanted) if entry.kind == "file")
            below = (path for path in found if _is_fit(path, "/".join(base), glob))
            taken = list(itertools.islice(below, FILES_MAX + 1))
        except InvalidArguments:
            with self._root.reading(start):
                return ["/".join(base)], False
        return taken[:FILES_MAX], len(taken) > FILES_MAX

    async def _ask(self, question: SearchRequest, python: str, paths: Sequence[str]) -> Hits:
        if not paths:
            return []
        try:
            async with asyncio.timeout(self._timeout_s):
                if self._rg is not None:
                    return [hit async for hit in self._ripgrep(self._rg, question, paths)]
                return await self._scan(question, python, paths)
        except TimeoutError:
            raise ToolFailed(
                f"The search took longer than {self._timeout_s:.0f} s.", hint="Narrow it with path or glob."
            ) from None

    async def _ripgrep(self, rg: str, question: SearchRequest, paths: Sequence[str]) -> Any:
        left = question.limit + 1
        wish = IsolationWanted(AUTO, read=(str(self._root.path),), limits=_LIMITS)
        bounds = ProgramBounds(2 * self._timeout_s, _OUTPUT_MAX)
        for batch in _batches(paths):
            argv = (*question.ripgrep(rg), *batch)
            ran = await self._programs.run(argv, str(self._root.path), wish, bounds)
            if ran.exit_code not in (0, 1) and not ran.output.size:
                raise _refused(str(ran.stderr))
            for hit in _read_hits(bytes(ran.output), batch):
                yield hit
                left -= len(hit[1])
            if left <= 0:
                return

    async def _scan(self, question: SearchRequest, python: str, paths: Sequence[str]) -> Hits:
        given = {
            "root": str(self._root.path),
            "pattern": python,
            "ignore_case": question.ignore_case,
            "limit": question.limit + 1,
            "paths": list(paths),
        }
        return msgspec.json.decode(await self._scan_files(given), type=Hits)

    def _show(self, hits: Hits, context: int) -> list[dict[str, Any]]:
        return [line for path, numbers in hits for line in self._lines(path, numbers, context)]

    def _lines(self, path: str, numbers: list[int], context: int) -> Iterator[dict[str, Any]]:
        """The lines that fit and those around them, as the file has them now."""
        matched = set(numbers)
        wanted = {at for number in numbers for at in range(number - context, number + context + 1)}
        try:
            for number, line in enumerate(itertools.islice(text_lines(self._root, path), max(wanted)), 1):
                if number in wanted:
                    yield {"path": path, "line": number, "text": _cut(line), "matches": number in matched}
        except ToolcribError:  # gone, or changed into something else
            return


def scan_in(workers: Workers) -> Scan:
    """Python's own search, each in a process of its own."""
    places = module_places(__name__)

    async def scan(given: Arguments) -> bytes:
        wish = IsolationWanted(AUTO, read=(given["root"],), limits=_LIMITS)
        return await workers.run(Task("searching", _TARGET, given, places), wish)

    return scan


def find_ripgrep(path: str, root: WorkspaceRoot) -> str | None:
    """ripgrep, where the system has it; never one that lies in the workspace itself."""
    found = shutil.which("rg", path=path)
    if found is None or not Path(found).is_absolute() or Path(found).resolve().is_relative_to(root.path):
        return None
    return found


def _is_fit(path: str, base: str, glob: Any) -> bool:
    if any("\ud800" <= char <= "\udfff" for char in path):
        return False
    return glob is None or glob.matches(path[len(base) + 1 :] if base else path)


def _batches(paths: Sequence[str]) -> Iterator[tuple[str, ...]]:
    batch: list[str] = []
    size = 0
    for path in paths:
        if size > _BATCH_BYTES:
            yield tuple(batch)
            batch, size = [], 0
        batch.append(path)
        size += len(path.encode()) + 10
    yield tuple(batch)


def _read_hits(output: bytes, batch: Sequence[str]) -> Hits:
    """Path → line numbers, in the order in which the files were given."""
    found: dict[str, list[int]] = {}
    for line in output.split(b"\n"):
        path, _, rest = line.partition(b"\0")
        number = rest.partition(b":")[0]
        if number.isdigit():
            found.setdefault(path.decode(errors="replace"), []).append(int(number))
    return [(path, found[path]) for path in batch if path in found]


def _refused(stderr: str) -> ToolcribError:
    if "regex parse error" in stderr or "error parsing" in stderr:
        said = " ".join(stderr.split())
        return InvalidArguments(f"The pattern is no regular expression: {said[-200:]}", hint="Or set literal.")
    return ToolFailed(f"ripgrep failed: {stderr[-300:].strip() or 'it said nothing'}")


def _first(hits: Hits, most: int) -> Iterator[tuple[str, list[int]]]:
    for path, lines in hits:
        if most <= 0:
            return
        yield path, lines[:most]
        most -= len(lines)


def _cut(line: str) -> str:
    return line if len(line) <= SHOWN_MAX else f"{line[:SHOWN_MAX]}..."


def _told(lines: list[dict[str, Any]], cut: bool, *, files_only: bool) -> Result:
    matches = [{key: line[key] for key in ("path", "line", "text")} for line in lines if line["matches"]]
    files = list(dict.fromkeys(match["path"] for match in matches))
    more = "\n(there are more; narrow the pattern or path, or raise limit)" if cut else ""
    if files_only:
        return said(("\n".join(files) or "(no match)") + more, {"files": files, "cut": cut})
    shown = "\n".join(_blocks(lines)) or "(no match)"
    return said(shown + more, {"matches": matches, "files": files, "cut": cut})


def _blocks(lines: list[dict[str, Any]]) -> Iterator[str]:
    """As ripgrep shows it: the path, then its lines, a dash in front of what only stands beside."""
    before: tuple[str, int] = ("", 0)
    has_context = not all(line["matches"] for line in lines)
    for line in lines:
        if line["path"] != before[0]:
            yield f"{chr(10) if before[0] else ''}{line['path']}"
        elif has_context and line["line"] != before[1] + 1:
            yield "--"
        yield f"{line['line']}{':' if line['matches'] else '-'}{line['text']}"
        before = line["path"], line["line"]
