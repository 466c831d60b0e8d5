"""How the workspace tools are described to a model: their schemas, and an example each. Data only."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from toolcrib.core.worklist import STATES
from toolcrib.workspace.delegate import DelegateTool
from toolcrib.workspace.files import FileTools
from toolcrib.workspace.listing import ListTools
from toolcrib.workspace.pages import PageTools
from toolcrib.workspace.search import SearchTools
from toolcrib.workspace.shell import ShellTools
from toolcrib.workspace.tasks import TaskTools

Schema = dict[str, Any]


def _object(properties: Schema, *required: str) -> Schema:
    made: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return made | ({"required": list(required)} if required else {})


def _tool(name: str, description: str, schema: Schema, *, level: str, **more: Any) -> Schema:
    """One declaration; ``level`` is how far the tool reaches."""
    return {"name": name, "description": description, "input_schema": schema, "security_level": level, **more}


def _text(description: str, **more: Any) -> Schema:
    return {"type": "string", "description": description} | more


def _count(description: str, least: int, most: int, default: int | None = None) -> Schema:
    made: Schema = {"type": "integer", "description": description, "minimum": least, "maximum": most}
    return made if default is None else made | {"default": default}


def _flag(description: str, default: bool = False) -> Schema:
    return {"type": "boolean", "description": description, "default": default}


PATH = _text("Path below the workspace's root, such as src/main.py", maxLength=4096)
START = _text("Directory to begin at", default=".", maxLength=4096)
HIDDEN = _flag("Also what begins with a dot")
IGNORED = _flag("Also what .gitignore leaves out")
TASK = _count("Number of the task", 1, 2**31)
AFTER = {"type": "array", "items": _count("Number of a task", 1, 2**31), "maxItems": 100}
CLOSED_WORLD = {"openWorldHint": False}

FILE_READ = _tool(
    "file_read",
    "Read lines of a text file of the workspace, with line numbers. Long files are read in parts: offset and limit.",
    _object(
        {
            "path": PATH,
            "offset": _count("First line, from 1", 1, 10**9, 1),
            "limit": _count("Most lines to return", 1, 20_000, 2000),
        },
        "path",
    ),
    level="read_only",
    annotations=CLOSED_WORLD,
    examples=[{"path": "README.md"}, {"path": "src/main.py", "offset": 200, "limit": 50}],
)
FILE_WRITE = _tool(
    "file_write",
    "Write a whole text file of the workspace, with the directories it needs. It is replaced in one step; an existing "
    "file keeps its mode, encoding and line ends. To change a part of a file, use file_edit.",
    _object(
        {
            "path": PATH,
            "content": _text("Everything the file shall hold", maxLength=20_000_000),
            "overwrite": _flag("Whether a file that is there already is replaced", default=True),
        },
        "path",
        "content",
    ),
    level="write",
    annotations=CLOSED_WORLD | {"destructiveHint": True, "idempotentHint": True},
    examples=[{"path": "notes/today.md", "content": "# Today\n"}],
)
FILE_EDIT = _tool(
    "file_edit",
    "Replace a text in a file of the workspace, exactly. Fails without changing anything unless old_text is there "
    "exactly count times. Returns what changed as a diff.",
    _object(
        {
            "path": PATH,
            "old_text": _text("The text as it stands in the file, white space included", minLength=1),
            "new_text": _text("What shall stand there instead"),
            "count": _count("How often old_text must be there; all of them are replaced", 1, 100_000, 1),
            "all": _flag("Replace it wherever it is, however often"),
        },
        "path",
        "old_text",
        "new_text",
    ),
    level="write",
    annotations=CLOSED_WORLD | {"destructiveHint": True},
    examples=[{"path": "src/main.py", "old_text": "retries = 2", "new_text": "retries = 3"}],
)
FILE_LIST = _tool(
    "file_list",
    "List a directory of the workspace: files with their sizes, directories, and links with what they lead to.",
    _object(
        {
            "path": START,
            "depth": _count("How many levels down", 1, 20, 1),
            "hidden": HIDDEN,
            "ignored": _flag("Also what .gitignore leaves out", default=True),
            "limit": _count("Most entries to return", 1, 10_000, 500),
        }
    ),
    level="read_only",
    annotations=CLOSED_WORLD,
    examples=[{}, {"path": "src", "depth": 2}],
)
FILE_FIND = _tool(
    "file_find",
    "Find files of the workspace by a pattern for their paths: *.py (in any directory), src/**/test_*.py, *.{js,ts}.",
    _object(
        {
            "pattern": _text("Pattern, as seen from path", minLength=1, maxLength=500),
            "path": START,
            "kind": _text("What to find", enum=["file", "directory", "any"], default="file"),
            "hidden": HIDDEN,
            "ignored": IGNORED,
            "limit": _count("Most paths to return", 1, 10_000, 500),
        },
        "pattern",
    ),
    level="read_only",
    annotations=CLOSED_WORLD,
    category="search",
    examples=[{"pattern": "*.py"}, {"pattern": "docs/**/*.md"}],
)
SEARCH = _tool(
    "ripgrep_search",
    "Search the text of the workspace's files for a regular expression, line by line. Returns paths, line numbers and "
    "lines.",
    _object(
        {
            "pattern": _text("Regular expression, without look-around and back-references", maxLength=1000),
            "path": _text("Directory or file to search", default=".", maxLength=4096),
            "glob": _text("Only files whose path fits, such as *.py", maxLength=500),
            "literal": _flag("Look for the characters as they are"),
            "ignore_case": _flag("Capital and small letters are the same"),
            "context": _count("Lines to show before and after each match", 0, 20, 0),
            "files_only": _flag("Only the paths of files that match"),
            "hidden": HIDDEN,
            "ignored": IGNORED,
            "limit": _count("Most matching lines to return", 1, 5000, 200),
        },
        "pattern",
    ),
    level="read_only",
    annotations=CLOSED_WORLD,
    category="search",
    examples=[{"pattern": "def main", "glob": "*.py"}, {"pattern": "TODO", "literal": True, "context": 2}],
)
BASH = _tool(
    "bash",
    "Run a shell command in the workspace and return its output and exit code. It can write in the workspace only, has "
    "no network unless that is switched on, and is ended with everything it started when its time is over.",
    _object(
        {
            "command": _text("The command", minLength=1, maxLength=100_000),
            "path": _text("Directory to run it in", default=".", maxLength=4096),
            "timeout_s": {"type": "number", "exclusiveMinimum": 0, "description": "Most seconds it may take"},
        },
        "command",
    ),
    level="system",
    annotations={"destructiveHint": True},
    examples=[{"command": "python -m pytest -q"}, {"command": "ls -la", "path": "src"}],
)
URL_FETCH = _tool(
    "url_fetch",
    "Get a page from the web as readable text (HTML becomes Markdown). Only public addresses; long pages are read in "
    "parts: offset and limit.",
    _object(
        {
            "url": _text("An http or https address", minLength=1, maxLength=4096),
            "raw": _flag("HTML as it is"),
            "offset": _count("First character, from 0", 0, 10**9, 0),
            "limit": _count("Most characters to return", 100, 1_000_000, 50_000),
        },
        "url",
    ),
    level="read_only",
    annotations={"openWorldHint": True},
    examples=[{"url": "https://example.com/"}],
)
TASK_CREATE = _tool(
    "task_create",
    "Note a task to be done, and which others have to be over before it can begin.",
    _object(
        {
            "title": _text("In a few words", minLength=1, maxLength=300),
            "description": _text("What is to be done, in full", maxLength=50_000),
            "after": AFTER | {"description": "Tasks it has to wait for"},
        },
        "title",
    ),
    level="write",
    annotations=CLOSED_WORLD | {"destructiveHint": False},
    examples=[{"title": "Write the tests"}, {"title": "Release", "after": [1]}],
)
TASK_LIST = _tool(
    "task_list",
    "List the workspace's tasks, with what each one waits for.",
    _object(
        {
            "state": _text("Only these; ready: not over and waiting for nothing", enum=[*STATES, "ready"]),
            "limit": _count("Most tasks to return", 1, 1000, 200),
        }
    ),
    level="read_only",
    annotations=CLOSED_WORLD,
    examples=[{}, {"state": "ready"}],
)
TASK_COMPLETE = _tool(
    "task_complete",
    "Mark a task as done. Tells which tasks can begin now that could not before.",
    _object({"id": TASK, "note": _text("What came of it", maxLength=50_000)}, "id"),
    level="write",
    annotations=CLOSED_WORLD | {"destructiveHint": False},
    examples=[{"id": 1}],
)
TASK_UPDATE = _tool(
    "task_update",
    "Change a task: its title, description, state, or what it waits for.",
    _object(
        {
            "id": TASK,
            "title": _text("In a few words", minLength=1, maxLength=300),
            "description": _text("What is to be done, in full", maxLength=50_000),
            "state": _text("How it stands", enum=list(STATES)),
            "after": AFTER | {"description": "Tasks it has to wait for, in place of those before"},
        },
        "id",
    ),
    level="write",
    annotations=CLOSED_WORLD | {"destructiveHint": False, "idempotentHint": True},
    examples=[{"id": 1, "state": "active"}],
)
TASK_ADD_NOTE = _tool(
    "task_add_note",
    "Add a note to a task.",
    _object({"id": TASK, "note": _text("What to remember", minLength=1, maxLength=50_000)}, "id", "note"),
    level="write",
    annotations=CLOSED_WORLD | {"destructiveHint": False},
    examples=[{"id": 1, "note": "The old API is still used in two places."}],
)
TASK_VIEW = _tool(
    "task_view",
    "Show a task with its description and notes.",
    _object({"id": TASK}, "id"),
    level="read_only",
    annotations=CLOSED_WORLD,
    examples=[{"id": 1}],
)
BUDGET = _object(
    {
        "turns": _count("Answers of its model", 1, 200, 20),
        "calls": _count("Calls of tools", 0, 1000, 50),
        "tokens": _count("Tokens in and out", 1000, 10_000_000, 200_000),
        "seconds": {"type": "number", "exclusiveMinimum": 0, "maximum": 3600, "default": 300},
    }
)
DELEGATE = _tool(
    "delegate",
    "Have a sub-agent do a piece of work by itself, with some of your tools and a budget of its own. Returns its "
    "answer and what it did.",
    _object(
        {
            "task": _text("What it shall do, and what it shall answer", minLength=1, maxLength=100_000),
            "context": _text("What it has to know and cannot find out", maxLength=1_000_000),
            "tools": {
                "type": "array",
                "items": {"type": "string", "minLength": 1, "maxLength": 200},
                "maxItems": 200,
                "description": "Names or patterns of your tools it may use; those that only read, if not given",
            },
            "budget": BUDGET | {"description": "The most it may use"},
        },
        "task",
    ),
    level="write",
    timeout_s=3700.0,
    examples=[{"task": "Which modules have no tests?", "tools": ["file_*", "ripgrep_search"]}],
)


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
        yield self.shell.bash, BASH
        yield self.files.read, FILE_READ
        yield self.files.write, FILE_WRITE
        yield self.files.edit, FILE_EDIT
        yield self.lists.list_directory, FILE_LIST
        yield self.lists.find, FILE_FIND
        yield self.search.search, SEARCH
        yield self.pages.fetch, URL_FETCH
        yield self.tasks.create, TASK_CREATE
        yield self.tasks.list_tasks, TASK_LIST
        yield self.tasks.complete, TASK_COMPLETE
        yield self.tasks.update, TASK_UPDATE
        yield self.tasks.add_note, TASK_ADD_NOTE
        yield self.tasks.view, TASK_VIEW
        yield self.delegate.delegate, DELEGATE
