"""The workspace tools as one set: each with its definition, in the order people think of them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from toolcrib.workspace import definitions
from toolcrib.workspace.delegate import DelegateTool
from toolcrib.workspace.files import FileTools
from toolcrib.workspace.listing import ListTools
from toolcrib.workspace.pages import PageTools
from toolcrib.workspace.search import SearchTools
from toolcrib.workspace.shell import ShellTools
from toolcrib.workspace.tasks import TaskTools

Declaration = tuple[Callable[..., Any], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Toolset:
    """Everything that stands behind the tools."""

    shell: ShellTools
    files: FileTools
    lists: ListTools
    search: SearchTools
    pages: PageTools
    tasks: TaskTools
    delegate: DelegateTool

    def declarations(self) -> Iterator[Declaration]:
        """Each tool with what a registry has to know of it."""
        yield self.shell.bash, definitions.BASH
        yield self.files.read, definitions.FILE_READ
        yield self.files.write, definitions.FILE_WRITE
        yield self.files.edit, definitions.FILE_EDIT
        yield self.lists.list_directory, definitions.FILE_LIST
        yield self.lists.find, definitions.FILE_FIND
        yield self.search.search, definitions.SEARCH
        yield self.pages.fetch, definitions.URL_FETCH
        yield self.tasks.create, definitions.TASK_CREATE
        yield self.tasks.list_tasks, definitions.TASK_LIST
        yield self.tasks.complete, definitions.TASK_COMPLETE
        yield self.tasks.update, definitions.TASK_UPDATE
        yield self.tasks.add_note, definitions.TASK_ADD_NOTE
        yield self.tasks.view, definitions.TASK_VIEW
        yield self.delegate.delegate, definitions.DELEGATE
