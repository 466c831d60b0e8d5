"""List-time wishes: what the configuration says of single tools."""

from dataclasses import replace

from toolcrib.catalog.levels import ToolRules
from toolcrib.catalog.merge import View
from toolcrib.config.model import ServerConfig, ToolConfig
from toolcrib.config.security import SecurityConfig
from toolcrib.core.limits import Limits
from toolcrib.core.tool import Tool

PLAIN = ToolConfig()


def configured_view(server: ServerConfig, security: SecurityConfig) -> View:
    """Give each tool of a server the level, limits and translations that hold for it."""
    rules, plain_limits = ToolRules(server, security), Limits(None, server.rate, server.parallel)

    def view(name: str, tool: Tool) -> tuple[Tool, str]:
        wishes, leveled = server.tools.get(tool.name, PLAIN), rules.level(name, tool)
        shown = replace(
            tool,
            timeout_s=wishes.timeout_s or server.call_timeout_s,
            renames=wishes.parameters,
            replayable=leveled.may_run_twice if wishes.replayable is None else wishes.replayable,
            security_level=leveled.level,
            capabilities=tool.capabilities.union(wishes.capabilities),
            limits=plain_limits if wishes.rate is None else Limits(wishes.rate, server.rate, server.parallel),
            result_limit=wishes.result_limit,
        )
        return shown, rules.policy(name, tool.name).policy if wishes.enabled else "disable"

    return view


def native_view(security: SecurityConfig) -> View:
    """Native tools know themselves; the configuration may still set their level and policy, by pattern."""
    rules = ToolRules(None, security)

    def view(name: str, tool: Tool) -> tuple[Tool, str]:
        level = rules.level(name, tool).level
        shown = tool if level is tool.security_level else replace(tool, security_level=level)
        if tool.reads_results and name not in security.policies:
            return shown, "allow"  # what a caller was given, it may read on
        return shown, rules.policy(name, tool.name).policy

    return view
