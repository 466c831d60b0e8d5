"""A server with skills over stdio, in both eras, from the standard library: no SDK has the extension yet.

    SKILLS_MODE=good python skills_server.py

Modes: ``good``; ``tampered``, ``longer``, ``disguised``: its SKILL.md is not what its entry says, by bytes, by length,
by frontmatter; ``second``: the skill as it is after its author changed it; ``hostile``: entries nobody should take.
"""

import hashlib
import json
import os
import sys
from typing import Any

MODE = os.environ.get("SKILLS_MODE", "good")
EXTENSION = "io.modelcontextprotocol/skills"
ROOT = "skill://pdf-processing"
ABOUT = "Extract, fill, and assemble PDF documents"
BODY = f"---\nname: pdf-processing\ndescription: {ABOUT}\n---\n\nRead references first.\n"
FORMS = "How forms are filled.\n"
OTHER = "---\nname: notes\ndescription: Keep notes\nmetadata:\n  since: 2026-01-01\n---\n\nWrite it down.\n"
if MODE == "second":
    BODY = BODY.replace("first", "last")
FILES = {f"{ROOT}/SKILL.md": BODY, f"{ROOT}/references/FORMS.md": FORMS, "skill://notes/SKILL.md": OTHER}
SERVED = {
    **FILES,
    f"{ROOT}/SKILL.md": {
        "tampered": BODY.replace("references", "Secrets!!!"),
        "longer": BODY + "more\n",
        "disguised": BODY.replace("Extract", "Exfiltr"),
    }.get(MODE, BODY),
}


def file_of(uri: str) -> dict[str, Any]:
    content = (SERVED if MODE == "disguised" else FILES)[uri].encode()
    return {"uri": uri, "digest": f"sha256:{hashlib.sha256(content).hexdigest()}", "size": len(content)}


PDF = {
    "uri": f"{ROOT}/SKILL.md",
    "frontmatter": {"name": "pdf-processing", "description": ABOUT},
    "resources": [file_of(f"{ROOT}/SKILL.md"), file_of(f"{ROOT}/references/FORMS.md")],
}
NOTES = {
    "uri": "skill://notes/SKILL.md",
    "frontmatter": {"name": "notes", "description": "Keep notes", "metadata": {"since": "2026-01-01"}},
    "resources": [file_of("skill://notes/SKILL.md")],
}
HOSTILE = [
    {**PDF, "uri": "skill://pdf-processing/../other/SKILL.md"},
    {**PDF, "uri": "skill://x/%2e%2e/SKILL.md"},
    {**PDF, "uri": "skill://thief/SKILL.md"},
    {
        **NOTES,
        "uri": "skill://odd/SKILL.md",
        "resources": [{"uri": "skill://odd/SKILL.md", "digest": "md5:1", "size": 1}],
    },
    {**NOTES, "uri": "skill://none/SKILL.md", "resources": []},
    {**NOTES, "uri": "skill://huge/SKILL.md", "resources": [{"uri": f"skill://huge/{n}"} for n in range(1000)]},
    {"uri": "skill://bare/SKILL.md", "resources": "dynamic"},
]


def about() -> dict[str, Any]:
    return {"resources": {}, "tools": {}, "extensions": {EXTENSION: {"directoryRead": True}}}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    kept = {"resultType": "complete", "ttlMs": 1000, "cacheScope": "private"}
    uri = params.get("uri", "")
    if method == "initialize":
        return {"protocolVersion": params["protocolVersion"], "capabilities": about(), "serverInfo": {"name": "skills"}}
    if method == "server/discover":
        return {**kept, "supportedVersions": ["2026-07-28"], "capabilities": about()}
    if method == "tools/list":
        return {**kept, "tools": []}
    if method == "resources/list":
        listed = {"uri": f"{ROOT}/SKILL.md", "name": "pdf-processing", "mimeType": "text/markdown",
                  "description": ABOUT}  # fmt: skip
        return {**kept, "resources": [listed]}
    if method == "resources/templates/list":
        return {**kept, "resourceTemplates": []}
    if method == "resources/read" and uri in SERVED:
        return {**kept, "contents": [{"uri": uri, "mimeType": "text/markdown", "text": SERVED[uri]}]}
    if method == "skills/list":
        if MODE == "hostile":
            return {**kept, "skills": [*HOSTILE, NOTES]}
        return {**kept, "skills": [NOTES]} if params.get("cursor") else {**kept, "skills": [PDF], "nextCursor": "2"}
    if method == "skills/get":
        return {**kept, "skill": next(skill for skill in (PDF, NOTES) if skill["uri"] == uri)}
    if method == "resources/directory/read" and uri in (ROOT, "skill://notes"):
        below = [{"uri": f"{uri}/SKILL.md", "mimeType": "text/markdown"},
                 {"uri": f"{uri}/references", "mimeType": "inode/directory"}]  # fmt: skip
        return {**kept, "resources": below}
    if method == "resources/directory/read" and uri == f"{ROOT}/references":
        many = [{"uri": f"{ROOT}/references/{number}.md", "name": str(number)} for number in range(1000)]
        return {**kept, "resources": many}
    raise LookupError(method)


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        try:
            reply["result"] = answer(message["method"], message.get("params") or {})
        except LookupError as error:
            is_known = message["method"].startswith(("resources/", "skills/"))
            reply["error"] = {"code": -32602 if is_known else -32601, "message": f"not found: {error}"}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
