"""The tiny server with a resource, a template and a prompt, for tests of what there is besides tools."""

from pathlib import Path

from tests.cli.program import TINY, Program

KNOWN = (
    "initialize",
    "tools/list",
    "tools/call",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "prompts/list",
    "prompts/get",
)
MORE = """
    if request["method"] == "resources/list":
        return {"resources": [{"uri": "memo://about", "name": "about", "mimeType": "text/plain",
                               "description": "What this is."}]}
    if request["method"] == "resources/templates/list":
        return {"resourceTemplates": [{"uriTemplate": "memo://{id}/photo", "name": "photo"}]}
    if request["method"] == "prompts/list":
        return {"prompts": [{"name": "greet", "description": "Greets.",
                             "arguments": [{"name": "who", "required": True}, {"name": "how"}]}]}
    if request["method"] == "resources/read":
        uri = request["params"]["uri"]
        if uri.endswith("photo"):
            blob = base64.b64encode(uri.encode()).decode()
            return {"contents": [{"uri": uri, "mimeType": "image/png", "blob": blob}]}
        return {"contents": [{"uri": uri, "text": "A \\x1b[31mlibrary"}]}
    if request["method"] == "prompts/get":
        words = f"Say hello to {request['params']['arguments']['who']}."
        return {"messages": [{"role": "user", "content": {"type": "text", "text": words}}]}
    if request["method"] == "tools/list":"""


def with_library(program: Program, folder: Path) -> Program:
    """Have the program's tiny server offer more than tools."""
    program.write(program.tiny().replace(str(TINY), str(library_script(folder))))
    return program


def library_script(folder: Path) -> Path:
    """The tiny server with more than tools."""
    script = folder / "library.py"
    script.write_text(
        TINY.read_text()
        .replace('"capabilities": {"tools": {}}', '"capabilities": {"tools": {}, "resources": {}, "prompts": {}}')
        .replace('\n    if request["method"] == "tools/list":', MORE)
        .replace('("initialize", "tools/list", "tools/call")', "KNOWN")
        .replace("Json = dict", f"KNOWN = {KNOWN!r}\nJson = dict")
    )
    return script
