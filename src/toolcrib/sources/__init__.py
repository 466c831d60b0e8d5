"""Where tools come from: native functions and MCP servers. Knows no catalog and no policy."""
