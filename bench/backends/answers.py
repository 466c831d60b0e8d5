"""What the echo server says, whatever carries it. Speaks the handshake revisions of MCP and 2026-07-28."""

from typing import Any

import orjson
from toolset import make_tools

MODERN = "2026-07-28"
TTL_MS = 300_000  # the listing may be kept for five minutes: a gateway that does is warm, one that asks again is not
SERVER = {"name": "echo", "version": "1.0"}
DISCOVERY = {
    "supportedVersions": [MODERN],
    "capabilities": {"tools": {}},
    "resultType": "complete",
    "ttlMs": TTL_MS,
    "cacheScope": "public",
    "_meta": {"io.modelcontextprotocol/serverInfo": SERVER},
}
OTHER: dict[str, dict[str, Any]] = {
    "server/discover": DISCOVERY,
    "ping": {},
    "resources/list": {"resources": []},
    "resources/templates/list": {"resourceTemplates": []},
    "prompts/list": {"prompts": []},
}


PAGE_BYTES = 1024 * 1024
PAGE = ("The quick brown fox jumps over the lazy dog, again and again.\n" * (PAGE_BYTES // 62 + 1))[:PAGE_BYTES]
_ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
_SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


class EchoServer:
    """Answers are built once where they can be: the gateway is what a measurement should show.

    With ``pages``, there are so many resources of 1 MB besides the tools, ``memo://pages/0`` and so on.
    """

    def __init__(self, tool_count: int, pages: int = 0) -> None:
        listing = {"tools": make_tools(tool_count)}
        modern = {**listing, "resultType": "complete", "ttlMs": TTL_MS, "cacheScope": "private"}
        self.listing = orjson.Fragment(orjson.dumps(listing))
        self.modern_listing = orjson.Fragment(orjson.dumps(modern))
        self.pages = [{"uri": f"memo://pages/{number}", "name": f"page {number}"} for number in range(pages)]
        self.page = orjson.Fragment(orjson.dumps(PAGE if pages else ""))
        self.capabilities = {"tools": {}, **({"resources": {"subscribe": True}} if pages else {})}

    def answer(self, message: dict[str, Any]) -> bytes | None:
        """The reply to a request; None to a notification."""
        if "id" not in message:
            return None
        params = message.get("params") or {}
        if message["method"] == "subscriptions/listen":
            granted = {**params, "_meta": {_SUBSCRIPTION: message["id"]}}
            return orjson.dumps({"jsonrpc": "2.0", "method": _ACKNOWLEDGED, "params": granted})
        result = self._result(message["method"], params)
        if result is None:
            error = {"code": -32601, "message": "Method not found"}
            return orjson.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error})
        return orjson.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result})

    def _result(self, method: str, params: dict[str, Any]) -> Any:
        if method == "tools/call":
            return _echo(params)
        if method == "tools/list":
            return self.modern_listing if _is_modern(params) else self.listing
        if method == "initialize":
            version = params.get("protocolVersion", "2025-06-18")
            return {"protocolVersion": version, "capabilities": self.capabilities, "serverInfo": SERVER}
        return self._of_pages(method, params) if self.pages else OTHER.get(method)

    def _of_pages(self, method: str, params: dict[str, Any]) -> Any:
        hints = {"resultType": "complete", "ttlMs": TTL_MS, "cacheScope": "private"} if _is_modern(params) else {}
        if method == "resources/read":
            return {"contents": [{"uri": params["uri"], "mimeType": "text/plain", "text": self.page}], **hints}
        if method == "resources/list":
            return {"resources": self.pages, **hints}
        if method in ("resources/subscribe", "resources/unsubscribe"):
            return {}
        return {**DISCOVERY, "capabilities": self.capabilities} if method == "server/discover" else OTHER.get(method)


def _echo(params: dict[str, Any]) -> dict[str, Any]:
    content = [{"type": "text", "text": params["arguments"]["message"]}]
    result = {"content": content, "isError": False}
    return {**result, "resultType": "complete"} if _is_modern(params) else result


def _is_modern(params: dict[str, Any]) -> bool:
    return "io.modelcontextprotocol/protocolVersion" in (params.get("_meta") or ())
