"""A server of SDK 2.x with an app: a tool that shows it, one that only it may call, and what its frame may do."""

from mcp.server import MCPServer
from mcp.server.apps import Apps, ResourceCsp, ResourcePermissions, client_supports_apps
from mcp.server.mcpserver.context import Context

apps = Apps()
PAGE = "ui://clock/app.html"


@apps.tool(resource_uri=PAGE, description="The time", meta={"ui/resourceUri": PAGE})
def show_time(ctx: Context) -> str:
    """The time, in a way that the client can show."""
    return "apps" if client_supports_apps(ctx) else "text"


@apps.tool(resource_uri=PAGE, visibility=["app"], description="Set the alarm")
def set_alarm(at: str) -> str:
    """Only for the app itself."""
    return f"set to {at}"


apps.add_html_resource(
    PAGE,
    "<html>12:00</html>",
    csp=ResourceCsp(connect_domains=["https://time.example"]),
    permissions=ResourcePermissions(clipboard_write={}),
    prefers_border=True,
)

MCPServer("clock", extensions=[apps]).run()
