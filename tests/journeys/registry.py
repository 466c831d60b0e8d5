"""A package registry of this machine, for npm and for uv, that hands nothing out before it is told to.

Its packages are small MCP servers without dependencies, made here: each notes its start in a diary.
"""

import base64
import contextlib
import hashlib
import http.server
import io
import json
import tarfile
import threading
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

OPEN_S = 300
TOOLS = [{"name": "echo", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}]
IN_NODE = """\
#!/usr/bin/env node
const {{ tools }} = require("./tools.js");
require("fs").appendFileSync({diary}, "started {name}\\n");
const say = (id, result) => process.stdout.write(JSON.stringify({{ jsonrpc: "2.0", id, result }}) + "\\n");
require("readline").createInterface({{ input: process.stdin }}).on("line", (line) => {{
  const {{ id, method }} = JSON.parse(line);
  const info = {{ name: "{name}", version: "1" }};
  const hello = {{ protocolVersion: "2025-06-18", capabilities: {{ tools: {{}} }}, serverInfo: info }};
  if (id === undefined) return;
  say(id, method === "initialize" ? hello : method === "tools/list" ? {{ tools }} : {{ content: [] }});
}}).on("close", () => process.exit(0));
"""
IN_PYTHON = """\
import json
import sys
from {module}.tools import TOOLS

def main():
    with open({diary}, "a") as diary:
        diary.write("started {name}\\n")
    info = {{"name": "{name}", "version": "1"}}
    hello = {{"protocolVersion": "2025-06-18", "capabilities": {{"tools": {{}}}}, "serverInfo": info}}
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" in asked:
            result = {{"initialize": hello, "tools/list": {{"tools": TOOLS}}}}.get(asked["method"], {{"content": []}})
            print(json.dumps({{"jsonrpc": "2.0", "id": asked["id"], "result": result}}), flush=True)
"""


class Registry:
    """Packages, a gate for each, and who has asked for which."""

    def __init__(self, diary: Path) -> None:
        self._diary = json.dumps(str(diary))
        self._files: dict[str, bytes] = {}
        self.gates: dict[str, threading.Event] = {}
        self.asked: list[str] = []
        """What was asked for of the packages, whether it was handed out or not."""
        self.url = ""

    def env(self, home: Path) -> Mapping[str, str]:
        """Has npm and uv come here, and keep what they get below ``home``."""
        return {
            "npm_config_registry": f"{self.url}/npm/",
            "npm_config_cache": str(home / "npm"),
            "npm_config_userconfig": "/dev/null",
            "npm_config_update_notifier": "false",
            "npm_config_audit": "false",
            "UV_DEFAULT_INDEX": f"{self.url}/simple/",
            "UV_CACHE_DIR": str(home / "uv"),
            "UV_NO_CONFIG": "1",
            "UV_PYTHON_DOWNLOADS": "never",
        }

    def add_npm(self, name: str) -> None:
        """A package whose command has its name."""
        about = {"name": name, "version": "1.0.0", "bin": {name: "index.js"}}
        index = IN_NODE.format(diary=self._diary, name=name)
        parts = {
            "package.json": json.dumps(about),
            "index.js": index,
            "tools.js": f"exports.tools = {json.dumps(TOOLS)}",
        }
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            for path, text in parts.items():
                member = tarfile.TarInfo(f"package/{path}")
                member.size, member.mode = len(text.encode()), 0o755
                archive.addfile(member, io.BytesIO(text.encode()))
        content = packed.getvalue()
        digest = base64.b64encode(hashlib.sha512(content).digest()).decode()
        dist = {"tarball": f"{self.url}/npm/{name}/-/{name}.tgz", "integrity": f"sha512-{digest}"}
        known = {"name": name, "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": {**about, "dist": dist}}}
        self._keep(name, f"/npm/{name}", json.dumps(known).encode())
        self._keep(name, f"/npm/{name}/-/{name}.tgz", content)

    def add_python(self, name: str) -> None:
        """A wheel whose command has its name."""
        module = name.replace("-", "_")
        info = f"{module}-1.0.dist-info"
        parts = {
            f"{module}/__init__.py": IN_PYTHON.format(module=module, diary=self._diary, name=name),
            f"{module}/tools.py": f"TOOLS = {TOOLS!r}\n",
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
            f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            f"{info}/entry_points.txt": f"[console_scripts]\n{name} = {module}:main\n",
        }
        parts[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*parts, f"{info}/RECORD"])
        packed, wheel = io.BytesIO(), f"{module}-1.0-py3-none-any.whl"
        with zipfile.ZipFile(packed, "w") as archive:
            for path, text in parts.items():
                archive.writestr(path, text)
        self._keep(name, f"/simple/{name}/", f'<a href="/files/{wheel}">{wheel}</a>'.encode())
        self._keep(name, f"/files/{wheel}", packed.getvalue())

    def _keep(self, name: str, path: str, content: bytes) -> None:
        self._files[path] = content
        self.gates.setdefault(name, threading.Event())

    def answer(self, path: str) -> bytes | None:
        """What is kept there, once its gate is open."""
        name = next((name for name in self.gates if f"/{name}" in path or f"/{name.replace('-', '_')}-" in path), "")
        if name:
            self.asked.append(path)
        if name and not self.gates[name].wait(OPEN_S):
            return None
        return self._files.get(path)

    def open_all(self) -> None:
        for gate in self.gates.values():
            gate.set()


@contextlib.contextmanager
def registry(diary: Path) -> Iterator[Registry]:
    """Serves it, and an MCP server at ``/mcp`` that wants people to sign in, for as long as the block lasts."""
    made = Registry(diary)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = made.answer(self.path)
            kind = "text/html" if self.path.startswith("/simple/") else "application/octet-stream"
            self.reply(200 if content is not None else 404, content or b"", kind)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            self.reply(401, b"{}", "application/json")

        def reply(self, status: int, content: bytes, kind: str) -> None:
            with contextlib.suppress(OSError):  # whoever asked may have been ended
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(content)))
                if status == 401:
                    self.send_header("www-authenticate", "Bearer")
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

        do_HEAD = do_GET

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        made.url = f"http://127.0.0.1:{server.server_address[1]}"
        serving = threading.Thread(target=server.serve_forever, args=(0.01,))
        serving.start()
        try:
            yield made
        finally:
            made.open_all()
            server.shutdown()
            serving.join()
