"""List-time wishes: what the configuration says of single tools."""

from dataclasses import replace

from toolcrib.catalog.merge import View
from toolcrib.config.model import ServerConfig, ToolConfig
from toolcrib.core.tool import Tool

PLAIN = ToolConfig()


def configured_view(server: ServerConfig) -> View:
    """Hide what is disabled; give each tool the limits and translations that hold for it."""

    def view(tool: Tool) -> Tool | None:
        wishes = server.tools.get(tool.name, PLAIN)
        if not wishes.enabled or wishes.policy == "disable":
            return None
        return replace(
            tool,
            timeout_s=wishes.timeout_s or server.call_timeout_s,
            renames=wishes.parameters,
            replayable=wishes.replayable,
            result_limit=wishes.result_limit,
        )

    return view
