"""Users' own modules: their tools come in when they are named, and follow the edits of their files."""

import asyncio
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from toolcrib.core.errors import ConfigError, ToolcribError
from toolcrib.core.events import Emit, Event, drop
from toolcrib.core.source import LocalSource
from toolcrib.sources.native.functions import NativeTool, import_tools, native_tool

Stamp = tuple[tuple[str, int, int, int], ...]
Check = Callable[[Sequence[NativeTool]], None]


class NativeModules:
    """The tools of the modules that ``native`` names.

    A changed file is imported anew, as a module of its own: calls under way end in the old one. An edit that cannot be
    imported, or defines what no tool may be, changes nothing.
    """

    def __init__(self, paths: Sequence[str], beside: Path | None = None, emit: Emit = drop) -> None:
        """``beside`` is the directory of the configuration, whose modules can be imported, too."""
        self._paths, self._emit = tuple(paths), emit
        self._beside = None if beside is None else str(beside.absolute())
        self._names: frozenset[str] = frozenset()
        """The modules that are imported anew together."""
        self._tools: tuple[NativeTool, ...] = ()
        self._seen: Stamp = ()
        self.check: Check = _accept
        """Raises if these tools cannot be taken in, before any is."""
        self._source: LocalSource | None = None
        self._turn = asyncio.Lock()

    def load(self) -> tuple[NativeTool, ...]:
        """Import them, for the first time."""
        self._tools = self._import(self._paths)
        self._seen = self._stamp()
        return self._tools

    def attach(self, source: LocalSource) -> None:
        """From now on, changes go there."""
        self._source = source

    def has_changed(self) -> bool:
        """Whether a file looks otherwise than when it was last imported, or tried; waits for the disk."""
        return bool(self._paths) and self._stamp() != self._seen

    async def follow(self, paths: Sequence[str] | None = None) -> bool:
        """Take in what the files, or other ``paths``, say now; false if that cannot be, and the old tools stay."""
        async with self._turn:
            wanted = self._paths if paths is None else tuple(paths)
            try:
                fresh = await asyncio.to_thread(self._import_anew, wanted)
            except ToolcribError as error:
                fields = {"error": str(error), "kept": "the tools before"}
                self._emit(Event("native.rejected", "error", fields))
                return False
            self._paths = wanted
            self._take_in(fresh)
            return True

    def _take_in(self, fresh: tuple[NativeTool, ...]) -> None:
        source, before, self._tools = self._source, self._tools, fresh
        if source is None:
            return
        now = {(entry.tool.name, entry.tool.version) for entry in fresh}
        for entry in fresh:
            source.register(entry.function)
        for entry in before:
            name, version = entry.tool.name, entry.tool.version
            if (name, version) not in now:
                source.unregister(f"{name}@{version}")
        fields = {"tools": ", ".join(sorted({name for name, _ in now})) or "none"}
        self._emit(Event("native.applied", fields=fields))

    def _import_anew(self, paths: Sequence[str]) -> tuple[NativeTool, ...]:
        """Fresh modules beside the old ones; if one cannot be imported, the old ones are back in their place."""
        old = {name: sys.modules.pop(name) for name in self._names if name in sys.modules}
        self._seen = self._stamp(old.values())
        for module in old.values():
            _forget_compiled(module)
        importlib.invalidate_caches()
        before = self._names
        try:
            return self._import(paths)
        except ToolcribError:
            sys.modules.update(old)
            self._names = before
            raise
        finally:
            self._seen = self._stamp()

    def _import(self, paths: Sequence[str]) -> tuple[NativeTool, ...]:
        if paths and self._beside is not None and self._beside not in sys.path:
            sys.path.append(self._beside)  # at the end: no file of a project stands in for a library
        known = set(sys.modules)
        try:
            tools = tuple(_defined(path, entry) for path in paths for entry in import_tools(path))
        finally:
            self._names = frozenset(_own_modules(paths, set(sys.modules) - known))
        self.check(tools)
        return tools

    def _stamp(self, modules: Iterable[ModuleType] | None = None) -> Stamp:
        found = [sys.modules[name] for name in self._names if name in sys.modules] if modules is None else modules
        return tuple(sorted(_stat(file) for module in found if (file := getattr(module, "__file__", None))))


def _accept(tools: Sequence[NativeTool]) -> None:
    del tools


def _defined(path: str, entry: Callable[..., Any]) -> NativeTool:
    try:
        return native_tool(entry)
    except ToolcribError as error:
        raise ConfigError(f"native: {path!r}: {error}") from None


def _own_modules(paths: Sequence[str], fresh: set[str]) -> Iterator[str]:
    """Those that are named, what is below them, and what came with them out of the same directories."""
    named = {path.partition(":")[0] for path in paths}
    homes = {str(Path(file).parent) for name in named if (file := _file_of(name))}
    for name in list(sys.modules):
        is_below = name in named or any(name.startswith(f"{each}.") for each in named)
        if is_below or (name in fresh and _file_of(name).startswith(tuple(f"{home}/" for home in homes))):
            yield name


def _file_of(name: str) -> str:
    return getattr(sys.modules.get(name), "__file__", None) or ""


def _forget_compiled(module: ModuleType) -> None:
    """Python compares whole seconds and sizes: an edit that keeps both would not be noticed."""
    with suppress(OSError, NotImplementedError, ValueError):
        Path(importlib.util.cache_from_source(module.__file__ or "")).unlink(missing_ok=True)


def _stat(path: str) -> tuple[str, int, int, int]:
    try:
        found = Path(path).stat()
    except OSError:
        return path, 0, 0, 0
    return path, found.st_mtime_ns, found.st_size, found.st_ino
