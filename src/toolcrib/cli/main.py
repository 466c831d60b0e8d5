"""The way in: finds the command and imports it. Help and version come from the table below and import nothing else."""

import sys
from collections.abc import Sequence

from toolcrib.version import VERSION

COMMANDS: dict[str, tuple[str, str]] = {
    "up": ("up", "Find the configuration, serve it over HTTP, and show what is there."),
    "serve": ("up", "Serve MCP over HTTP."),
    "stdio": ("stdio", "Serve MCP on stdin and stdout, for a client that starts it."),
    "status": (
        "lifecycle",
        "Show the toolcrib that runs for this project, its servers and clients.",
    ),
    "stop": ("lifecycle", "Stop the toolcrib that runs for this project."),
    "restart": ("lifecycle", "Have it begin anew, with the same options."),
    "logs": ("lifecycle", "Show its log, and follow it."),
    "service install": ("service", "Have the toolcrib of this project run whenever you are logged in."),
    "service uninstall": ("service", "End that, and remove its file."),
    "service status": ("service", "Show whether there is such a service, and whether it runs."),
    "open": ("open", "Open the page of the toolcrib that runs here, signed in."),
    "ls": ("tools", "List the tools."),
    "find": ("tools", "Find tools by what they are for."),
    "show": ("tools", "Show one tool: what it does and takes."),
    "call": ("call", "Call a tool."),
    "resources ls": ("resources", "List the resources, and the templates of many."),
    "resources read": ("resources", "Read a resource."),
    "prompts ls": ("prompts", "List the prompts."),
    "prompts get": ("prompts", "Get a prompt, made from arguments."),
    "skills ls": ("skills", "List the skills."),
    "skills show": ("skills", "Show a skill: its files and its instructions."),
    "chat": ("chat", "Talk to a model that has all the tools."),
    "exam": ("exam", "Check with questions of your own whether the right tools are found."),
    "why": ("tools", "Say why a tool is here, missing, hidden, stale or renamed."),
    "policy": ("policy", "Show or set what may be called: allow, ask, deny, disable."),
    "diff": ("pins", "Show what changed in tools that are in quarantine."),
    "approve": ("pins", "Accept changed tools as they are now."),
    "approvals ls": ("approvals", "List the questions that wait, and the answers that are kept."),
    "approvals watch": ("approvals", "Answer questions here as they come in."),
    "approvals answer": ("approvals", "Answer one question that waits."),
    "approvals forget": ("approvals", "Forget a kept answer, so that the person is asked again."),
    "login": ("accounts", "Sign in at a server, in a browser here or elsewhere."),
    "logout": ("accounts", "Sign out at a server; its tokens are revoked."),
    "accounts": ("accounts", "Show who is signed in where, and until when."),
    "servers ls": ("servers", "List the servers and how they are doing."),
    "servers add": ("servers", "Add a server to the configuration and ask for its tools."),
    "servers rm": ("servers", "Remove a server from the configuration."),
    "servers enable": ("servers", "Switch a server on."),
    "servers disable": ("servers", "Switch a server off; its tools leave the catalogue."),
    "servers refresh": ("servers", "Ask servers for their tools now."),
    "servers logs": ("servers", "Start a server and show what it writes to stderr."),
    "import": ("files", "Bring in the servers of other programs, or follow their changes."),
    "export": ("config", "Print the servers as other programs write them."),
    "connect": ("connect", "Make toolcrib a server of a client such as Claude Code or Cursor."),
    "disconnect": ("connect", "Take toolcrib out of a client again; its file is as it was before."),
    "projects ls": ("projects", "List the directories toolcrib was run in."),
    "projects rm": ("projects", "Forget a project; its files stay."),
    "cost": ("cost", "Show what the tools cost of a model's context, what of it is used, and what to leave out."),
    "tokens create": ("tokens", "Make a token for a client, with no more reach than it needs."),
    "tokens ls": ("tokens", "List the tokens and what they may do."),
    "tokens revoke": ("tokens", "End a token at once."),
    "tokens reset": ("tokens", "End all tokens, so that none is asked for on this machine."),
    "secrets set": ("secrets", "Keep a secret that configuration refers to as ${NAME}."),
    "secrets ls": ("secrets", "List the secrets that are kept, and who refers to them."),
    "secrets rm": ("secrets", "Forget a secret, and say who still needs it."),
    "clients ls": ("clients", "List the clients that people let in by OAuth."),
    "clients rm": ("clients", "Disconnect a client: all its tokens end at once."),
    "clients invite": ("clients", "Make a link that lets somebody else sign in and connect clients of their own."),
    "audit tail": ("audit", "Show what was called last, and what is called now."),
    "audit search": ("audit", "Find calls and decisions by tool, caller, outcome or time."),
    "audit verify": ("audit", "Check that nothing in the log was changed, deleted or moved."),
    "audit export": ("audit", "Write the log as JSON lines."),
    "kb add": ("kb_changes", "Add files and folders to the knowledge base, or bring them up to date."),
    "kb ls": ("kb", "List the collections, or the documents of one."),
    "kb show": ("kb", "Print a document, or a part of it."),
    "kb search": ("kb", "Find passages by words and by meaning."),
    "kb ask": ("kb", "Answer a question from the documents, with citations."),
    "kb embed": ("kb_changes", "Choose who makes a collection's vectors, and make those that are missing."),
    "kb rm": ("kb_changes", "Take a collection, or documents of it, out of the knowledge base."),
    "kb reindex": ("kb_changes", "Build the index anew from the texts that are kept."),
    "kb stats": ("kb", "Show how much there is, and whether all is well."),
    "kb export": ("kb", "Write documents as JSON lines."),
    "kb import": ("kb", "Take in what was exported."),
    "kb work": ("kb_changes", "Take part in additions to a shared knowledge base."),
    "kb verify": ("kb", "Check that everything stored is there and fits together."),
    "db status": ("db", "Show which shared database is used, and whether it is up to date."),
    "db upgrade": ("db", "Bring the shared database up to date."),
    "db verify": ("db", "Check that what the shared database holds is as it should be."),
    "db copy": ("db", "Bring what this machine has in files into the shared database."),
    "doctor": ("doctor", "Check everything and say what to do."),
    "config show": ("config", "Show every setting; with --origin where it came from."),
    "config path": ("config", "Show which files are read."),
    "config check": ("config", "Check the configuration without starting anything."),
    "extras ls": ("extras", "List the optional parts, and which of them are installed."),
    "extras add": ("extras", "Add optional parts, in the way toolcrib was installed."),
    "completion": ("completion", "Print the completion script of a shell."),
}
"""Command → its module in ``commands`` and what it does, in the order of the help."""

GROUPS = {
    "service": "Have the system start toolcrib.",
    "resources": "List and read what servers offer to read.",
    "prompts": "List and get the prompts of servers.",
    "skills": "List and show the skills of servers.",
    "approvals": "Answer what agents want to do, and look after the answers.",
    "servers": "Look after the MCP servers.",
    "projects": "Look after the projects toolcrib knows.",
    "tokens": "Look after the access tokens of programs that come over HTTP.",
    "secrets": "Keep tokens and passwords out of the configuration.",
    "clients": "Look after the clients that people let in by OAuth.",
    "audit": "Look up what was done.",
    "kb": "Keep documents that agents can search and quote.",
    "db": "Look after the database that replicas share.",
    "config": "Look at the configuration.",
    "extras": "Add optional parts of toolcrib.",
}
HIDDEN = {"__complete": ("complete", "Answer a shell that completes a line.")}

INTERRUPTED = 130
_HELP = ("-h", "--help", "help")


def run(argv: Sequence[str]) -> int:
    """Run one command line; the exit code. No traceback gets past here."""
    try:
        code = _run(list(argv))
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return _hush()
    except Exception as error:
        from toolcrib.cli.failures import report

        code = report(error, as_json="--json" in argv)
        _hush()
    return code


def _run(argv: list[str]) -> int:
    try:
        return _dispatch(_command_first(argv))
    except SystemExit as leaving:  # argparse, after its help
        return leaving.code if isinstance(leaving.code, int) else 0


def _command_first(argv: list[str]) -> list[str]:
    """``--config FILE ls`` means ``ls --config FILE``."""
    size = 2 if argv[:1] == ["--config"] else 1 if argv and argv[0].startswith("--config=") else 0
    end = argv.index("--") if "--" in argv else len(argv)
    return [*argv[size:end], *argv[:size], *argv[end:]] if len(argv) > size else argv


def _dispatch(argv: list[str]) -> int:
    if not argv or argv[0] in _HELP:
        return _help(" ".join(argv[1:]) if argv and argv[0] == "help" else "")
    if argv[0] in ("-V", "--version"):
        return _print(f"toolcrib {VERSION}")
    if argv[0] in GROUPS:
        return _dispatch_group(argv)
    return _run_command(argv[0], argv[1:])


def _dispatch_group(argv: list[str]) -> int:
    if len(argv) == 1:
        sys.stderr.write(_group_help(argv[0]) + "\n")
        return 2
    if argv[1] in _HELP:
        return _print(_group_help(argv[0]))
    return _run_command(f"{argv[0]} {argv[1]}", argv[2:])


def _run_command(name: str, argv: list[str]) -> int:
    entry = COMMANDS.get(name) or HIDDEN.get(name)
    if entry is None:
        from toolcrib.cli.failures import unknown_command

        raise unknown_command(name, list(COMMANDS))
    from importlib import import_module

    from toolcrib.cli.invoke import invoke

    outcome = invoke(name, entry[1], import_module(f"toolcrib.cli.commands.{entry[0]}"), argv)
    if outcome is None or isinstance(outcome, int):
        return outcome or 0
    from toolcrib.cli.running import run_once

    return run_once(outcome)


def _help(name: str) -> int:
    if name in COMMANDS:
        return _run_command(name, ["--help"])
    return _print(_group_help(name) if name in GROUPS else _top_help())


def _top_help() -> str:
    single = {name: text for name, (_, text) in COMMANDS.items() if " " not in name}
    grouped = {f"{name} …": f"{text} ({', '.join(_members(name))})" for name, text in GROUPS.items()}
    return f"""\
toolcrib {VERSION}: the tools of many MCP servers and native functions in one catalogue.

Usage: toolcrib COMMAND [options]

{_columns(single | grouped)}

Start with `toolcrib up`; add a server with `toolcrib servers add NAME -- command args…`.
Every command takes --help, and --config FILE (a toolcrib.toml or any mcpServers file)."""


def _group_help(group: str) -> str:
    members = {f"{group} {name}": COMMANDS[f"{group} {name}"][1] for name in _members(group)}
    return f"{GROUPS[group]}\n\nUsage: toolcrib {group} COMMAND [options]\n\n{_columns(members)}"


def _members(group: str) -> list[str]:
    return [name.partition(" ")[2] for name in COMMANDS if name.startswith(f"{group} ")]


def _columns(rows: dict[str, str]) -> str:
    width = max(map(len, rows))
    return "\n".join(f"  {name:<{width}}  {text}" for name, text in rows.items())


def _print(text: str) -> int:
    sys.stdout.write(text + "\n")
    return 0


def _hush() -> int:
    """What cannot be written any more goes nowhere, so that the interpreter does not complain of it at its end."""
    import os

    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 1
