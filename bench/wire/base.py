"""What every wire can do, and MCP in terms of one request."""

from abc import ABC, abstractmethod
from typing import Any, Protocol

PROTOCOL_VERSION = "2025-06-18"
INITIALIZE = {
    "protocolVersion": PROTOCOL_VERSION,
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}


class WireError(RuntimeError):
    """The contender answered with an error, or not as the protocol says."""


class Wire(Protocol):
    """One open connection to a contender."""

    pid: int | None  # the process this wire started, if it did

    async def open(self) -> None: ...
    async def list_tools(self) -> list[str]: ...
    async def call(self, tool: str, message: str) -> str: ...
    async def close(self) -> None: ...


class McpWire(ABC):
    """Handshake, listing and calling over whatever carries one request."""

    pid: int | None = None

    @abstractmethod
    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]: ...

    @abstractmethod
    async def notify(self, method: str) -> None: ...

    async def handshake(self) -> None:
        await self.request("initialize", INITIALIZE)
        await self.notify("notifications/initialized")

    async def list_tools(self) -> list[str]:
        names: list[str] = []
        params: dict[str, Any] = {}
        while True:
            page = await self.request("tools/list", params)
            names += [tool["name"] for tool in page["tools"]]
            if not page.get("nextCursor"):
                return names
            params = {"cursor": page["nextCursor"]}

    async def call(self, tool: str, message: str) -> str:
        """The text that came back; an answer marked as an error is one."""
        result = await self.request("tools/call", {"name": tool, "arguments": {"message": message}})
        if result.get("isError"):
            raise WireError(f"tool error: {str(result)[:300]}")
        text: str = result["content"][0]["text"]
        return text


def unwrap(reply: Any, where: str) -> dict[str, Any]:
    """The result inside a JSON-RPC answer."""
    if not isinstance(reply, dict) or "result" not in reply:
        raise WireError(f"{where}: {str(reply)[:300]}")
    result: dict[str, Any] = reply["result"]
    return result
